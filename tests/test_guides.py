"""The sessions in the guides are run, and print what the guides show.

A block marked `console` has commands after `$ ` and their output. All blocks of a guide
run in order in the sample data of `bygones demo`. A line `…` means any lines.
`--golden` rewrites the output of commands without such a line.
"""

from __future__ import annotations

import io
import json
import os
import re
import shlex
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from datetime import UTC, datetime, tzinfo
from http import HTTPStatus
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Self
from urllib.request import urlopen

import pytest

from bygones.archive import Archive
from bygones.cli.commands.demo import write_demo_home
from bygones.cli.main import main
from bygones.mcp.server import McpDispatcher
from bygones.mcp.tool_service import Caller, ToolService
from bygones.team.access import open_store
from tests.hub.killing import free_port
from tests.team import servers

ROOT = Path(__file__).resolve().parent.parent
BLOCK = re.compile(r"(?<=^```console\n).*?(?=^```)", re.MULTILINE | re.DOTALL)
GUIDES = [
    path
    for path in sorted((ROOT / "docs" / "guide").glob("*.md"))
    if BLOCK.search(path.read_text("utf-8"))
]
COLUMNS = 96
NOW = datetime(2026, 11, 16, 18, 30, tzinfo=UTC)
VARIABLE = (
    (r"\b\d+(?:\.\d+)? [kM]?B\b", "SIZE"),
    (r"\b(?:Python|apsw|tantivy|zstandard|msgspec) [\d.]+\b", "VERSION"),
    (r"\b\d+%(?: +█+)?", "SHARE"),
    (r"(?<=prices as of )\d{4}-\d\d-\d\d", "DATE"),
    (r"[ \t]+", " "),
)


class _FrozenTime(datetime):
    """The time at which the guides were written."""

    @classmethod
    def now(cls, tz: tzinfo | None = None) -> Self:
        return cls.fromtimestamp(NOW.timestamp(), tz)


class _Output(io.StringIO):
    """A stream that adds to a list, so that two streams keep their order."""

    def __init__(self, parts: list[str], *, is_terminal: bool) -> None:
        super().__init__()
        self._parts = parts
        self._is_terminal = is_terminal

    def write(self, text: str) -> int:
        length = super().write(text)  # rejects bytes, which click tries
        self._parts.append(text)
        return length

    def isatty(self) -> bool:
        return self._is_terminal


def run(line: str) -> str:
    """Run a line of a shell as on a terminal; return what it prints."""
    if not line.startswith("bygones ") or re.search(r" [|>] ", line):
        done = subprocess.run(  # noqa: S602 (our own documents)
            line, shell=True, capture_output=True, text=True, check=False
        )
        return done.stdout + done.stderr
    parts: list[str] = []
    home = str(Path.home())
    arguments = [
        re.sub(r"^~(?=/|$)", home, argument) for argument in shlex.split(line)[1:]
    ]
    with (
        redirect_stdout(_Output(parts, is_terminal=True)),
        redirect_stderr(_Output(parts, is_terminal=False)),
    ):
        main(arguments)
    return "".join(parts)


def split_steps(block: str) -> Iterator[tuple[str, str]]:
    for step in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
        command, _, output = step.partition("\n")
        yield command, output


def normalize(text: str) -> str:
    for pattern, replacement in VARIABLE:
        text = re.sub(pattern, replacement, text)
    return "\n".join(line.strip() for line in text.strip().splitlines())


def is_same(documented: str, printed: str) -> bool:
    parts = re.split(r"^…$", normalize(documented), flags=re.MULTILINE)
    pattern = ".*".join(re.escape(part.strip("\n")) for part in parts)
    return bool(re.fullmatch(rf"\n*{pattern}\n*", normalize(printed), re.DOTALL))


