"""Errors are sentences with a hint and an exit code."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from bygones import errors
from bygones.errors import (
    Ambiguous,
    ArchiveDamaged,
    ArchiveEmpty,
    ArchiveError,
    ArchiveForeign,
    ArchiveInUse,
    ArchiveMissing,
    ArchiveTooNew,
    BackupNewer,
    BackupRefused,
    BadRequest,
    BatchRefused,
    BygonesError,
    CursorUnreadable,
    ErasureHeld,
    ExitCode,
    ExtraMissing,
    FieldEmpty,
    FileChanged,
    FileUnreadable,
    HubRefused,
    HubUnreachable,
    IndexAwaited,
    IndexDamaged,
    IndexMissing,
    NameUnreadable,
    NoHome,
    NotADatabase,
    NotAFolder,
    NotArchived,
    NothingFound,
    NothingNamed,
    NothingToShow,
    NotOfTeams,
    NotSummed,
    NumberUnknown,
    ParcelRefused,
    PathMissing,
    PatternRefused,
    Place,
    PlaceUnreadable,
    PricesUnreadable,
    QueryError,
    QueryTooDeep,
    QueryTooLong,
    RegexRefused,
    ResumeRefused,
    ScannerFailed,
    ScannerMissing,
    SecretsSuspected,
    SettingsUnreadable,
    StoreError,
    SystemRefused,
    TimeUnreadable,
    TokenRefused,
    ValueUnknown,
)

PLACE = Place("a is:wrong b", 5, 5)

ERRORS = (
    NoHome(),
    NothingFound(Path("a"), Path("b")),
    PathMissing(Path("a")),
    BadRequest("limit has to be a number"),
    NameUnreadable("\udcff"),
    ArchiveMissing(Path("a")),
    NothingToShow(Path("a")),
    ArchiveTooNew(Path("a"), found=9, known=1),
    ArchiveInUse(Path("a")),
    IndexAwaited(Path("a"), is_erasing=True),
    IndexAwaited(Path("a"), is_erasing=False),
    ArchiveDamaged(Path("a"), "chunk 7 has another hash"),
    IndexMissing(Path("a")),
    IndexDamaged(Path("a"), "page 7 is malformed"),
    ArchiveForeign(Path("a")),
    NotADatabase(Path("a"), "file is not a database"),
    ArchiveEmpty(Path("a")),
    NotAFolder(Path("a")),
    BackupRefused(Path("a")),
    BackupNewer(Path("a"), Path("b"), "1 file", is_parted=False),
    BackupNewer(Path("a"), Path("b"), "1 file", is_parted=True),
    StoreError("connection refused"),
    BatchRefused("ann/projects/a.jsonl", "its bytes are not those that are there"),
    PlaceUnreadable("it names no person"),
    ExtraMissing("psycopg"),
    NotOfTeams("team"),
    NothingNamed("project"),
    HubUnreachable("https://hub.example.com", "connection refused"),
    HubRefused("https://hub.example.com", "this needs a token"),
    ErasureHeld(3),
    TokenRefused("Ann Lee"),
    ParcelRefused("it cannot be read"),
    ScannerMissing(["gitleaks"]),
    ScannerFailed("gitleaks", 2),
    SecretsSuspected(2, ["github-pat"]),
    NotArchived("session", "5e55"),
    NumberUnknown("7", "the last search found 1 to 3"),
    NotArchived("session", "5e55", ["5e56", "5e57"]),
    Ambiguous("session", "5e", ["5e55", "5e56"]),
    ResumeRefused("it is not there"),
    SystemRefused("no space left on device"),
    CursorUnreadable("7 or so"),
    FileUnreadable(Path("settings.json"), "it holds no object"),
    FileChanged(Path("settings.json")),
    SettingsUnreadable(Path("a"), "x is no table"),
    PatternRefused("(?<=a)b", "invalid perl operator: (?<"),
    QueryTooLong("a" * 11, 10),
    QueryTooDeep(PLACE, 50),
    FieldEmpty(PLACE, field="is", example="is:error"),
    ValueUnknown(PLACE, field="is", known=("error", "agent")),
    ValueUnknown(PLACE, field="is", known=("error", "agent"), meant="has:image"),
    TimeUnreadable(PLACE, field="on"),
    RegexRefused(PLACE, detail="nothing to repeat"),
    NotSummed("tool:Bash"),
    NotSummed("model:opus", "tool"),
    PricesUnreadable(Path("a"), "no price"),
)
ABSTRACT = {"BygonesError", "ArchiveError", "QueryError"}


def tree(error: type[BygonesError]) -> set[str]:
    return {error.__name__}.union(*map(tree, error.__subclasses__()))


def test_the_drawn_tree_names_every_error() -> None:
    drawn = re.findall(r"^\s*[*+-] (\w+)$", errors.__doc__ or "", re.MULTILINE)

    assert set(drawn) == tree(BygonesError)


def test_every_error_is_looked_at_here() -> None:
    assert {type(error).__name__ for error in ERRORS} == tree(BygonesError) - ABSTRACT


@pytest.mark.parametrize("error", ERRORS, ids=repr)
def test_an_error_is_one_sentence_with_a_hint(error: BygonesError) -> None:
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
    assert str(NoHome()).startswith("no Claude Code home is found; looked at: ")


def test_a_missing_path_was_asked_for_wrongly() -> None:
    error = PathMissing(Path("a"))

    assert str(error) == "a does not exist"
    assert error.exit_code is ExitCode.ASKED_WRONGLY


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (ArchiveMissing, ExitCode.NO_ARCHIVE),
        (ArchiveTooNew, ExitCode.ARCHIVE_TOO_NEW),
        (ArchiveInUse, ExitCode.ARCHIVE_IN_USE),
        (IndexAwaited, ExitCode.ARCHIVE_IN_USE),
        (ArchiveDamaged, ExitCode.ARCHIVE_DAMAGED),
        (IndexMissing, ExitCode.FAILED),
        (IndexDamaged, ExitCode.FAILED),
        (ArchiveForeign, ExitCode.ASKED_WRONGLY),
        (NotADatabase, ExitCode.ARCHIVE_DAMAGED),
        (ArchiveEmpty, ExitCode.ARCHIVE_DAMAGED),
        (NotAFolder, ExitCode.ASKED_WRONGLY),
        (BackupRefused, ExitCode.ASKED_WRONGLY),
        (BackupNewer, ExitCode.ASKED_WRONGLY),
    ],
)
def test_what_is_wrong_with_an_archive_has_a_code_of_its_own(
    error: type[ArchiveError], code: ExitCode
) -> None:
    assert error.exit_code is code


def test_a_name_that_is_not_archived_may_be_a_slip_of_the_pen() -> None:
    assert str(NotArchived("session", "5e55", ["5e56", "5e57"])) == (
        "the archive has no session '5e55'; did you mean 5e56, 5e57?"
    )


def test_an_ambiguous_name_says_what_it_may_mean() -> None:
    assert str(Ambiguous("project", "demo", ["/a/demo", "/b/demo"])) == (
        "'demo' may be project /a/demo or /b/demo"
    )


@pytest.mark.parametrize(
    ("place", "pointed"),
    [
        (PLACE, "a is:wrong b\n     ^^^^^"),
        (Place("a\nb\x1bc", 2, 1), "a b c\n  ^"),
        (Place("x" * 100, 50, 1), f"{'x' * 61}\n{' ' * 30}^"),
        (Place("x" * 100, 0, 99), f"{'x' * 100}\n{'^' * 99}"),
        (Place("x" * 9000, 0, 9000), f"{'x' * 100}\n{'^' * 100}"),
        (Place("ab", 2, 0), "ab\n  ^"),
    ],
)
def test_a_wrong_query_is_shown_with_marks_under_the_place(
    place: Place, pointed: str
) -> None:
    assert QueryError(place).pointed == pointed
    assert QueryError(place).exit_code is ExitCode.ASKED_WRONGLY


def test_an_error_in_a_query_says_what_would_be_right() -> None:
    error = ValueUnknown(PLACE, field="is", known=("error",), meant="has:wrong")

    assert str(error) == (
        "'wrong' at character 6 is no value of is:, which has error;"
        " did you mean has:wrong?"
    )


def test_an_error_in_a_query_does_not_repeat_all_of_a_long_value() -> None:
    error = TimeUnreadable(Place("on:" + "x" * 900, 3, 900), field="on")

    assert len(str(error)) < 120


def test_the_exit_codes_are_a_promise() -> None:
    assert [code.value for code in ExitCode] == [0, 1, 2, 10, 11, 12, 13, 130]
    assert all(code.meaning.endswith(".") for code in ExitCode)
