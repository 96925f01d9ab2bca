"""The errors that Bygones raises, with message, hint and exit code.

* BygonesError
  - NoTranscriptsFound
    + HomeNotFound
    + NotATranscript
  - PathNotFound
  - InvalidSelector
  - NotInArchive
    + NothingToUndo
  - UnknownResultNumber
  - AmbiguousSelector
  - AddressUnavailable
  - SystemFailure
    + PathUnusable
  - ClaudeNotFound
  - SyncFailed
  - NothingToFork
  - OnlyPromptsKnown
  - ProjectDirectoryGone
  - InvalidRedactPattern
  - InvalidSettings
  - InvalidPrices
  - InvalidCursor
  - UnreadableFile
  - NotATextFile
  - FileModifiedConcurrently
  - BadRequest
  - QueryError
    + QueryTooLong
    + QueryTooDeep
    + MissingFieldValue
    + InvalidFieldValue
    + InvalidTime
    + InvalidRegex
    + UngroupableField
  - UnknownGrouping
  - SqlError
    + SqlForbidden
  - SqlLimitExceeded
  - ArchiveError
    + ArchiveNotFound
      * NoArchiveAndNoHome
    + ArchiveTooNew
    + ArchiveClosed
    + ArchiveInUse
      * IndexBusy
    + ArchiveNotOwned
    + ArchiveNotAFolder
    + ArchiveDamaged
      * NotADatabase
        - ArchiveEmpty
      * BytesLost
      * NothingRecovered
    + SessionsNotIndexed
    + IndexOutdated
    + IndexNotFound
      * PurgeUnfinished
    + IndexDamaged
    + NotABackup
    + BackupNewer
  - RawStoreIncomplete
  - RemoteCallRejected
  - SignInFailed
  - StoreError
    + ReaderRoleMissing
    + StoreMissing
    + StoreRightsMissing
    + StoreSignInRejected
    + StoreWithoutTables
  - SourceUpdateRejected
  - InvalidStoreURL
  - MissingDependency
    + MissingDataPackage
  - UnsupportedOnTeamStore
    + SqlOnTeamStore
  - PushNotConfigured
  - PushIncomplete
  - HubTokenExposed
  - HubTokenMissing
  - HubUnreachable
  - HubRejected
  - HubVersionDiffers
  - InvalidHubAddress
  - ErasureOnHold
  - InvalidAccountName
  - UploadRejected
    + UploadTooLarge
  - ScannerNotFound
  - ScannerFailed
  - SecretsDetected
  - ExportIncomplete
    + TextsMissing

A `bygones.model.base.Problem` is not an error: it describes something odd in a
transcript, is stored with the records and never raised.
"""

from __future__ import annotations

from bygones.errors.archive import (
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
    BytesLost,
    IndexBusy,
    IndexDamaged,
    IndexNotFound,
    IndexOutdated,
    NoArchiveAndNoHome,
    NotABackup,
    NotADatabase,
    NothingRecovered,
    PurgeUnfinished,
    SessionsNotIndexed,
)
from bygones.errors.base import (
    BygonesError,
    ExitCode,
)
from bygones.errors.export import (
    ExportIncomplete,
    ScannerFailed,
    ScannerNotFound,
    SecretsDetected,
    TextsMissing,
)
from bygones.errors.queries import (
    InvalidFieldValue,
    InvalidRegex,
    InvalidTime,
    MissingFieldValue,
    QueryError,
    QuerySpan,
    QueryTooDeep,
    QueryTooLong,
    SqlError,
    SqlForbidden,
    SqlLimitExceeded,
    UngroupableField,
    UnknownGrouping,
)
from bygones.errors.selectors import (
    AmbiguousSelector,
    BadRequest,
    HomeNotFound,
    InvalidCursor,
    InvalidSelector,
    NotATranscript,
    NothingToFork,
    NothingToUndo,
    NotInArchive,
    NoTranscriptsFound,
    OnlyPromptsKnown,
    PathNotFound,
    UnknownResultNumber,
)
from bygones.errors.system import (
    AddressUnavailable,
    ClaudeNotFound,
    FileModifiedConcurrently,
    InvalidPrices,
    InvalidRedactPattern,
    InvalidSettings,
    NotATextFile,
    PathUnusable,
    ProjectDirectoryGone,
    SyncFailed,
    SystemFailure,
    UnreadableFile,
)
from bygones.errors.team import (
    ErasureOnHold,
    HubRejected,
    HubTokenExposed,
    HubTokenMissing,
    HubUnreachable,
    HubVersionDiffers,
    InvalidAccountName,
    InvalidHubAddress,
    InvalidStoreURL,
    MissingDataPackage,
    MissingDependency,
    PushIncomplete,
    PushNotConfigured,
    RawStoreIncomplete,
    ReaderRoleMissing,
    RemoteCallRejected,
    SignInFailed,
    SourceUpdateRejected,
    SqlOnTeamStore,
    StoreError,
    StoreMissing,
    StoreRightsMissing,
    StoreSignInRejected,
    StoreWithoutTables,
    UnsupportedOnTeamStore,
    UploadRejected,
    UploadTooLarge,
)

