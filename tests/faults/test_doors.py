"""The doors, told by the program itself: every route, every command, hostile names.

A file outside holds a canary. Whatever is asked for, in whatever spelling, nobody
gets to see it, nothing is written outside, and no answer is an accident.
"""

from __future__ import annotations

from io import BytesIO, TextIOWrapper
from itertools import product
from pathlib import Path

import pytest

from recollect.cli import main
from recollect.cli.table import COMMANDS
from recollect.errors import ExitCode
from recollect.web.gate import Gate
from tests.faults.sizes import reached, sized
from tests.web.asking import Asking, asking
from tests.web.places import Kept, furnished
from tests.web.test_gate import routes

CANARY = "canary-that-nobody-may-see"
STEPS = ("../", "..%2f", "%2e%2e/", "..\\", "..%5c", "....//", "..%00/", "%252e%252e/")
ENDS = ("canary.txt", "etc/passwd", "archive/archive.db", "%00", "canary.txt%00.css")
BEFORE = ("", "/", "file://", "//attacker.test/", "C:\\", "~/")
NAMES = [
    before + step * depth + end
    for before, step, depth, end in product(BEFORE, STEPS, (1, 3, 9), ENDS)
]
"""Names that would lead out of a folder, were they taken for paths."""
CHOSEN = NAMES[:: sized(20, 1, 1)]

WORDS = [
    *("../../../../etc/passwd", "/etc/passwd", "..", "-", "", " ", "%00", "a" * 5000),
    *("\x1b]0;owned\x07", "\x9b31m", "\u202egnp.exe", "'; DROP TABLE source; --", "*"),
    *("$(touch owned)", "`touch owned`", "{id}", "NaN", "\udcff", "-1", "9" * 400),
]


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Kept:
    place = tmp_path_factory.mktemp("doors")
    (place / "canary.txt").write_text(CANARY, "utf-8")
    return furnished(place)


@pytest.fixture(scope="module")
def page(kept: Kept) -> Asking:
    return asking(kept)


def answers(page: Asking) -> dict[str, list[tuple[int, bytes]]]:
    """Return what every route that takes a name answers to names that lead out."""
    found = {}
    for route in routes():
        if "{" not in route.path:
            continue
        (method,) = (route.methods or {"GET"}) - {"HEAD"}
        before = route.path.partition("{")[0]
        told = []
        for name in CHOSEN:
            answer = page.ask(method, before + name, page.usual)
            told.append((answer.status, answer.body))
        found[route.path] = told
    return found


def test_no_route_leads_out(page: Asking) -> None:
    found = answers(page)

    assert found
    for told in found.values():
        assert {status for status, _ in told} <= {200, 307, 400, 404, 405, 414}
        assert not [body for _, body in told if CANARY.encode() in body]
        assert not [body for _, body in told if b"root:x:0" in body]
        assert not [body for _, body in told if b"SQLite format 3" in body]
    reached("names that lead out, asked of the page", sum(map(len, found.values())))


def open_to_others(page: Asking) -> str | None:
    """Return the first route that answers to a host that is not ours."""
    for route in routes():
        (method,) = (route.methods or {"GET"}) - {"HEAD"}
        path = route.path.replace("{id}", "x").partition("{")[0]
        told = page.ask(method, path, page.usual | {"host": "attacker.test:8765"})
        if told.status != 421:
            return str(route.path)  # behind it are some that go on for ever
    return None


def test_a_gate_that_does_not_look_at_the_host_is_caught(
    kept: Kept, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert open_to_others(asking(kept)) is None
    monkeypatch.setattr(Gate, "_is_host", lambda *_: True)

    assert open_to_others(asking(kept))


ENDLESS = frozenset({"watch", "serve", "mcp"})
"""Commands that go on until they are stopped."""


@pytest.mark.parametrize(
    "name", [row.name for row in COMMANDS if row.name not in ENDLESS]
)
def test_no_command_stumbles_over_a_name(  # noqa: PLR0917
    name: str,
    kept: Kept,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "share"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(kept.home.path))
    monkeypatch.setattr("sys.stdin", TextIOWrapper(BytesIO()))
    codes = {int(code) for code in ExitCode}

    for word in WORDS[:: sized(4, 1, 1)]:
        code = main([name, "--archive", str(kept.folder), "--", word])
        told = "".join(capfd.readouterr())
        assert code in codes, word
        assert "should not have happened" not in told, (word, told)
        assert "Traceback" not in told, word
        assert CANARY not in told
        assert not {"\x1b", "\x07", "\x9b", "\u202e"} & set(told), word
    assert not list(tmp_path.rglob("owned"))
    reached("hostile names given to commands", len(WORDS[:: sized(4, 1, 1)]))
