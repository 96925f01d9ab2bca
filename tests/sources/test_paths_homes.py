"""Claude Code homes in the environment."""

from __future__ import annotations

import unicodedata
from pathlib import Path

import pytest

from bygones.sources.layout import find_homes

pytestmark = pytest.mark.req("F1")


def folder(path: Path) -> Path:
    path.mkdir(parents=True)
    return path


def test_both_default_homes_are_found(tmp_path: Path) -> None:
    old = folder(tmp_path / ".claude")
    new = folder(tmp_path / ".config" / "claude")

    assert find_homes({}, tmp_path) == (old, new)


def test_missing_home_is_left_out(tmp_path: Path) -> None:
    new = folder(tmp_path / ".config" / "claude")

    assert find_homes({}, tmp_path) == (new,)


def test_empty_setting_is_ignored(tmp_path: Path) -> None:
    usual = folder(tmp_path / ".claude")

    assert find_homes({"CLAUDE_CONFIG_DIR": " "}, tmp_path) == (usual,)


def test_setting_replaces_the_default_homes(tmp_path: Path) -> None:
    folder(tmp_path / ".claude")
    chosen = folder(tmp_path / "chosen")

    assert find_homes({"CLAUDE_CONFIG_DIR": str(chosen)}, tmp_path) == (chosen,)


def test_setting_may_name_several_homes_in_order(tmp_path: Path) -> None:
    second, first = folder(tmp_path / "a"), folder(tmp_path / "b")
    setting = f"{first}, {second},{first},,{tmp_path / 'missing'}"

    assert find_homes({"CLAUDE_CONFIG_DIR": setting}, tmp_path) == (first, second)


def test_home_name_may_contain_a_comma(tmp_path: Path) -> None:
    chosen = folder(tmp_path / "this,that")

    assert find_homes({"CLAUDE_CONFIG_DIR": str(chosen)}, tmp_path) == (chosen,)


def test_projects_folder_means_its_home(tmp_path: Path) -> None:
    chosen = folder(tmp_path / "chosen" / "projects").parent

    assert find_homes({"CLAUDE_CONFIG_DIR": f"{chosen}/projects"}, tmp_path) == (
        chosen,
    )


def test_home_may_be_named_projects(tmp_path: Path) -> None:
    chosen = folder(tmp_path / "projects" / "projects").parent

    assert find_homes({"CLAUDE_CONFIG_DIR": str(chosen)}, tmp_path) == (chosen,)


def test_tilde_is_the_user_home(tmp_path: Path) -> None:
    chosen = folder(tmp_path / "chosen")

    assert find_homes({"CLAUDE_CONFIG_DIR": "~/chosen"}, tmp_path) == (chosen,)


def test_setting_is_normalized_to_nfc(tmp_path: Path) -> None:
    chosen = folder(tmp_path / unicodedata.normalize("NFC", "été"))
    setting = unicodedata.normalize("NFD", str(chosen))

    assert find_homes({"CLAUDE_CONFIG_DIR": setting}, tmp_path) == (chosen,)


def test_home_that_exists_only_decomposed_is_found(tmp_path: Path) -> None:
    chosen = folder(tmp_path / unicodedata.normalize("NFD", "été"))

    (home,) = find_homes({"CLAUDE_CONFIG_DIR": str(chosen)}, tmp_path)

    assert home.samefile(chosen)


def test_two_names_of_one_folder_are_one_home(tmp_path: Path) -> None:
    usual = folder(tmp_path / ".claude")
    (tmp_path / ".config").mkdir()
    (tmp_path / ".config" / "claude").symlink_to(usual)

    assert find_homes({}, tmp_path) == (usual,)


def test_invalid_path_as_setting_names_no_home(tmp_path: Path) -> None:
    assert find_homes({"CLAUDE_CONFIG_DIR": "a\0b"}, tmp_path) == ()
    assert find_homes({"CLAUDE_CONFIG_DIR": "x" * 5000}, tmp_path) == ()
