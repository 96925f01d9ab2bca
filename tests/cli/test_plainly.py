"""Plain calls are read as click reads them, and by far less."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import click
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bygones.cli import _PLAIN, main
from bygones.cli.group import CommandGroup
from bygones.cli.plainly import PLAIN, plain_call
from bygones.cli.table import COMMANDS
from bygones.errors import ExitCode

GROUP = CommandGroup(COMMANDS)
VALUES = [
    "1",
    "0",
    "1000",
    "1001",
    "007",
    "+3",
    "x",
    "",
    " ",
    "-1",
    "best",
    "never",
    "~",
]
FLAGS = sorted({flag for plain in PLAIN.values() for flag in plain.options})
WORDS = st.lists(
    st.one_of(
        st.sampled_from(FLAGS),
        st.sampled_from(
            [*FLAGS, "-x", "--", "-", "--help", "--limit=3", "-n5", "-not"]
        ),
        st.sampled_from(VALUES),
        st.text("ab-=: ", max_size=4),
    ),
    max_size=8,
)


def clicked(name: str, words: list[str]) -> dict[str, object]:
    """Return what click makes of the words behind a command."""
    command = GROUP.get_command(click.Context(GROUP), name)
    assert command is not None
    above = click.Context(GROUP, info_name="bygones")
    with command.make_context(name, list(words), parent=above) as context:
        return dict(context.params)


@pytest.mark.parametrize("name", sorted(PLAIN))
def test_what_is_usual_is_what_click_takes_for_granted(name: str) -> None:
    assert plain_call([name]) == {PLAIN[name].words: ()}
    assert {**PLAIN[name].usual, PLAIN[name].words: ()} == clicked(name, [])


@given(st.sampled_from(sorted(PLAIN)), WORDS)
def test_a_plain_call_is_read_as_click_reads_it(name: str, words: list[str]) -> None:
    found = plain_call([name, *words])

    if found is not None:
        assert {**PLAIN[name].usual, **found} == clicked(name, words)


@pytest.mark.parametrize("name", sorted(PLAIN))
def test_every_option_of_a_command_can_be_plain(name: str) -> None:
    command = GROUP.get_command(click.Context(GROUP), name)
    assert command is not None
    options = {flag for param in command.params for flag in param.opts}

    assert options - {"--syntax", PLAIN[name].words} == set(PLAIN[name].options)
    assert set(PLAIN) == _PLAIN


@pytest.mark.parametrize(
    "words",
    [
        ["list", "--project=x"],
        ["list", "-not"],
        ["list", "-n"],
        ["list", "-n", "0"],
        ["list", "--nope"],
        ["search", "--hits", "101"],
        ["search", "--help"],
        ["search", "a", "--", "-b"],
        ["search", "--archive", ""],
        ["search", "--sort", "worst"],
        ["show", "last"],
        [],
    ],
)
def test_what_is_not_plain_is_left_to_click(words: list[str]) -> None:
    assert plain_call(words) is None


@pytest.mark.usefixtures("invented")
@pytest.mark.parametrize(
    "words", [["list"], ["search", "retry"], ["list", "--project", "nope"]]
)
def test_both_ways_print_the_same(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    plain = main(words), capsys.readouterr()
    clicking = main(["--color", "auto", *words]), capsys.readouterr()

    assert plain == clicking


@pytest.mark.usefixtures("invented")
@pytest.mark.parametrize("words", [["list"], ["search", "retry"]])
def test_a_plain_call_loads_little(words: list[str], place: Path) -> None:
    code = (
        "import sys; from bygones.cli import main; code = main(sys.argv[1:]);"
        "print(*sys.modules, file=sys.stderr); sys.exit(code)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, *words],
        capture_output=True,
        text=True,
        check=False,
        cwd=place,
    )
    assert done.returncode == ExitCode.DONE, done.stderr

    loaded = set(done.stderr.split())
    assert not loaded & {"click", "inspect", "dataclasses", "asyncio", "subprocess"}
    assert not loaded & {"bygones.assemble", "bygones.ingest", "bygones.mcp"}
    ours = [name for name in loaded if name.startswith("bygones")]
    most = {"list": 80, "search": 125}[words[0]]
    assert len(ours) <= most, sorted(ours)
    if words[0] == "list":
        assert not loaded & {"tantivy", "zstandard", "hashlib"}