@pytest.fixture
def sample_data(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Create the sample data, as a user of the guides did, and enter its shop."""
    # A short path: lines are wrapped as in the home of a user.
    with TemporaryDirectory(prefix="g", dir="/tmp") as root:
        _enter_samples(Path(root), monkeypatch)
        time.tzset()
        yield Path(root)
        monkeypatch.undo()
        time.tzset()


def _enter_samples(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.startswith(("BYGONES_", "CLAUDE_", "XDG_")):
            monkeypatch.delenv(name)
    home = root / "home" / "ann"
    folder = home / "demo"
    settings = {
        "HOME": home,
        "BYGONES_HOME": write_demo_home(folder, NOW),
        "BYGONES_ARCHIVE": folder / "archive",
        "BYGONES_PAGER": "",
        "COLUMNS": COLUMNS,
        "NO_COLOR": 1,
        "TZ": "UTC",
    }
    for name, value in settings.items():
        monkeypatch.setenv(name, str(value))
    monkeypatch.setattr("bygones.cli.output.datetime", _FrozenTime)
    monkeypatch.chdir(folder / "shop")
    program = root / "bin" / "bygones"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m bygones "$@"\n')
    program.chmod(0o700)
    monkeypatch.setenv("PATH", f"{program.parent}{os.pathsep}{os.environ['PATH']}")


TOOL_CALL = re.compile(
    r"(?<=^```text\n)(\w+)\(([^\n]*)\)\n(.*?)(?=^```)", re.MULTILINE | re.DOTALL
)


@pytest.mark.skipif(os.name == "nt", reason="the guides use a shell")
def test_agents_guide_shows_what_tools_return(
    sample_data: Path, request: pytest.FixtureRequest
) -> None:
    guide = ROOT / "docs" / "guide" / "agents.md"
    folder = Path(os.environ["BYGONES_ARCHIVE"])
    Archive.ingest(folder, [Path(os.environ["BYGONES_HOME"])])
    caller = Caller(directory=Path.cwd(), clock=lambda: NOW, zone=UTC)
    dispatcher = McpDispatcher(ToolService(folder, caller))
    different = []

    def check(call: re.Match[str]) -> str:
        arguments = dict(re.findall(r"(\w+)=(\d+|\"[^\"]*\")", call[2]))
        decoded = {name: json.loads(value) for name, value in arguments.items()}
        params = {"name": call[1], "arguments": decoded}
        (content,) = dispatcher.dispatch("tools/call", params)["content"]
        printed = content["text"].replace(str(sample_data), "") + "\n"
        markers = re.compile("[0-9a-f]{16}")
        if normalize(markers.sub("", printed)) == normalize(markers.sub("", call[3])):
            return call[0]
        different.append((call[3], printed))
        return f"{call[1]}({call[2]})\n{printed}"

    rewritten = TOOL_CALL.sub(check, guide.read_text("utf-8"))
    if request.config.getoption("--golden"):
        guide.write_text(rewritten, "utf-8")
        return

    assert different == []


@pytest.mark.skipif(os.name == "nt", reason="the guides use a shell")
@pytest.mark.parametrize("guide", GUIDES, ids=lambda path: path.stem)
def test_guide_shows_what_is_printed(
    guide: Path, sample_data: Path, request: pytest.FixtureRequest
) -> None:
    text = guide.read_text("utf-8")
    is_rewriting = request.config.getoption("--golden")
    if guide.stem != "archive":
        Archive.ingest(
            Path(os.environ["BYGONES_ARCHIVE"]), [Path(os.environ["BYGONES_HOME"])]
        )

    def check(block: re.Match[str]) -> str:
        steps = []
        for command, documented in split_steps(block[0]):
            printed = run(command).replace(str(sample_data), "")
            steps.append(f"$ {command}\n{printed}")
            if is_same(documented, printed):
                steps[-1] = f"$ {command}\n{documented}"
            elif not is_rewriting or re.search("^…$", documented, re.MULTILINE):
                different.append((command, documented, printed))
        return "".join(steps)

    different: list[tuple[str, str, str]] = []
    rewritten = BLOCK.sub(check, text)
    if is_rewriting:
        guide.write_text(rewritten, "utf-8")

    assert different == []


TEAM_STEPS = re.compile(r"(?<=^```text\n)\$ .*?(?=^```)", re.MULTILINE | re.DOTALL)
TOKEN = re.compile(r"byg_[\w-]{20,}")


@pytest.mark.full
@pytest.mark.skipif(
    servers.missing_postgres() is not None, reason=str(servers.missing_postgres())
)
def test_team_guide_shows_what_is_printed(
    sample_data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The section "Try it" works with a real hub, from the first token to an erasure."""
    guide = (ROOT / "docs" / "guide" / "team.md").read_text("utf-8")
    section = guide.partition("## Try it")[2].partition("## Set up a hub")[0]
    steps = [s for block in TEAM_STEPS.findall(section) for s in split_steps(block)]
    address = f"http://127.0.0.1:{free_port()}"
    folder = Path(os.environ["BYGONES_ARCHIVE"])
    Archive.ingest(folder, [Path(os.environ["BYGONES_HOME"])])
    tokens: list[str] = []
    different = []
    with servers.postgres() as engine:
        monkeypatch.setenv("BYGONES_HUB_STORE", engine.address)
        monkeypatch.setenv("BYGONES_HUB_RAW", str(sample_data / "raw"))
        with _Hub(address) as hub:
            for command, documented in steps:
                match command.split():
                    case ["createdb", *_]:
                        continue
                    case ["bygones", "hub", "serve"]:
                        hub.start()
                        continue
                    case ["cat", _]:
                        _write_settings(documented, address, tokens[0])
                        continue
                    case ["export", variable] if "TOKEN" in variable:
                        monkeypatch.setenv("BYGONES_HUB_TOKEN", tokens[1])
                        continue
                    case ["export", *_]:
                        continue
                    case _:
                        pass
                printed = run(command.replace("http://127.0.0.1:8787", address))
                tokens += TOKEN.findall(printed)
                if _without_names(documented) != _without_names(printed, address):
                    different.append((command, documented, printed))
                if command == "bygones push":
                    hub.wait_until_indexed()

    assert len(steps) > 10
    assert different == []


class _Hub:
    """`bygones hub serve` in a process of its own."""

    def __init__(self, address: str) -> None:
        self._port = address.rpartition(":")[2]
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def start(self) -> None:
        arguments = [
            sys.executable,
            "-m",
            "bygones",
            "hub",
            "serve",
            "--port",
            self._port,
        ]
        self._process = subprocess.Popen(arguments, stderr=subprocess.DEVNULL)
        while not self._is_ready():
            time.sleep(0.1)

    def _is_ready(self) -> bool:
        try:
            with urlopen(f"http://127.0.0.1:{self._port}/ready") as response:
                return bool(response.status == HTTPStatus.OK)
        except OSError:
            return False

    def wait_until_indexed(self) -> None:
        store = open_store(os.environ["BYGONES_HUB_STORE"])
        while store.pending_sources():
            time.sleep(0.1)
        store.close()


def _write_settings(text: str, address: str, token: str) -> None:
    path = Path.home() / ".config" / "bygones" / "settings.toml"
    path.parent.mkdir(parents=True)
    path.write_text(TOKEN.sub(token, text).replace("http://127.0.0.1:8787", address))
    path.chmod(0o600)


def _without_names(text: str, address: str = "http://127.0.0.1:8787") -> str:
    """Return a text without tokens, addresses and ages, which differ each time."""
    text = TOKEN.sub("TOKEN", text).replace(address, "HUB")
    text = re.sub(r"token [0-9a-f]{12}|\d+ \w+ ago", "NAME", text)
    return normalize(text)
