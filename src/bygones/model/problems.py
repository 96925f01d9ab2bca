"""What can be odd about somebody's transcript: values, never raised."""

from __future__ import annotations

from msgspec import Struct

from bygones.model.ids import Position

__all__ = ["PROBLEM_KINDS", "Problem", "ProblemKind"]


class ProblemKind(Struct, frozen=True):
    """A kind of problem, and what it means to the reader."""

    name: str
    meaning: str


PROBLEM_KINDS = {
    kind.name: kind
    for kind in (
        ProblemKind("vanished", "the file was listed and gone when it was opened"),
        ProblemKind("unreadable", "the file or folder could not be opened or read"),
        ProblemKind("shrunk", "the file is shorter than what was read of it before"),
        ProblemKind("not-a-file", "a folder or device has the name of a transcript"),
        ProblemKind("link-out", "a link leads out of the home and was not followed"),
        ProblemKind("blank", "the line is empty"),
        ProblemKind("cut-line", "the last line is not finished yet, or never was"),
        ProblemKind("not-json", "the line, or a part of it, is not JSON"),
        ProblemKind("spliced", "one line holds several records or a torn one"),
        ProblemKind("nul-run", "zero bytes stand where a record should be"),
        ProblemKind("bom", "a byte order mark stands before the first record"),
        ProblemKind("mended", "characters or numbers that are not JSON were replaced"),
        ProblemKind("too-deep", "values are nested too deeply to be decoded"),
        ProblemKind("not-an-object", "the line is JSON but not an object"),
        ProblemKind("no-type", "the record does not say of which type it is"),
        ProblemKind("odd-field", "a field has an unexpected shape and was left out"),
        ProblemKind("long-text", "a text was indexed up to the limit only"),
        ProblemKind("self-parent", "a record names itself as its parent"),
        ProblemKind("cycle", "records name each other as parents in a circle"),
        ProblemKind("ghost", "a record's parent is in no file"),
        ProblemKind("clash", "two records share an id and differ in content"),
        ProblemKind("double-result", "a tool call has more than one result"),
        ProblemKind("lost-result", "a tool result answers no call that is known"),
        ProblemKind("damaged", "bytes in the archive are not what was stored there"),
        ProblemKind("mixed-sessions", "a file holds records of several sessions"),
    )
}
"""Every kind of problem by its name, in the data's order."""


class Problem(Struct, frozen=True):
    """Something odd in an input, kept beside the records and shown."""

    kind: str
    position: Position
    detail: str = ""

    def __post_init__(self) -> None:
        """Refuse a kind that is not in the table."""
        if self.kind not in PROBLEM_KINDS:
            raise ValueError(self.kind)
