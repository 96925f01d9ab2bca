"""Hostile bytes: whatever takes them raises nothing but our errors."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from pathlib import Path
from random import Random

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.faults import fuzzing
from tests.faults.fuzzing import SEEDS, TARGETS, tampered
from tests.faults.sizes import is_usual, reached, seeded, sized

SECONDS = sized(0, 120, 3_600)
SIGNS = st.sampled_from(
    (
        *(b'"', b"\\", b"{", b"}", b"[", b"]", b":", b",", b"\x1b[", b"\x9b"),
        *(b"<script>", b"](http://x)", b"![", b"```", b"NOT ", b"(", b")", b"before:"),
        *(b'{"type":"user"', b"\xff", b"\xed\xa0\x80", b"\xe2\x80\xae", b"\0"),
        *(b"1e999", b"\\ud800"),
    )
)
RAW = st.lists(st.one_of(SIGNS, st.binary(max_size=12)), max_size=25).map(b"".join)
LINES = [
    line
    for path in sorted(SEEDS.rglob("*.jsonl"))
    for line in path.read_bytes().splitlines()[:2]
][:60]


@pytest.mark.parametrize("name", TARGETS)
@settings(max_examples=sized(60, 2_000, 20_000))
@given(raw=RAW)
@example(raw=b"[" * 100_000)
@example(raw=b'{"type":"user","n":' + b"9" * 5000 + b"}")
@example(raw=b'{"type":"user","message":{"content":"\\ud800"}}')
def test_no_bytes_raise_anything(name: str, raw: bytes) -> None:
    TARGETS[name](raw)


@pytest.mark.parametrize("name", TARGETS)
@settings(max_examples=sized(30, 1_000, 10_000))
@given(raw=st.sampled_from(LINES), signs=RAW, cut=st.integers(0, 4000))
def test_no_line_that_was_tampered_with_raises_anything(
    name: str, raw: bytes, signs: bytes, cut: int
) -> None:
    TARGETS[name](raw[:cut] + signs + raw[cut + len(signs) :])


SHARES = {
    "lines": 20,
    "records": 5,
    "markdown": 2,
    "terminal": 20,
    "queries": 3,
    "chunks": 60,
}
"""How often each is tried, of 110: what takes less time, more often."""


@pytest.mark.parametrize("name", TARGETS)
def test_no_bytes_of_very_many_raise_anything(name: str) -> None:
    random = Random(seeded(len(name)))  # noqa: S311 (the same every time)
    count = SHARES[name] * sized(20, 100_000, 1_000_000)
    raw = b""
    try:
        for number in range(count):
            raw = tampered(random, LINES[number % len(LINES)][:300])
            TARGETS[name](raw)
    except Exception:
        print(raw)  # what broke it  # noqa: T201
        raise
    reached(f"{name} tampered with", count)


@pytest.mark.parametrize("name", TARGETS)
@pytest.mark.skipif(is_usual(), reason="takes long")
@pytest.mark.skipif(
    importlib.util.find_spec("atheris") is None, reason="atheris is not installed"
)
def test_a_fuzzer_finds_nothing(name: str, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.faults.fuzzer", name, str(SECONDS), tmp_path],
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
    )

    assert done.returncode == 0, done.stderr[-3000:]
    told = re.search(r"number_of_executed_units: (\d+)", done.stderr)
    assert told
    reached(f"fuzzed {name}", int(told[1]))


def test_a_sanitiser_that_lets_one_sign_through_is_caught(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(fuzzing, "safe_line", lambda text: text)

    with pytest.raises(AssertionError):
        TARGETS["terminal"](b"\x1b]0;owned\x07")
