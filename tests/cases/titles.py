"""Titles and projects of sessions."""

from __future__ import annotations

from tests.build import (
    Home,
    Written,
    meta,
    prompt,
    reply,
    session,
    session_id,
    summary,
    thread,
    title,
)
from tests.forms import command

FIRST, SECOND, THIRD = session_id(1), session_id(2), session_id(3)


def summaries_elsewhere(home: Home) -> None:
    """Summaries are in newer files; leaves, branches and files are distinguished.

    The leaf that is latest gives the title, each branch has its own, and of two
    texts for one leaf the newer file's counts (files are as new as their names say).
    """
    talk = session("p1", "a1<p1", "p2<a1", "a2<p2", "p3<a1", "a3<p3")
    home.session(FIRST, talk)
    home.session(
        SECOND, [summary("Of the last way", "a3"), summary("Of the first way", "a2")]
    )
    home.session(THIRD, [summary("Better, of the last way", "a3"), summary("x", "?")])


def titles_chosen(home: Home) -> None:
    """A chosen title has priority over a generated one; the last of each counts."""
    talk = session("p1", "a1<p1")
    made = [title("Made first"), title("Made\nlast")]
    chosen = [title("Chosen first", custom=True), title("Chosen last", custom=True)]
    home.session(FIRST, [*talk, *made, summary("Summed up", "a1")])
    home.session(
        SECOND,
        [*_named(talk, "2"), *chosen, *made, title("", custom=True), _tag("x")],
    )
    home.session(
        THIRD,
        [*_named(talk, "3"), meta("agent-name", agentName="Tester"), _tag("x"), _tag()],
    )


def titles_found(home: Home) -> None:
    """Without a title: the first prompt, a command, the last prompt, the slug."""
    long = "<ide_selection>x</ide_selection>\x1b[1mAll\n  " + "words " * 60
    home.session(session_id(1), [prompt(long, uuid="p1")])
    home.session(session_id(2), [command("/init", "now", uuid="k2")])
    home.session(session_id(3), [meta("last-prompt", lastPrompt="The last one")])
    silent = reply("Hm.", uuid="a4", slug="calm-blue-river")
    home.session(session_id(4), [silent])
    teammate = prompt("As told", uuid="p5", teamName="crew")
    home.session(session_id(5), [teammate, meta("agent-name", agentName="mate")])


def two_directories_one_key(home: Home) -> None:
    """Folder names cannot be decoded: two directories may share one."""
    home.session(FIRST, _placed("/work/my-demo", "1"), project="-work-my-demo")
    home.session(SECOND, _placed("/work/my.demo", "2"), project="-work-my-demo")


def windows_drives(home: Home) -> None:
    """The editor writes drive letters in lower case, the command line in upper case."""
    home.session(FIRST, _placed("c:\\work\\demo", "1"), project="c--work-demo")
    home.session(SECOND, _placed("C:\\work\\demo", "2"), project="C--work-demo")


def worktrees(home: Home) -> None:
    """A worktree counts as its repository."""
    tree = {"originalCwd": "/work/demo", "worktreePath": "/tmp/tree"}  # noqa: S108 (a path in a record)
    state = meta("worktree-state", worktreeSession=tree)
    place = "/work/demo/.claude/worktrees/fix"
    home.session(FIRST, _placed("/work/demo", "1"))
    home.session(
        SECOND, _placed(place, "2"), project="-work-demo--claude-worktrees-fix"
    )
    home.session(THIRD, [state, *_placed("/tmp/tree", "3")], project="-tmp-tree")  # noqa: S108 (a path in a record)


def _placed(directory: str, name: str) -> list[Written]:
    talk = thread(prompt("Hello", uuid="p"), reply("Hello.", uuid="a"))
    return [record | {"cwd": directory} for record in _named(talk, name)]


def _named(records: list[Written], name: str) -> list[Written]:
    return [
        record
        | {
            "uuid": f"{record['uuid']}-{name}",
            "parentUuid": record["parentUuid"] and f"{record['parentUuid']}-{name}",
            "message": record["message"] | {"id": f"msg_{record['uuid']}-{name}"},
        }
        for record in records
    ]


def _tag(words: str = "") -> Written:
    return meta("tag", tag=words)
