"""Packing: what the hub lacks of a source, masked, in pieces that fit into parcels."""

from __future__ import annotations

import hmac
from collections.abc import Callable, Iterable, Iterator, Sequence

from msgspec import Struct, structs
from msgspec.json import encode

from bygones.model.ids import Line, Position, SourceId
from bygones.model.problems import Problem
from bygones.model.sources import SourceKind
from bygones.parse.salvage import salvage
from bygones.push.choosing import Titled
from bygones.push.masking import Mask
from bygones.push.wire import (
    LONGEST_FRAME,
    LONGEST_LINE,
    PARCEL,
    Known,
    Packed,
    Parcel,
    has_names,
)
from bygones.store.chunks import Chunks, Kept
from bygones.store.press import Pressed, press

__all__ = ["Packing", "Piece", "machine_of", "parcels"]

_STEP = 1024 * 1024
"""Bytes of a source that make a piece, where lines are short."""
_AROUND = 1024
"""Bytes that a piece takes besides its frame, at most, unless names are very long."""
_CUT = b"{"
"""What stands for half a line: the beginning of a record."""
_DIGITS = 12
"""Hexadecimal digits of a number that every store can keep."""
_ANEW = 10
"""Bits in which the hub's generations count what begins anew without the archive's."""


class Piece(Struct, frozen=True):
    """A piece of a source, and what is known of it here."""

    source: SourceId
    lines: int
    packed: Packed


def machine_of(identity: str, host: str = "") -> str:
    """Return the name under which an archive sends: no name of a host or a person.

    A copy of an archive on another host is another machine: files of one name go on
    there in another way.
    """
    return _sign(identity, f"machine\0{host}" if host else "machine")


