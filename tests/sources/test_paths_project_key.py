"""Project keys; the expected ones come from the algorithm in JavaScript."""

from __future__ import annotations

import re
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bygones.sources import layout
from bygones.sources.layout import project_key

pytestmark = pytest.mark.req("F3")

KNOWN = [
    (
        "/Users/username/workspace/my-project/.amux/workspaces/x",
        "-Users-username-workspace-my-project--amux-workspaces-x",
    ),
    ("C:\\work\\demo", "C--work-demo"),
    ("/mnt/c/x", "-mnt-c-x"),
    ("\\\\server\\share", "--server-share"),
    ("/a_b c@d~e.f", "-a-b-c-d-e-f"),
    ("/home/Ünal/プロ", "-home--nal---"),
    ("/home/a/😀", "-home-a---"),
    ("/" + "a" * 199, "-" + "a" * 199),
    ("/" + "a" * 200, "-" + "a" * 199 + "-b6ymvl"),
    ("/home/dev/" + "deep/" * 60, "-home-dev-" + "deep-" * 38 + "-zc2pnf"),
    ("/pic/" + "😀" * 120, "-pic-" + "-" * 195 + "-mxwbno"),
    ("/data/" + "日本語" * 80, "-data-" + "-" * 194 + "-z0oydm"),
]


@pytest.mark.parametrize(("path", "key"), KNOWN)
def test_project_key_is_that_of_claude_code(path: str, key: str) -> None:
    assert project_key(path) == key


def test_paths_that_differ_in_punctuation_share_a_key() -> None:
    assert len({project_key(f"/x/a{character}b") for character in "-._/ "}) == 1


def test_decomposed_path_has_the_key_of_the_composed_one() -> None:
    path = "/home/été"

    assert project_key(unicodedata.normalize("NFD", path)) == "-home--t-"


def test_long_paths_with_the_same_prefix_have_different_keys() -> None:
    assert project_key("/x" * 150 + "/a") != project_key("/x" * 150 + "/b")


@given(st.text(st.characters(exclude_categories=[])))
def test_key_of_any_text_is_alphanumeric_with_dashes(path: str) -> None:
    key = project_key(path)

    assert re.fullmatch("[A-Za-z0-9-]{0,208}", key)


def test_key_cannot_be_decoded() -> None:
    assert not [name for name in vars(layout) if "decode_project" in name]
