"""Home folders, login names and email addresses."""

from __future__ import annotations

import pytest

from bygones.redact.engine import Redactor
from bygones.redact.personal import login_names_in


@pytest.mark.parametrize(
    ("text", "redacted"),
    [
        ("cat /home/ada/src/x.py", "cat ~/src/x.py"),
        ("cd /Users/ada", "cd ~"),
        (r"C:\Users\ada\src", r"~\src"),
        (r"C:\\Users\\ada\\src", r"~\\src"),
        ("/mnt/c/Users/ada/x", "~/x"),
        ("/homepage/ada", "/homepage/ada"),
        ("/home/j\u00fcrgen/x", "~/x"),
        ("/home/ju\u0308rgen/x", "~/x"),
        (r"C:\Users\Ada Lovelace\x", r"~\x"),
        (r"C:\\Users\\Ada Lovelace\\x", r"~\\x"),
        ("ls /Users/Ada Lovelace/x", "ls ~/x"),
        ("ls /home/\u00c9va Nagy/x", "ls ~/x"),
        ("ls /Users/Jean-Luc van der Berg/x", "ls ~/x"),
        ("ls /Users/Jean-Luc van der Berg", "ls ~"),
        ("cd '/Users/Ada Lovelace' && ls", "cd '~' && ls"),
        ("in /Users/Ada Lovelace\nand", "in ~\nand"),
        (r"C:\Users\Ada Lovelace", "~"),
        ("in /Users/Ada Then it ran on", "in ~ Then it ran on"),
        ("cp /Users/ada src/x", "cp ~ src/x"),
        (r"dir C:\Users\ada and more", "dir ~ and more"),
        ("cp /home/ada src/x", "cp ~ src/x"),
        (r"ls /Users/Grace\ Hopper/x", "ls ~/x"),
        (r"ls /home/grace\ hopper", "ls ~"),
        ("file:///Users/Grace%20Hopper/x", "file://~/x"),
        ("file:///C:/Users/Grace%20Hopper/x", "file:///~/x"),
        (r"dir C:\Users\ada\ and more", r"dir ~\ and more"),
        ("-Users-Grace-Hopper-my-proj", "-Users-[redacted user]-my-proj"),
        ("-Users-Grace-Documents-Wiki", "-Users-[redacted user]-Documents-Wiki"),
        ("-Users-grace-My-Proj", "-Users-[redacted user]-My-Proj"),
        ("j\u00f6rg@firma.dev!", "[redacted email]!"),
        ("info@m\u00fcller.dev", "[redacted email]"),
        (
            "~/.claude/projects/-home-ada-src",
            "~/.claude/projects/-home-[redacted user]-src",
        ),
        ("mail ada@lovelace.dev now", "mail [redacted email] now"),
        ("?to=ada%40lovelace.dev&x", "?to=[redacted email]&x"),
        ("npm/%40types%2Fnode, a%4018.2", "npm/%40types%2Fnode, a%4018.2"),
        ("git%40github.com", "git%40github.com"),
        ("git@github.com:a/b.git", "git@github.com:a/b.git"),
        ("noreply@anthropic.com", "noreply@anthropic.com"),
        ("user@example.com", "user@example.com"),
        ("icon@2x.png", "icon@2x.png"),
        ("react@18.2.0", "react@18.2.0"),
    ],
)
def test_personal_data_is_redacted_and_nothing_else(text: str, redacted: str) -> None:
    assert Redactor().redact_text(text) == redacted


def test_name_is_redacted_only_as_a_whole_word() -> None:
    redactor = Redactor(names=["ada", "Ada Lovelace"])

    assert redactor.redact_text("ADA said: Ada Lovelace, adamant ada_x ada ada") == (
        "[redacted user] said: [redacted user], adamant [redacted user]_x "
        "[redacted user] [redacted user]"
    )


def test_login_names_come_from_home_folders_unless_common() -> None:
    found = login_names_in(
        ["/home/ada/x", "/Users/bob", "/home/runner/work", "/root/x"]
    )

    assert found == {"ada", "bob"}
    assert login_names_in([r"C:\Users\Ada Lovelace\x"]) == {"Ada Lovelace"}
    assert login_names_in(["/Users/ada lovelace/x"]) == {"ada lovelace"}


def test_home_with_a_space_is_redacted_if_its_name_is_known() -> None:
    redactor = Redactor(names=["ada lovelace"])

    assert redactor.redact_text("ls /Users/ada lovelace") == "ls ~"
    assert redactor.redact_text("ls /Users/Ada Lovelace or not") == "ls ~ or not"
    assert redactor.redact_text("ls /Users/ada love") == "ls ~ love"


@pytest.mark.parametrize(
    ("text", "redacted"),
    [
        ("/home/jdoe42/x and JDoe42 said", "~/x and [redacted user] said"),
        ("jdoe42 in /home/jdoe42.", "[redacted user] in ~"),
        (r"/Users/Grace\ Hopper by Grace Hopper", "~ by [redacted user]"),
        ("/home/user/x: the user said", "~/x: the user said"),
        ("/Users/.../x and so on ...", "~/x and so on ..."),
        ("/srv/jdoe42/x and jdoe42 said", "/srv/jdoe42/x and jdoe42 said"),
    ],
)
def test_owner_of_a_home_folder_is_redacted_in_the_same_text(
    text: str, redacted: str
) -> None:
    assert Redactor().redact_text(text) == redacted


def test_name_with_a_space_is_redacted_in_project_keys_and_urls() -> None:
    redactor = Redactor(names=["ada lovelace"])

    assert redactor.redact_text("-Users-ada-lovelace-x") == "-Users-[redacted user]-x"
    assert redactor.redact_text("?by=Ada%20Lovelace") == "?by=[redacted user]"


@pytest.mark.parametrize("before", ["", "\u0130", "\u0130" * 9])
def test_name_is_redacted_after_letters_that_grow_in_lower_case(before: str) -> None:
    redacted = Redactor(names=["ada"]).redact_text(f"{before} Ada, ADA {before}")

    assert redacted == f"{before} [redacted user], [redacted user] {before}"
