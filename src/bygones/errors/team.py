"""Errors of hubs and of the stores of teams."""

from __future__ import annotations

from pathlib import Path

from bygones.errors.base import BygonesError, ExitCode, describe_error


class PushNotConfigured(BygonesError):
    """The settings do not say which projects to push, or where."""

    setting: str

    exit_code = ExitCode.USAGE_ERROR
    message = "the settings have no {self.setting} under [push]"
    hint = (
        'add [push] with hub = "https://…" and projects = ["~/work/shop"] to'
        " settings.toml; `bygones doctor` shows its path"
    )


class PushIncomplete(BygonesError):
    """Some files could not be redacted and were not pushed; the others were."""

    count: int
    first_file: str
    first_error: Exception

    hint = "all other files are sent; each push tries these again"

    def __str__(self) -> str:
        files = "1 file" if self.count == 1 else f"{self.count:,} files"
        what = f"{files} could not be redacted; the first is {self.first_file}"
        return f"{what}: {describe_error(self.first_error)}"


class HubUnreachable(BygonesError):
    """A hub did not answer after all retries."""

    url: str
    reason: str

    message = "{self.url} cannot be reached: {self.reason}"
    hint = (
        "check the address and your connection, then try again;"
        " a push continues where it stopped"
    )


class HubRejected(BygonesError):
    """A hub answered and rejected the request."""

    url: str
    reason: str

    message = "{self.url} rejected the request: {self.reason}"
    hint = (
        "check the address and the token; the hub's administrator issues tokens and"
        " sets limits"
    )


class InvalidHubAddress(BygonesError):
    """The address of a hub is not a URL, or not encrypted."""

    url: str
    reason: str

    exit_code = ExitCode.USAGE_ERROR
    message = "invalid address {self.url!r}: {self.reason}"
    hint = "use an address like https://hub.example.com"


class HubTokenMissing(BygonesError):
    """There is no token for a hub."""

    url: str

    message = "there is no token for {self.url}"
    hint = "run `bygones hub login` with this address, or set BYGONES_HUB_TOKEN"


class HubTokenExposed(BygonesError):
    """A file with a token can be read by other users."""

    path: Path

    message = "other users can read the token in {self.path}"
    hint = "make the file private with `chmod 600`"


class SignInFailed(BygonesError):
    """Signing in with the provider of a hub failed."""

    reason: str

    message = "the sign-in failed: {self.reason}"
    hint = "try again, or ask the administrator of the hub for a token"


class InvalidAccountName(BygonesError):
    """A name is not valid for a person or a team."""

    name: str

    exit_code = ExitCode.USAGE_ERROR
    message = "{self.name!r} is not a valid name for a person or a team"
    hint = "use lowercase letters, digits and . _ @ + -; start with a letter or a digit"


class UploadRejected(BygonesError):
    """A hub received an upload that it cannot accept."""

    reason: str

    exit_code = ExitCode.USAGE_ERROR
    message = "the upload was rejected: {self.reason}"
    hint = "use the same version of Bygones on both sides"


class UploadTooLarge(UploadRejected):
    """An upload, its file or its sender has more bytes than the hub accepts."""

    hint = "ask the administrator of the hub for a higher limit"


class ErasureOnHold(BygonesError):
    """All sessions that were selected for erasure on a hub are on hold."""

    session_count: int

    hint = "`bygones hub hold` lists holds and reasons; --release removes one"

    def __str__(self) -> str:
        which = "the session" if self.session_count == 1 else "every session"
        return f"nothing was erased: {which} is on hold ({self.session_count:,})"


class StoreError(BygonesError):
    """The database of a hub failed."""

    detail: str
    is_permanent: bool = False
    """Whether trying again cannot help."""

    message = "the database of the hub failed: {self.detail}"
    hint = "check its address and your permissions, and that the server is running"


class StoreMissing(StoreError):
    """The server does not have the database of a hub."""

    hint = "check its name, or create it: `createdb NAME`"


class StoreWithoutTables(StoreError):
    """A database does not have the tables of a hub."""

    message = "the database has no tables of a hub: {self.detail}"
    hint = "check its name; `bygones hub serve` creates the tables of a new hub"


class StoreSignInRejected(StoreError):
    """The server rejected the user of a hub's database."""

    hint = (
        "check user and password; PGPASSWORD or a password file keeps a password out"
        " of the address"
    )


class StoreRightsMissing(StoreError):
    """The user of a hub's database lacks rights."""

    hint = (
        "the user must own the database (PostgreSQL: `ALTER DATABASE … OWNER TO …`),"
        " or have all rights on it (ClickHouse: `GRANT ALL ON … TO …`)"
    )


class ReaderRoleMissing(StoreError):
    """The user of a hub's database may not create or use the role of readers."""

    statements: str = ""

    message = (
        "the database of the hub failed: {self.detail}; an administrator of the"
        " server has to run once: {self.statements}"
    )
    hint = "run the statements with psql as a superuser, then try again"


class HubVersionDiffers(BygonesError):
    """The hub of a database has another version than this command."""

    message = "the hub of this database has another version of Bygones"
    hint = (
        "start the hub with this version first, which builds its index again, or run"
        " the command with the version of the hub"
    )


class RawStoreIncomplete(BygonesError):
    """Uploaded bytes that the database refers to are missing in the raw store."""

    first_address: str
    count: int

    message = (
        "the raw store lacks {self.count:,} uploaded objects, such as"
        " {self.first_address}"
    )
    hint = "check --raw, or restore the backup of the raw store"


class SourceUpdateRejected(BygonesError):
    """Bytes that were pushed do not continue the stored source."""

    source_name: str
    reason: str

    message = "{self.source_name} was rejected: {self.reason}"
    hint = "ask the hub how much of the source it has, and continue from there"


class RemoteCallRejected(BygonesError):
    """A request to read from a hub is not valid."""

    reason: str

    message = "the request was rejected: {self.reason}"
    hint = "use the same version of Bygones as the hub"


class InvalidStoreURL(BygonesError):
    """The address of a hub or of its database is invalid."""

    reason: str

    exit_code = ExitCode.USAGE_ERROR
    message = "invalid address: {self.reason}"
    hint = (
        "use https://hub.example.com, or for its database"
        " postgresql://server/database or clickhouse://server/database"
    )


class MissingDependency(BygonesError):
    """An optional package is not installed."""

    package: str

    message = "this needs {self.package}, which is not installed"
    hint = "run `pip install 'bygones[team]'`"


class MissingDataPackage(MissingDependency):
    """The package for Arrow and Parquet is not installed."""

    hint = "run `pip install 'bygones[data]'`"


class UnsupportedOnTeamStore(BygonesError):
    """A command needs the files of an archive folder."""

    name: str

    exit_code = ExitCode.USAGE_ERROR
    message = "{self.name} is a hub or its database, not an archive folder"
    hint = "name a folder with --archive; `bygones hub` manages a hub"


class SqlOnTeamStore(UnsupportedOnTeamStore):
    """SQL, Arrow and Parquet are built from an archive folder."""

    message = (
        "{self.name} is a hub or its database, which `sql` and Parquet cannot read"
    )
    hint = (
        "name a folder with --archive; on a hub use list, search or usage with --json"
    )
