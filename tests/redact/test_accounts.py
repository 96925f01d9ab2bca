"""Accounts are redacted where they are meant, and homes wherever they are."""

from __future__ import annotations

import re

import pytest

from bygones.redact.accounts import homes_of_sources
from bygones.redact.engine import Redactor
from bygones.redact.json import redact_line

CAT = Redactor(accounts=["cat"])


@pytest.mark.parametrize(
    "text",
    [
        "cat README.md | head",
        "$ git log | cat",
        "concatenate with cat, then sort",
        'echo "cat: no such file"',
        "cat /etc/hosts && cat -n a.txt",
        "ls /bin/cat /usr/bin/cat",
    ],
)
def test_account_called_like_a_command_leaves_the_command(text: str) -> None:
    assert CAT.redact_text(text) == text
    raw = f'{{"type":"user","text":{_quote(text)}}}\n'.encode()
    assert redact_line(raw, CAT)[0] == raw


def _quote(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


@pytest.mark.parametrize(
    ("text", "redacted"),
    [
        ("/home/cat/notes", "~/notes"),
        ("/Users/cat/notes: cat notes", "~/notes: cat notes"),
        ("ssh cat@build7 cat x", "ssh [redacted user]@build7 cat x"),
        ("ls ~cat/work", "ls ~[redacted user]/work"),
        ("USER=cat HOME=x", "USER=[redacted user] HOME=x"),
        ('{"login": "cat"}', '{"login": "[redacted user]"}'),
        ("sudo -u cat whoami", "sudo -u [redacted user] whoami"),
        (
            "-rw-r--r-- 1 cat staff 12 Nov 3 cat.txt",
            "-rw-r--r-- 1 [redacted user] staff 12 Nov 3 cat.txt",
        ),
        ("/data/users/cat/app.py", "/data/users/[redacted user]/app.py"),
        ("-home-cat-shop", "-home-[redacted user]-shop"),
    ],
)
def test_account_called_like_a_command_is_redacted_where_it_is_meant(
    text: str, redacted: str
) -> None:
    assert CAT.redact_text(text) == redacted


def test_names_from_the_settings_are_redacted_everywhere() -> None:
    assert Redactor(names=["cat"]).redact_text("the cat") == "the [redacted user]"


def test_account_that_is_no_word_is_redacted_everywhere() -> None:
    assert Redactor(accounts=["zoe"]).redact_text("zoe did") == "[redacted user] did"


@pytest.mark.parametrize(
    ("home", "text", "redacted"),
    [
        ("/srv/accounts/ann", "/srv/accounts/ann/x.py", "~/x.py"),
        ("/srv/accounts/ann", "/srv/accounts/anna/x", "/srv/accounts/anna/x"),
        ("/srv/accounts/ann", "a/srv/accounts/ann/x", "a/srv/accounts/ann/x"),
        ("/srv/accounts/ann", "-srv-accounts-ann-x", "-srv-accounts-[redacted user]-x"),
        ("D:\\Profiles\\ann", "D:\\Profiles\\ann\\x", "~\\x"),
        ("D:\\Profiles\\ann", "d:/Profiles/ann/x", "~/x"),
        ("D:\\Profiles\\ann", "/mnt/d/Profiles/ann/x", "~/x"),
        ("D:\\Profiles\\ann", r"D:\\Profiles\\ann\\x", r"~\\x"),
        ("/var/lib/users/my home", "cd '/var/lib/users/my home/x'", "cd '~/x'"),
    ],
)
def test_home_in_an_unusual_place_is_redacted(
    home: str, text: str, redacted: str
) -> None:
    redactor = Redactor(homes=[home])

    assert redactor.redact_text(text) == redacted
    line = f'{{"type":"user","cwd":{_quote(text)}}}\n'.encode()
    assert redact_line(line, redactor)[0] == (
        f'{{"type":"user","cwd":{_quote(redacted)}}}\n'.encode().rstrip(b"\n")
        if text != redacted
        else line
    )


@pytest.mark.parametrize("home", ["/", "/root", "/data", "/workspace/"])
def test_home_that_says_nothing_about_a_person_is_left(home: str) -> None:
    text = f"{home}/x and {home}"
    assert Redactor(homes=[home]).redact_text(text) == text


def test_homes_are_the_folders_with_claude_code() -> None:
    found = homes_of_sources(["/srv/ann/.claude", "/backup/x", "C:\\P\\ben\\.claude"])
    assert found == {"/srv/ann", "C:\\P\\ben"}


def test_redactor_for_this_machine_leaves_paths_and_accounts() -> None:
    redactor = Redactor(
        names=["acme"], accounts=["ann"], homes=["/srv/ann"]
    ).for_this_machine()
    text = "ann: /srv/ann/x /home/ann/y -home-ann-y"

    assert redactor.redact_text(text) == text
    assert redactor.with_accounts(["bea"]).redact_text("/home/bea") == "/home/bea"
    assert redactor.for_line(f'"{text}"'.encode()) is None
    assert redactor.redact_text("ann for acme, a@b.cd") == (
        "ann for [redacted user], [redacted email]"
    )


@pytest.mark.parametrize("name", ["al", "go", "x"])
def test_short_account_is_redacted_only_where_it_is_meant(name: str) -> None:
    redactor = Redactor(accounts=[name], homes=[f"/home/{name}"])
    meant = (
        f"ssh {name}@build.example.com",
        f"ls ~{name}/work",
        f"drwxr-xr-x 2 {name} staff 64 Nov  1 10:00 notes",
        f"-home-{name}-work",
        f"/home/{name}/work",
    )
    other = ("go build ./...", "et al. and al dente", "x = 5", "for x in all: go(x)")

    for text in meant:
        line = f'{{"type":"user","cwd":{_quote(text)}}}\n'.encode()
        found = redactor.redact_text(text)
        assert "[redacted user]" in found or found.startswith("~"), text
        assert redact_line(line, redactor)[0] != line
    assert [redactor.redact_text(text) for text in other] == list(other)


@pytest.mark.parametrize(
    ("home", "text", "redacted"),
    [
        ("/home/李明", "ssh 李明@host", "ssh [redacted user]@host"),
        ("/home/李明", "file:///home/%E6%9D%8E%E6%98%8E/a", "file://~/a"),
        ("/home/李明", r"/home/\u674e\u660e/a", "~/a"),
        ("/Users/møller", "-Users-m-ller-work", "-Users-[redacted user]-work"),
        ("/home/ann.lee", "-home-ann-lee-work", "-home-[redacted user]-work"),
        ("C:\\Users\\Zoë", "C--Users-Zo--work", "C--Users-[redacted user]-work"),
        ("C:\\Users\\al", "C:\\USERS\\AL\\x", "~\\x"),
        ("/home/cat", r"\\wsl$\Ubuntu\home\cat\x", r"\\~\x"),
        ("/home/cat", r"\\wsl.localhost\Debian\home\cat\x", r"\\~\x"),
    ],
)
def test_other_scripts_and_spellings_of_homes_are_redacted(
    home: str, text: str, redacted: str
) -> None:
    name = re.split(r"[\\/]", home)[-1]
    redactor = Redactor(accounts=[name], homes=[home])

    assert redactor.redact_text(text) == redacted
    line = f'{{"type":"user","cwd":{_quote(text)}}}\n'.encode()
    expected = f'{{"type":"user","cwd":{_quote(redacted)}}}'.encode()
    assert redact_line(line, redactor)[0] == expected
