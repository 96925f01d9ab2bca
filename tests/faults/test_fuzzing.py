"""Fuzzing: hostile bytes raise only our errors."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from random import Random

import pytest
import zstandard
from hypothesis import example, given, settings
from hypothesis import strategies as st

from bygones.render.html.markdown_html import _markdown_parser
from bygones.store.compression import compress
from tests.faults.fuzzing import TARGETS, mutate, seed_inputs
from tests.faults.sizes import is_usual, reached, seeded, sized

SECONDS = sized(0, 120, 3_600)
TOKENS = st.sampled_from(
    (
        *(b'"', b"\\", b"{", b"}", b"[", b"]", b":", b",", b"\x1b[", b"\x9b"),
        *(b"<script>", b"](http://x)", b"![", b"```", b"NOT ", b"(", b")", b"before:"),
        *(b'{"type":"user"', b"\xff", b"\xed\xa0\x80", b"\xe2\x80\xae", b"\0"),
        *(b"1e999", b"\\ud800"),
    )
)
RAW = st.lists(st.one_of(TOKENS, st.binary(max_size=12)), max_size=25).map(b"".join)
COUNT = sized(400, 1_000_000, 10_000_000)
"""Number of mutated inputs for each target."""


@pytest.mark.parametrize("name", TARGETS)
@settings(max_examples=sized(30, 2_000, 20_000))
@given(raw=RAW)
@example(raw=b"[" * sized(10_000, 100_000, 100_000))
@example(raw=b'{"type":"user","n":' + b"9" * 5000 + b"}")
@example(raw=b'{"type":"user","message":{"content":"\\ud800"}}')
def test_no_bytes_raise_anything(name: str, raw: bytes) -> None:
    TARGETS[name](raw)


@pytest.mark.parametrize("name", TARGETS)
@settings(max_examples=sized(30, 1_000, 10_000))
@given(at=st.integers(0, 10_000), inserted=RAW, cut=st.integers(0, 4000))
def test_no_bytes_in_what_is_usually_given_raise_anything(
    name: str, at: int, inserted: bytes, cut: int
) -> None:
    raw = seed_inputs(name)[at % len(seed_inputs(name))]
    TARGETS[name](raw[:cut] + inserted + raw[cut + len(inserted) :])


def fuzz_target(name: str, count: int) -> None:
    """Feed a target with mutations of its usual input."""
    random = Random(seeded(len(name)))  # noqa: S311 (the same every time)
    seeds = seed_inputs(name)
    raw = b""
    try:
        for number in range(count):
            raw = mutate(random, seeds[number % len(seeds)], random.choice(seeds))
            TARGETS[name](raw)
    except Exception:
        print(raw)  # what broke it  # noqa: T201
        raise


@pytest.mark.parametrize("name", TARGETS)
def test_no_bytes_of_very_many_raise_anything(name: str) -> None:
    fuzz_target(name, COUNT)

    reached(f"mutated inputs: {name}", COUNT)


@pytest.mark.parametrize("name", TARGETS)
@pytest.mark.skipif(is_usual(), reason="takes long")
@pytest.mark.skipif(
    importlib.util.find_spec("atheris") is None, reason="atheris is not installed"
)
def test_a_fuzzer_finds_nothing(name: str, tmp_path: Path) -> None:
    process = subprocess.run(
        [sys.executable, "-m", "tests.faults.fuzzer", name, str(SECONDS), tmp_path],
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
    )

    assert process.returncode == 0, process.stderr[-3000:]
    executed = re.search(r"number_of_executed_units: (\d+)", process.stderr)
    assert executed
    reached(f"coverage-guided inputs: {name}", int(executed[1]))


FAULTS: dict[str, tuple[tuple[str, object], ...]] = {
    "reader": (("sources.lines._split_unfinished", lambda start, raw: [(start, raw)]),),
    "lines": (("parse.texts.DECODE_ERRORS", ()), ("parse.decode._SALVAGE_ERRORS", ())),
    "records": (("parse.decode._SALVAGE_ERRORS", UnicodeDecodeError),),
    "recovery": (("parse.decode._repair_json", lambda raw: raw),),
    "markdown": (
        ("render.html.markdown_html._clean", str),
        ("render.html.markdown_html._is_allowed_link", bool),
    ),
    "terminal": (
        (
            "render.text.primitives._rare_pattern",
            lambda: re.compile("[\u202a-\u202e]"),
        ),
    ),
    "queries": (("query.parser._format_quoted", lambda term: term.text),),
    "chunks": (("store.compression.compress", lambda raw: compress(raw)[:-1]),),
}
"""For each target, a part of the product and a plausible bug in it."""


@pytest.mark.parametrize("name", TARGETS)
def test_a_fault_of_what_takes_the_bytes_is_caught(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for what, wrong in FAULTS[name]:
        module, _, name_there = what.rpartition(".")
        monkeypatch.setattr(import_module(f"bygones.{module}"), name_there, wrong)
    _markdown_parser.cache_clear()

    with pytest.raises((AssertionError, ValueError, zstandard.ZstdError)):
        fuzz_target(name, 2_000)
    _markdown_parser.cache_clear()