class Packing:
    """Packs sources of one archive; counts what stays at home."""

    def __init__(
        self, chunks: Chunks, mask: Mask, is_foreign: Callable[[bytes], bool]
    ) -> None:
        self._chunks = chunks
        self._is_foreign = is_foreign
        self._identity = chunks.identity
        self.mask = mask
        self.too_long = 0
        """Lines that no parcel can hold."""
        self.foreign = 0
        """Lines of sessions that were not named, in files of others that were."""

    def place(self, kept: Kept) -> tuple[str, str]:
        """Return home and path under which the hub knows a source.

        What stands for the home is another one for each folder of a project: two
        folders may be one once names are hidden.
        """
        folder = "/".join(kept.path.split("/")[:2])
        home = _sign(self._identity, f"{kept.home}\0{folder}")[:16]
        return home, self.mask.name(kept.path)

    def question(self, kept: Kept) -> Packed:
        """Return a piece without bytes: whether the hub wants a source at all."""
        home, path = self.place(kept)
        return self._packed(kept, Known(home=home, path=path), 0, (b"", b""))

    def may_be_named(self, kept: Kept) -> bool:
        """Whether a hub takes what a source is called, once names are hidden."""
        return has_names(kept) or has_names(self.question(kept))

    def titles_place(self, kept: Kept, titled: Titled) -> tuple[str, str]:
        """Return home and path of titles that a file which stays gives a session.

        They lie beside the session, as their own file may be of another project.
        """
        home, path = self.place(kept)
        name = _sign(self._identity, titled.namer.id)[:16]
        return home, f"{path.removesuffix('.jsonl')}/titles/{name}.jsonl"

    def titles(self, kept: Kept, titled: Titled, known: Known | None) -> Piece | None:
        """Return such titles as a small file, all of it, whenever it has changed."""
        lines = [
            encode({"type": "summary", "summary": text, "leafUuid": leaf})
            for leaf, text in titled.told
        ]
        raw = b"\n".join(lines)
        # Nobody reads on in it: this number says whether it is the one that was sent.
        origin = int(_sign(self._identity, raw.hex())[:_DIGITS], 16)
        if known is not None and known.origin == origin:
            return None
        home, path = self.titles_place(kept, titled)
        generation = known.generation + 1 if known is not None else 0
        at = Known(home=home, path=path, generation=generation, origin=origin)
        masked = self._masked(raw)
        like = structs.replace(
            titled.namer,
            kind=SourceKind.SESSION,
            project=kept.project,
            session=titled.session,
            agent=None,
        )
        piece = self._piece(like, at, masked, len(lines)) if masked else None
        return piece and structs.replace(piece, source=SourceId(path))

    def pieces(self, kept: Kept, known: Known | None) -> Iterator[Piece]:
        """Yield what the hub has not of a source, from where it stopped."""
        if kept.kind.is_transcript:
            goes_on = known is not None and self._goes_on(kept, known)
            start = known if known and goes_on else self._anew(kept, known)
            yield from self._lines(kept, start)
        elif not self._is_same(kept, known):
            yield from self._whole(kept, self._anew(kept, known))

    def _goes_on(self, kept: Kept, known: Known) -> bool:
        """Whether the hub has the beginning of what the archive has now."""
        if known.generation >> _ANEW < kept.generation:
            return False
        if not known.origin:
            return True
        place = (kept.number, kept.generation)
        return self._chunks.read(*place, known.origin - 1, 1) == b"\n"

    def _is_same(self, kept: Kept, known: Known | None) -> bool:
        if known is None or known.generation >> _ANEW < kept.generation:
            return False
        return known.origin == kept.kept

    def _anew(self, kept: Kept, known: Known | None) -> Known:
        home, path = self.place(kept)
        generation = kept.generation << _ANEW
        if known is not None:
            generation = max(generation, known.generation + 1)
        return Known(home=home, path=path, generation=generation)

    def _lines(self, kept: Kept, known: Known) -> Iterator[Piece]:
        """Yield the lines of a transcript behind what is known; the last is whole."""
        upto, origin = known.upto, known.origin
        masked, count = b"", 0
        for raw in self._stretches(kept, origin):
            origin += len(raw)
            told = self._masked(raw)
            masked += told
            count += told.count(b"\n")
            # A private line leaves nothing: it goes with what comes behind it.
            if not masked:
                continue
            at = structs.replace(known, upto=upto, origin=origin)
            piece = self._piece(kept, at, masked, count)
            upto += len(masked) if piece else 0
            masked, count = b"", 0
            if piece:
                known = structs.replace(known, mark=b"")
                yield piece
        at = structs.replace(known, upto=upto, origin=origin)
        fragment = self._fragment(kept, at) if kept.size > kept.kept else None
        if fragment:
            yield fragment

    def _fragment(self, kept: Kept, at: Known) -> Piece | None:
        """Return the unfinished last line of a transcript, unless the hub has it.

        What is whole of it leaves masked, as any line. Of half a line nothing does:
        half a secret cannot be known. The hub is told that something was cut off.
        """
        with self._chunks.at_once():
            now = self._chunks.source(kept.number)
            if now is None or (now.generation, now.kept) != (
                kept.generation,
                at.origin,
            ):
                return None  # it was finished since: the next push sends it whole
            raw = self._chunks.fragment(kept.number, kept.generation)
        mark = _sign(self._identity, raw.hex()).encode()
        if not raw or mark == at.mark:
            return None
        masked = self._masked_fragment(raw)
        if not (masked or at.upto):
            return None
        pressed = press(masked) if masked else (b"", b"")
        if len(pressed[1]) > LONGEST_FRAME:
            self.too_long += 1
            return None
        packed = self._packed(kept, at, len(masked), pressed)
        lines = int(masked not in {b"", _CUT})
        return Piece(kept.id, lines, structs.replace(packed, mark=mark))

    def _masked_fragment(self, raw: bytes) -> bytes:
        if len(raw) > LONGEST_LINE:
            self.too_long += 1
            return b""
        whole = raw[: _cut(raw)]
        masked = self._masked(whole).removesuffix(b"\n")
        return masked + _CUT if len(whole) < len(raw) else masked

    def _masked(self, raw: bytes) -> bytes:
        """Return whole lines without those that stay, the others masked."""
        if len(raw) > LONGEST_LINE:
            self.too_long += 1
            return b""
        told = []
        for line in raw.removesuffix(b"\n").split(b"\n"):
            if self._is_foreign(line):
                self.foreign += 1
            elif not line.strip():
                told.append(line + b"\n")
            elif masked := self.mask.text(line):
                told.append(masked + b"\n")
        return b"".join(told)

    def _stretches(self, kept: Kept, start: int) -> Iterator[bytes]:
        """Yield whole lines, about a megabyte at a time, or one that is longer."""
        step = _STEP
        place = (kept.number, kept.generation)
        while start < kept.kept:
            size = min(step, kept.kept - start)
            raw = self._chunks.read(*place, start, size)
            # Of a longer stretch only the long line is taken: it may have to stay.
            cut = (raw.rfind if step == _STEP else raw.find)(b"\n") + 1
            if cut:
                yield raw[:cut]
                start += cut
                step = _STEP
            elif size < step:
                return
            else:
                step *= 4

    def _whole(self, kept: Kept, known: Known) -> Iterator[Piece]:
        """Yield a file that is no transcript: all of it, whenever it has changed."""
        if not 0 < kept.kept <= LONGEST_LINE:
            self.too_long += kept.kept > 0
            return
        raw = self._chunks.read(kept.number, kept.generation, 0, kept.kept)
        masked = self.mask.text(raw)
        at = structs.replace(known, origin=kept.kept)
        piece = self._piece(kept, at, masked, 0) if masked else None
        if piece:
            yield piece

    def _piece(self, kept: Kept, at: Known, masked: bytes, lines: int) -> Piece | None:
        pressed = press(masked)
        if len(pressed[1]) > LONGEST_FRAME:
            self.too_long += 1
            return None
        return Piece(kept.id, lines, self._packed(kept, at, len(masked), pressed))

    def _packed(self, kept: Kept, at: Known, length: int, pressed: Pressed) -> Packed:
        mask = self.mask
        sha256, frame = pressed
        return Packed(
            home=at.home,
            path=at.path,
            kind=kept.kind,
            project=mask.name(kept.project) if kept.project else None,
            session=mask.name(kept.session) if kept.session else None,
            agent=mask.name(kept.agent) if kept.agent else None,
            mtime_ns=kept.mtime_ns,
            generation=at.generation,
            offset=at.upto,
            length=length,
            origin=at.origin,
            sha256=sha256,
            frame=frame,
        )


