"""Every example in the documents and the help pages is run in the sample data."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path

import click
import pytest

from bygones.archive import Archive
from bygones.cli.commands.demo import write_demo_home
from bygones.cli.commands.registry import COMMANDS
from bygones.cli.group import CommandGroup
from bygones.cli.help_page import split_help
from bygones.cli.main import main
from bygones.errors import ExitCode

ROOT = Path(__file__).resolve().parent.parent
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs" / "guide").glob("*.md"))]
SHELL = re.compile(r"^```sh\n(.*?)^```", re.MULTILINE | re.DOTALL)
NEVER_END = {
    "undo",
    "move",
    "watch",
    "serve",
    "mcp",
    "open",
    "hook",
    "hub",
    "migrate",
    "statusline",
    "integrate",
    "sync",
}
"""Commands that run until they are interrupted, or that need another program."""
CHANGE_SAMPLES = {
    "purge", "restore", "rebuild", "demo", "backup", "ingest", "fork", "repair",
}  # fmt: skip
"""Commands that need sample data of their own; the others share it."""
NAMES = {
    "5e551000": "b9568747",
    "5e551000:3": "b9568747:1",
    "5e551000:12": "b9568747:2",
    "last:12": "last:2",
    "last:4": "last:2",
    "last:7": "last:2",
    "5e55": "b956",
    "6d0f2c1e": "b956",
    "~/.claude": "~/claude-home",
    "transcript.jsonl": "~/claude-home",
    "/mnt/old/.claude": "~/claude-home",
    "old-project": "shop",
    "flaky upload": "retry",
    "src/app.py": "src/checkout.py",
    "src/app.py:42": "src/checkout.py:42",
    "src/app.py:40-60": "src/checkout.py:40-45",
    "src/app.py@last:2": "src/checkout.py@last:2",
    "src/app.py@last:2~2": "src/checkout.py@last:2~2",
    "src/app.py@5e551000:3": "src/checkout.py@b9568747:2",
    "ID": "last",
    "--run": "",
}


def lines() -> Iterator[tuple[str, str]]:
    """Yield the place of an example, and the example."""
    for document in DOCUMENTS:
        for block in SHELL.findall(document.read_text("utf-8")):
            for line in block.splitlines():
                yield document.name, line
    group = CommandGroup(COMMANDS)
    for row in COMMANDS:
        command = group.get_command(click.Context(group), row.name)
        assert command is not None
        for line in split_help(command).examples:
            yield f"{row.name} --help", line


def parse_arguments(line: str) -> list[str] | None:
    """Return the words of an example that can be run."""
    if not line.startswith("bygones "):
        return None
    bare = re.split(r"\s+(?:#|\||>|&&)\s", line)[0]
    arguments = shlex.split(bare)[1:]
    if "--before-compaction" in arguments:
        arguments[arguments.index("last")] = "64fb286e"
    if (
        not arguments
        or arguments[0] in NEVER_END
        or {"--watch", "worktree", "--code", "is:prompts-only"} & {*arguments}
    ):
        return None
    # No example may write outside of the folder of the test.
    meant = [
        re.sub(r"^/(tmp|mnt|media)/", "", NAMES.get(word, word)) for word in arguments
    ]
    kept = "disk/bygones" if arguments[0] == "backup" else "~/archive"
    meant = [kept if word == "disk/bygones" else word for word in meant if word]
    return [*meant, "--yes"] if arguments[0] == "purge" else meant


EXAMPLES = sorted(
    {
        (location, tuple(arguments))
        for location, line in lines()
        if (arguments := parse_arguments(line))
    }
)


def create_samples(folder: Path) -> Path:
    """Create the sample data, its archive and settings in a folder."""
    home = write_demo_home(folder, datetime.now(UTC))
    (folder / "src" / "copy").mkdir(parents=True)
    Archive.ingest(folder / "archive", [home])
    shop = f'[push]\nprojects = ["{folder}/shop"]'
    (folder / "settings.toml").write_text(shop, "utf-8")
    return folder


@pytest.fixture(scope="module")
def shared_samples(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return create_samples(tmp_path_factory.mktemp("samples"))


@pytest.fixture
def samples(
    arguments: Sequence[str],
    shared_samples: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Path:
    """Return the folder of the sample data; the current directory is its shop."""
    is_changed = arguments[0] in CHANGE_SAMPLES
    folder = create_samples(tmp_path) if is_changed else shared_samples
    for name in ("CLAUDE_CONFIG_DIR", "XDG_DATA_HOME", "XDG_STATE_HOME", "COLUMNS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(folder))
    monkeypatch.setenv("USERPROFILE", str(folder))
    monkeypatch.setenv("BYGONES_HOME", str(folder / "claude-home"))
    monkeypatch.setenv("BYGONES_ARCHIVE", str(folder / "archive"))
    monkeypatch.setenv("BYGONES_SETTINGS", str(folder / "settings.toml"))
    monkeypatch.chdir(folder / "shop")
    return folder


@pytest.mark.usefixtures("samples")
@pytest.mark.parametrize(
    ("location", "arguments"),
    EXAMPLES,
    ids=[f"{p}: {' '.join(w)}" for p, w in EXAMPLES],
)
def test_example_succeeds(
    location: str, arguments: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    expanded = [
        str(Path(word).expanduser()) if "~" in word else word for word in arguments
    ]

    code = main(expanded)

    assert code == ExitCode.SUCCESS, (location, capsys.readouterr().err)


def test_there_are_examples_of_every_kind() -> None:
    assert len(EXAMPLES) > 40


ROW = re.compile(r"^### `(\S+)`\n.*?(?=^###|^## |\Z)", re.MULTILINE | re.DOTALL)
FIELD = re.compile(r"^\| `(\w+)` \|", re.MULTILINE)
PAGE = (ROOT / "docs" / "reference" / "schemas.md").read_text("utf-8")
FOR_PROGRAMS = [
    ["list"],
    ["projects"],
    ["show", "b956", "--all", "--tools"],
    ["search", "retry"],
    ["tree", "3d75"],
    ["files", "last"],
    ["blame", "src/checkout.py"],
    ["cat", "src/checkout.py@last:2"],
    ["diff", "last:1", "last:2"],
    ["undo", "last:3", "--dry-run"],
    ["prompts"],
    ["tag", "last", "a"],
    ["tag", "b956", "release"],
    ["note", "last", "words"],
    ["star", "last"],
    ["resume"],
    ["doctor"],
    ["context", "b956:1"],
    ["usage"],
    ["ingest"],
    ["verify", "--deep"],
    ["rebuild"],
    ["restore", "last", "--to", "elsewhere"],
    ["backup", "copy"],
    ["purge", "b956", "--yes"],
    ["push", "--dry-run"],
    ["fork", "b956:2"],
    ["repair"],
    ["export", "b956"],
    ["export", "--all", "--to", "site"],
    ["integrate", "claude"],
    ["demo", "here"],
    ["help"],
    ["help", "list"],
]


@pytest.mark.usefixtures("samples")
@pytest.mark.parametrize("arguments", FOR_PROGRAMS, ids=" ".join)
def test_json_output_has_the_documented_fields(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    documented: dict[str, set[str]] = {}
    for found in ROW.finditer(PAGE):
        documented.setdefault(found[1], {"type"}).update(FIELD.findall(found[0]))

    assert main([*arguments, "--json"]) == ExitCode.SUCCESS

    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert rows
    assert [
        (row["type"], name)
        for row in rows
        for name in row
        if name not in documented.get(row["type"], set())
    ] == []


def test_every_command_with_rows_is_looked_at() -> None:
    group = CommandGroup(COMMANDS)
    context = click.Context(group)
    with_rows = {
        row.name
        for row in COMMANDS
        if (command := group.get_command(context, row.name)) is not None
        and any(param.name == "as_json" for param in command.params)
    }

    assert (
        with_rows - {arguments[0] for arguments in FOR_PROGRAMS}
        <= NEVER_END | OWN_TESTS
    )


OWN_TESTS = {"inspect", "commits", "errors", "sql"}
"""Commands whose JSON has a shape and tests of its own."""
