"""Errors are sentences with a hint and an exit code."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from recollect import errors
from recollect.errors import (
    ArchiveDamaged,
    ArchiveInUse,
    ArchiveMissing,
    ArchiveTooNew,
    ExitCode,
    NothingFound,
    PathMissing,
    RecollectError,
)

ERRORS = (
    NothingFound(),
    NothingFound(Path("a"), Path("b")),
    PathMissing(Path("a")),
    ArchiveMissing(Path("a")),
    ArchiveTooNew(Path("a"), found=9, known=1),
    ArchiveInUse(Path("a")),
    ArchiveDamaged(Path("a"), "chunk 7 has another hash"),
)
ABSTRACT = {"RecollectError", "ArchiveError"}


def tree(error: type[RecollectError]) -> set[str]:
    return {error.__name__}.union(*map(tree, error.__subclasses__()))


def test_the_drawn_tree_names_every_error() -> None:
    drawn = re.findall(r"^\s*[*+-] (\w+)$", errors.__doc__ or "", re.MULTILINE)

    assert set(drawn) == tree(RecollectError)


def test_every_error_is_looked_at_here() -> None:
    assert {type(error).__name__ for error in ERRORS} == tree(RecollectError) - ABSTRACT


@pytest.mark.parametrize("error", ERRORS, ids=repr)
def test_an_error_is_one_sentence_with_a_hint(error: RecollectError) -> None:
    for text in (str(error), error.hint):
        assert text
        assert text == text.strip()
        assert "\n" not in text
        assert not text.endswith(".")


def test_nothing_found_says_where_it_looked() -> None:
    error = NothingFound(Path("a"), Path("b"))

    assert str(error) == "no transcripts in a, b"
    assert error.exit_code is ExitCode.FAILED


def test_nothing_found_anywhere_means_there_is_no_home() -> None:
    assert str(NothingFound()) == "this machine has no Claude Code home"


def test_a_missing_path_was_asked_for_wrongly() -> None:
    error = PathMissing(Path("a"))

    assert str(error) == "a does not exist"
    assert error.exit_code is ExitCode.ASKED_WRONGLY


def test_the_exit_codes_are_a_promise() -> None:
    assert [code.value for code in ExitCode] == [0, 1, 2, 10, 11, 12, 13, 130]
    assert all(code.meaning.endswith(".") for code in ExitCode)
