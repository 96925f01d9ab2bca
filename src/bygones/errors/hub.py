"""What can go wrong between a machine and its hub."""

from __future__ import annotations

from bygones.errors.root import BygonesError, ExitCode

__all__ = [
    "ErasureHeld",
    "HubRefused",
    "HubUnreachable",
    "NothingNamed",
    "ParcelRefused",
    "TokenRefused",
]


class NothingNamed(BygonesError):
    """Something would be sent, and nobody said what or where to."""

    exit_code = ExitCode.ASKED_WRONGLY
    hint = "docs/guide/team.md shows the settings; nothing leaves that is not named"

    def __init__(self, what: str) -> None:
        super().__init__(what)
        self.what = what

    def __str__(self) -> str:
        return f"[push] in the settings names no {self.what}"


class HubUnreachable(BygonesError):
    """A hub did not answer, however often it was asked."""

    hint = "nothing is lost: the next push goes on where this one stopped"

    def __init__(self, address: str, reason: str) -> None:
        super().__init__(address, reason)
        self.address = address
        self.reason = reason

    def __str__(self) -> str:
        return f"{self.address} cannot be reached: {self.reason}"


class HubRefused(BygonesError):
    """A hub answered, and will not take what it is sent."""

    hint = "look at the address and the token; whoever runs the hub can make a new one"

    def __init__(self, address: str, reason: str) -> None:
        super().__init__(address, reason)
        self.address = address
        self.reason = reason

    def __str__(self) -> str:
        return f"{self.address} refused: {self.reason}"


class TokenRefused(BygonesError):
    """A name that no person or team can have."""

    exit_code = ExitCode.ASKED_WRONGLY
    hint = "use small letters, digits and . _ @ + -; begin with a letter or a digit"

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name

    def __str__(self) -> str:
        return f"{self.name!r} is no name of a person or a team"


class ParcelRefused(BygonesError):
    """What came to a hub is nothing that it could take."""

    exit_code = ExitCode.ASKED_WRONGLY
    hint = "bring both ends to the same version of bygones"

    def __init__(self, why: str) -> None:
        super().__init__(why)
        self.why = why

    def __str__(self) -> str:
        return f"the parcel was refused: {self.why}"


class ErasureHeld(BygonesError):
    """All that would have been erased from a hub is held."""

    hint = "bygones hub hold lists what is held and why; --release takes a hold back"

    def __init__(self, sessions: int) -> None:
        super().__init__(sessions)
        self.sessions = sessions

    def __str__(self) -> str:
        which = "the session that fits" if self.sessions == 1 else "every session"
        return f"nothing was erased: {which} is held ({self.sessions:,})"
