"""The doors, told by the program itself: every route, command and tool, hostile names.

A file outside holds a canary. Whatever is asked for, in whatever spelling, nobody
gets to see it, nothing is written outside, and no answer is an accident.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC
from io import BytesIO, TextIOWrapper
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from recollect.cli import main
from recollect.cli.table import COMMANDS
from recollect.errors import ExitCode
from recollect.mcp.asking import FileHistoryAsked
from recollect.mcp.offers import prompt_listing
from recollect.mcp.protocol import Refused, Speaker
from recollect.mcp.recall import Caller, Recall
from recollect.mcp.tools import BY_NAME, listing
from recollect.web.gate import Gate
from tests.build import CWD
from tests.faults.sizes import reached, sized
from tests.web.asking import Asking, asking
from tests.web.places import PLAIN, Kept, furnished
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


def tools_of(kept: Kept) -> Speaker:
    """Return the server for agents over an archive."""
    caller = Caller(directory=Path(CWD), session=None, clock=lambda: kept.now, zone=UTC)
    return Speaker(Recall(kept.folder, caller))


def requests(words: list[str]) -> Iterator[tuple[str, dict[str, object]]]:
    """Yield what can be asked of the server, with each word in each place for text."""
    for tool in listing():
        schema = tool["inputSchema"]
        needed = dict.fromkeys(schema.get("required", ()), PLAIN)
        for name, told in schema["properties"].items():
            if told.get("type") == "string":
                for word in words:
                    given = {**needed, name: word}
                    yield "tools/call", {"name": tool["name"], "arguments": given}
    for word in words:
        yield "resources/read", {"uri": f"recollect://session/{word}"}
        yield "resources/read", {"uri": word}
        yield "tools/call", {"name": word, "arguments": {}}
        for prompt in prompt_listing():
            (place,) = prompt["arguments"]
            words_of = {place["name"]: word}
            yield "prompts/get", {"name": prompt["name"], "arguments": words_of}


def told_to_agents(kept: Kept, words: list[str]) -> list[str]:
    """Return all that agents are told when they ask so."""
    speaker = tools_of(kept)
    told = []
    for method, given in requests(words):
        try:
            told.append(text_of(speaker.answer(method, given)))
        except Refused as error:
            told.append(str(error))
    return told


def text_of(answer: dict[str, Any]) -> str:
    """Return what an answer says; the words of a prompt are the asker's own."""
    (found,) = answer.get("content") or answer.get("contents") or [{"text": ""}]
    return str(found["text"])


def state_of(folder: Path) -> dict[str, bytes]:
    """Return what lies in a folder, but for what readers keep beside it."""
    files = [path for path in folder.rglob("*") if path.is_file()]
    return {
        str(path): path.read_bytes()
        for path in files
        if not path.name.endswith(("-shm", "-wal", ".lock"))
    }


def ways_out(kept: Kept) -> list[str]:
    """Return names that lead out, and the one where the canary really is."""
    real = str(kept.folder.parent / "canary.txt")
    return [real, f"file://{real}", *CHOSEN[:: sized(3, 1, 1)], *WORDS]


def test_no_tool_leads_out_or_changes_anything(kept: Kept) -> None:
    before = state_of(kept.folder)

    told = told_to_agents(kept, ways_out(kept))

    assert not [text for text in told if CANARY in text or "root:x:0" in text]
    assert not [text for text in told if "SQLite format 3" in text]
    assert not [text for text in told if "should not have happened" in text]
    assert {c for text in told for c in text if not c.isprintable()} <= {"\n", "\t"}
    assert state_of(kept.folder) == before
    reached("hostile words given to tools of agents", len(told))


def test_a_tool_that_opens_what_it_is_told_is_caught(
    kept: Kept, monkeypatch: pytest.MonkeyPatch
) -> None:
    def careless(_: Recall, asked: FileHistoryAsked) -> str:
        path = Path(asked.path)
        return path.read_text("utf-8") if path.exists() else ""

    tool = BY_NAME["file_history"]._replace(answer=careless)
    monkeypatch.setitem(BY_NAME, "file_history", tool)

    told = told_to_agents(kept, ways_out(kept)[:1])

    assert [text for text in told if CANARY in text]
