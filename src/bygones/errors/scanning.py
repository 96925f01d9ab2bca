"""What can go wrong when another program looks for secrets."""

from __future__ import annotations

from collections.abc import Sequence

from bygones.errors.root import BygonesError, ExitCode

__all__ = ["ScannerFailed", "ScannerMissing", "SecretsSuspected"]


class ScannerMissing(BygonesError):
    """A second opinion was asked for, and no program is there to give one."""

    exit_code = ExitCode.ASKED_WRONGLY
    hint = "gitleaks is in many package managers; pip install kingfisher-bin works too"

    def __init__(self, names: Sequence[str]) -> None:
        super().__init__(names)
        self.names = tuple(names)

    def __str__(self) -> str:
        return f"no program for a second opinion is installed: {', '.join(self.names)}"


class ScannerFailed(BygonesError):
    """The program that was to give a second opinion gave none."""

    hint = "nothing was written; run it by itself to see why, or export without it"

    def __init__(self, name: str, code: int) -> None:
        super().__init__(name, code)
        self.name = name
        self.code = code

    def __str__(self) -> str:
        return f"{self.name} gave no opinion, and ended with {self.code}"


class SecretsSuspected(BygonesError):
    """Another program sees a secret in what was about to be written."""

    hint = "nothing was written; hide it by a pattern, or export without the opinion"

    def __init__(self, count: int, kinds: Sequence[str]) -> None:
        super().__init__(count, kinds)
        self.count = count
        self.kinds = tuple(kinds)

    def __str__(self) -> str:
        places = "1 place" if self.count == 1 else f"{self.count:,} places"
        return f"secrets may be left in {places}: {', '.join(self.kinds)}"