__all__ = [
    "AddressUnavailable",
    "AmbiguousSelector",
    "ArchiveClosed",
    "ArchiveDamaged",
    "ArchiveEmpty",
    "ArchiveError",
    "ArchiveInUse",
    "ArchiveNotAFolder",
    "ArchiveNotFound",
    "ArchiveNotOwned",
    "ArchiveTooNew",
    "BackupNewer",
    "BadRequest",
    "BygonesError",
    "BytesLost",
    "ClaudeNotFound",
    "ErasureOnHold",
    "ExitCode",
    "ExportIncomplete",
    "FileModifiedConcurrently",
    "HomeNotFound",
    "HubRejected",
    "HubTokenExposed",
    "HubTokenMissing",
    "HubUnreachable",
    "HubVersionDiffers",
    "IndexBusy",
    "IndexDamaged",
    "IndexNotFound",
    "IndexOutdated",
    "InvalidAccountName",
    "InvalidCursor",
    "InvalidFieldValue",
    "InvalidHubAddress",
    "InvalidPrices",
    "InvalidRedactPattern",
    "InvalidRegex",
    "InvalidSelector",
    "InvalidSettings",
    "InvalidStoreURL",
    "InvalidTime",
    "MissingDataPackage",
    "MissingDependency",
    "MissingFieldValue",
    "NoArchiveAndNoHome",
    "NoTranscriptsFound",
    "NotABackup",
    "NotADatabase",
    "NotATextFile",
    "NotATranscript",
    "NotInArchive",
    "NothingRecovered",
    "NothingToFork",
    "NothingToUndo",
    "OnlyPromptsKnown",
    "PathNotFound",
    "PathUnusable",
    "ProjectDirectoryGone",
    "PurgeUnfinished",
    "PushIncomplete",
    "PushNotConfigured",
    "QueryError",
    "QuerySpan",
    "QueryTooDeep",
    "QueryTooLong",
    "RawStoreIncomplete",
    "ReaderRoleMissing",
    "RemoteCallRejected",
    "ScannerFailed",
    "ScannerNotFound",
    "SecretsDetected",
    "SessionsNotIndexed",
    "SignInFailed",
    "SourceUpdateRejected",
    "SqlError",
    "SqlForbidden",
    "SqlLimitExceeded",
    "SqlOnTeamStore",
    "StoreError",
    "StoreMissing",
    "StoreRightsMissing",
    "StoreSignInRejected",
    "StoreWithoutTables",
    "SyncFailed",
    "SystemFailure",
    "TextsMissing",
    "UngroupableField",
    "UnknownGrouping",
    "UnknownResultNumber",
    "UnreadableFile",
    "UnsupportedOnTeamStore",
    "UploadRejected",
    "UploadTooLarge",
]