def _cut(raw: bytes) -> int:
    """Return where what is whole of an unfinished line ends."""
    place = Position(SourceId(""), 0, 0, len(raw))
    for one in salvage(Line(place, raw, ended=False)):
        if isinstance(one, Problem) and one.kind == "cut-line":
            return one.position.offset
    return len(raw)


def parcels(machine: str, pieces: Iterable[Piece]) -> Iterator[tuple[Parcel, int]]:
    """Yield parcels of pieces, and how many lines are in each."""
    waiting: list[Piece] = []
    weight = 0
    for piece in pieces:
        more = len(piece.packed.frame) + len(piece.packed.path) + _AROUND
        if waiting and weight + more > PARCEL:
            yield _parcel(machine, waiting, more=True)
            waiting, weight = [], 0
        waiting.append(piece)
        weight += more
    if waiting:
        yield _parcel(machine, waiting)


def _parcel(
    machine: str, pieces: Sequence[Piece], *, more: bool = False
) -> tuple[Parcel, int]:
    packed = tuple(piece.packed for piece in pieces)
    lines = sum(piece.lines for piece in pieces)
    return Parcel(machine=machine, pieces=packed, more=more), lines


def _sign(identity: str, text: str) -> str:
    """Return a name that says nothing to whoever has not the archive."""
    told = text.encode("utf-8", "surrogateescape")
    return hmac.new(identity.encode(), told, "sha256").hexdigest()[:32]
