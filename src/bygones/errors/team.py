"""What can go wrong with an archive that many people share."""

from __future__ import annotations

from bygones.errors.root import BygonesError, ExitCode

__all__ = [
    "BatchRefused",
    "ExtraMissing",
    "NotOfTeams",
    "PlaceUnreadable",
    "StoreError",
]


class StoreError(BygonesError):
    """The engine of a team's archive did not do what was asked."""

    hint = "look whether the server runs, and whether its address and rights are right"

    def __init__(self, told: str, *, is_of_row: bool = False) -> None:
        super().__init__(told)
        self.told = told
        self.is_of_row = is_of_row
        """Whether it cannot take what it was given, whenever that is tried again."""

    def __str__(self) -> str:
        return f"the team's store: {self.told}"


class BatchRefused(BygonesError):
    """What was sent does not fit what is there."""

    hint = "ask the hub up to where it has the source, and go on from there"

    def __init__(self, source: str, why: str) -> None:
        super().__init__(source, why)
        self.source = source
        self.why = why

    def __str__(self) -> str:
        return f"{self.source} was refused: {self.why}"


class PlaceUnreadable(BygonesError):
    """An address of a team's archive does not say what it has to."""

    exit_code = ExitCode.ASKED_WRONGLY
    hint = "write postgresql://server/database?person=ann, or clickhouse://server?…"

    def __init__(self, why: str) -> None:
        super().__init__(why)
        self.why = why

    def __str__(self) -> str:
        return f"the address of the archive cannot be used: {self.why}"


class ExtraMissing(BygonesError):
    """What is asked for needs packages that are not installed."""

    hint = "run `pip install bygones[team]`"

    def __init__(self, package: str) -> None:
        super().__init__(package)
        self.package = package

    def __str__(self) -> str:
        return f"this needs {self.package}, which is not installed"


class NotOfTeams(BygonesError):
    """What works on the files of a folder was asked of a team's archive."""

    exit_code = ExitCode.ASKED_WRONGLY
    hint = "use an archive in a folder; a team's is kept with `bygones hub`"

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name

    def __str__(self) -> str:
        return f"{self.name} is a team's archive, which has no files of its own"
