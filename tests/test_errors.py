"""Messages, hints and exit codes of errors."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from bygones import errors
from bygones.errors import (
    AddressUnavailable,
    AmbiguousSelector,
    ArchiveClosed,
    ArchiveDamaged,
    ArchiveEmpty,
    ArchiveError,
    ArchiveInUse,
    ArchiveNotAFolder,
    ArchiveNotFound,
    ArchiveNotOwned,
    ArchiveTooNew,
    BackupNewer,
    BadRequest,
    BygonesError,
    BytesLost,
    ClaudeNotFound,
    ErasureOnHold,
    ExitCode,
    ExportIncomplete,
    FileModifiedConcurrently,
    HomeNotFound,
    HubRejected,
    HubTokenExposed,
    HubTokenMissing,
    HubUnreachable,
    HubVersionDiffers,
    IndexBusy,
    IndexDamaged,
    IndexNotFound,
    IndexOutdated,
    InvalidAccountName,
    InvalidCursor,
    InvalidFieldValue,
    InvalidHubAddress,
    InvalidPrices,
    InvalidRedactPattern,
    InvalidRegex,
    InvalidSelector,
    InvalidSettings,
    InvalidStoreURL,
    InvalidTime,
    MissingDataPackage,
    MissingDependency,
    MissingFieldValue,
    NoArchiveAndNoHome,
    NotABackup,
    NotADatabase,
    NotATextFile,
    NotATranscript,
    NothingRecovered,
    NothingToFork,
    NothingToUndo,
    NotInArchive,
    NoTranscriptsFound,
    OnlyPromptsKnown,
    PathNotFound,
    PathUnusable,
    ProjectDirectoryGone,
    PurgeUnfinished,
    PushIncomplete,
    PushNotConfigured,
    QueryError,
    QuerySpan,
    QueryTooDeep,
    QueryTooLong,
    RawStoreIncomplete,
    ReaderRoleMissing,
    RemoteCallRejected,
    ScannerFailed,
    ScannerNotFound,
    SecretsDetected,
    SessionsNotIndexed,
    SignInFailed,
    SourceUpdateRejected,
    SqlError,
    SqlForbidden,
    SqlLimitExceeded,
    SqlOnTeamStore,
    StoreError,
    StoreMissing,
    StoreRightsMissing,
    StoreSignInRejected,
    StoreWithoutTables,
    SyncFailed,
    SystemFailure,
    TextsMissing,
    UngroupableField,
    UnknownGrouping,
    UnknownResultNumber,
    UnreadableFile,
    UnsupportedOnTeamStore,
    UploadRejected,
    UploadTooLarge,
)

SPAN = QuerySpan("a is:wrong b", 5, 5)

ERRORS = (
    HomeNotFound(),
    NoTranscriptsFound(Path("a"), Path("b")),
    NotATranscript(Path("a")),
    PathNotFound(Path("a")),
    BadRequest("limit must be a number"),
    InvalidSelector("\udcff"),
    ArchiveNotFound(Path("a")),
    NoArchiveAndNoHome(Path("a")),
    ArchiveTooNew(Path("a"), found_version=9, supported_version=1),
    ArchiveInUse(Path("a")),
    IndexBusy(Path("a"), is_purging=True),
    IndexBusy(Path("a"), is_purging=False),
    ArchiveDamaged(Path("a"), "chunk 7 has another hash"),
    BytesLost(Path("a"), "chunk 7, accepted on 2026-11-19", 1),
    IndexNotFound(Path("a")),
    IndexOutdated(Path("a")),
    PurgeUnfinished(Path("a")),
    AddressUnavailable("127.0.0.1", 80, "permission denied"),
    PathUnusable("a: no such file or directory"),
    IndexDamaged(Path("a"), "page 7 is malformed"),
    ArchiveNotOwned(Path("a")),
    NotADatabase(Path("a"), "file is not a database"),
    NothingRecovered(Path("a"), "it contains nothing of an archive"),
    ArchiveEmpty(Path("a")),
    ArchiveNotAFolder(Path("a")),
    NotABackup(Path("a")),
    BackupNewer(Path("a"), Path("b"), "1 file", has_diverged=False),
    BackupNewer(Path("a"), Path("b"), "1 file", has_diverged=True),
    HubVersionDiffers(),
    RawStoreIncomplete("ann/5c1f/9a0b.zst", 3),
    RemoteCallRejected("unknown method"),
    HubTokenMissing("https://hub.example.com"),
    HubTokenExposed(Path("/home/ann/.config/bygones/hub.token")),
    SignInFailed("the ID token has expired"),
    StoreError("connection refused"),
    StoreMissing('database "hub" does not exist'),
    StoreRightsMissing("permission denied for database hub"),
    StoreSignInRejected('password authentication failed for user "hub"'),
    StoreWithoutTables('relation "session" does not exist'),
    ReaderRoleMissing("permission denied", statements="GRANT bygones_reader TO hub"),
    SourceUpdateRejected(
        "ann/projects/a.jsonl", "its bytes are not those that are there"
    ),
    InvalidStoreURL("it names no person"),
    MissingDependency("psycopg"),
    MissingDataPackage("pyarrow"),
    UnsupportedOnTeamStore("team"),
    SqlOnTeamStore("team"),
    PushNotConfigured("project"),
    PushIncomplete(1, "/h/x.jsonl", ValueError("no such chunk")),
    HubUnreachable("https://hub.example.com", "connection refused"),
    HubRejected("https://hub.example.com", "this needs a token"),
    InvalidHubAddress("ftp://hub", "not a URL with https"),
    ErasureOnHold(3),
    InvalidAccountName("Ann Lee"),
    UploadRejected("it cannot be read"),
    UploadTooLarge("it cannot be read"),
    ExportIncomplete(2, "5e551000", ValueError("no such chunk")),
    SessionsNotIndexed(Path("/a"), 2, "/h/x.jsonl", 1, ValueError("no such chunk")),
    TextsMissing(1, "5e551000", ValueError("no such chunk")),
    ScannerNotFound(["gitleaks"]),
    ScannerFailed("gitleaks", 2),
    SecretsDetected(2, ["github-pat"]),
    NotInArchive("session", "5e55"),
    UnknownResultNumber("7", "the last search found 1 to 3"),
    NotInArchive("session", "5e55", ["5e56", "5e57"]),
    AmbiguousSelector("session", "5e", ["5e55", "5e56"]),
    ClaudeNotFound(),
    SyncFailed("laptop", "the connection was lost"),
    NothingToFork("5e551000"),
    NothingToUndo("undo", "last"),
    OnlyPromptsKnown("5e551000"),
    ProjectDirectoryGone("/work/shop", "5e551000"),
    SystemFailure("no space left on device"),
    InvalidCursor("7 or so"),
    UnreadableFile(Path("settings.json"), "it holds no object"),
    NotATextFile(Path("logo.png")),
    FileModifiedConcurrently(Path("settings.json")),
    InvalidSettings(Path("a"), "x is no table"),
    InvalidRedactPattern("(?<=a)b", "invalid perl operator: (?<"),
    QueryTooLong("a" * 11, 10),
    QueryTooDeep(SPAN, 50),
    MissingFieldValue(SPAN, field="is", example="is:error"),
    InvalidFieldValue(SPAN, field="is", allowed_values=("error", "agent")),
    InvalidFieldValue(
        SPAN, field="is", allowed_values=("error", "agent"), suggestion="has:image"
    ),
    InvalidTime(SPAN, field="on"),
    InvalidRegex(SPAN, detail="nothing to repeat"),
    UngroupableField("tool:Bash"),
    UnknownGrouping("moon"),
    ArchiveClosed(Path("archive")),
    SqlError("no such column: price"),
    SqlForbidden("ATTACH"),
    SqlLimitExceeded("60 seconds"),
    UngroupableField("model:opus", "tool"),
    InvalidPrices(Path("a"), "no price"),
)
ABSTRACT = {"BygonesError", "ArchiveError", "QueryError"}


def tree(error: type[BygonesError]) -> set[str]:
    return {error.__name__}.union(*map(tree, error.__subclasses__()))


def test_docstring_lists_every_error() -> None:
    listed = re.findall(r"^\s*[*+-] (\w+)$", errors.__doc__ or "", re.MULTILINE)

    assert set(listed) == tree(BygonesError)


def test_every_error_has_an_example_here() -> None:
    assert {type(error).__name__ for error in ERRORS} == tree(BygonesError) - ABSTRACT


@pytest.mark.parametrize("error", ERRORS, ids=repr)
def test_message_and_hint_are_one_line_without_a_period(error: BygonesError) -> None:
    for text in (str(error), error.hint):
        assert text
        assert text == text.strip()
        assert "\n" not in text
        assert not text.endswith(".")


def test_no_transcripts_found_lists_the_paths() -> None:
    error = NoTranscriptsFound(Path("a"), Path("b"))

    assert str(error) == "no transcripts in a, b"
    assert error.exit_code is ExitCode.FAILURE


def test_home_not_found_lists_the_default_locations() -> None:
    assert str(HomeNotFound()).startswith("no Claude Code home found in ")


def test_missing_path_is_a_usage_error() -> None:
    error = PathNotFound(Path("a"))

    assert str(error) == "a does not exist"
    assert error.exit_code is ExitCode.USAGE_ERROR


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (ArchiveNotFound, ExitCode.NO_ARCHIVE),
        (ArchiveTooNew, ExitCode.ARCHIVE_TOO_NEW),
        (ArchiveInUse, ExitCode.ARCHIVE_IN_USE),
        (IndexBusy, ExitCode.ARCHIVE_IN_USE),
        (ArchiveDamaged, ExitCode.ARCHIVE_DAMAGED),
        (BytesLost, ExitCode.ARCHIVE_DAMAGED),
        (IndexNotFound, ExitCode.FAILURE),
        (IndexDamaged, ExitCode.FAILURE),
        (ArchiveNotOwned, ExitCode.USAGE_ERROR),
        (NotADatabase, ExitCode.ARCHIVE_DAMAGED),
        (ArchiveEmpty, ExitCode.ARCHIVE_DAMAGED),
        (NothingRecovered, ExitCode.ARCHIVE_DAMAGED),
        (ArchiveNotAFolder, ExitCode.USAGE_ERROR),
        (NotABackup, ExitCode.USAGE_ERROR),
        (BackupNewer, ExitCode.USAGE_ERROR),
    ],
)
def test_archive_errors_have_their_own_exit_codes(
    error: type[ArchiveError], code: ExitCode
) -> None:
    assert error.exit_code is code


def test_not_in_archive_suggests_similar_names() -> None:
    assert str(NotInArchive("session", "5e55", ["5e56", "5e57"])) == (
        "no session '5e55' in the archive; did you mean 5e56, 5e57?"
    )


def test_ambiguous_selector_lists_the_candidates() -> None:
    assert str(AmbiguousSelector("project", "demo", ["/a/demo", "/b/demo"])) == (
        "'demo' matches 2 projects: /a/demo; /b/demo"
    )


def test_ambiguous_selector_has_one_line_per_candidate() -> None:
    assert AmbiguousSelector("session", "5", ["5a", "5b"], 5).lines == (
        "'5' matches 7 sessions:",
        "  5a",
        "  5b",
        "  and 5 more",
    )


@pytest.mark.parametrize(
    ("span", "excerpt"),
    [
        (SPAN, "a is:wrong b\n     ^^^^^"),
        (QuerySpan("a\nb\x1bc", 2, 1), "a b c\n  ^"),
        (QuerySpan("x" * 100, 50, 1), f"{'x' * 61}\n{' ' * 30}^"),
        (QuerySpan("x" * 100, 0, 99), f"{'x' * 100}\n{'^' * 99}"),
        (QuerySpan("x" * 9000, 0, 9000), f"{'x' * 100}\n{'^' * 100}"),
        (QuerySpan("ab", 2, 0), "ab\n  ^"),
    ],
)
def test_query_error_marks_the_invalid_part(span: QuerySpan, excerpt: str) -> None:
    assert QueryError(span).marked_excerpt == excerpt
    assert QueryError(span).exit_code is ExitCode.USAGE_ERROR


def test_invalid_field_value_lists_allowed_values_and_a_suggestion() -> None:
    error = InvalidFieldValue(
        SPAN, field="is", allowed_values=("error",), suggestion="has:wrong"
    )

    assert str(error) == (
        "'wrong' at character 6 is not a value of is:; use error;"
        " did you mean has:wrong?"
    )


def test_unexpected_error_with_a_long_text_is_shortened() -> None:
    error = UnicodeEncodeError("utf-8", "a" * 1_000_000, 0, 1, "surrogates not allowed")

    message = str(PushIncomplete(1, "one.jsonl", error))

    assert "one.jsonl: UnicodeEncodeError('utf-8', 'aaa" in message
    assert len(message) < 400


def test_query_error_shortens_a_long_value() -> None:
    error = InvalidTime(QuerySpan("on:" + "x" * 900, 3, 900), field="on")

    assert len(str(error)) < 120


def test_exit_codes_do_not_change() -> None:
    assert [code.value for code in ExitCode] == [0, 1, 2, 10, 11, 12, 13, 130]
    assert all(code.meaning.endswith(".") for code in ExitCode)


def test_failed_export_names_the_type_of_an_unexpected_error() -> None:
    unexpected = ExportIncomplete(1, "5e551000", KeyError("bug"))
    known = TextsMissing(2, "5e551000", ArchiveDamaged(Path("a.db"), "chunk 2"))

    assert str(unexpected).endswith("the first is 5e551000: KeyError('bug')")
    assert str(known).endswith("the first is 5e551000: a.db is damaged: chunk 2")
