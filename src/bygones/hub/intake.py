"""Intake: a parcel's bytes into the raw store, then its spans into the engine.

Whose a parcel is, the token says. What is wrong with it is refused before anything is
written; what was erased is refused before its bytes are. A parcel may come twice, or
half: the answer says up to where each source is there.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

import msgspec
import zstandard

from bygones.errors import ParcelRefused
from bygones.model.ids import AgentId, ProjectKey, SessionId
from bygones.push.wire import (
    LONGEST_FRAME,
    LONGEST_LINE,
    Answer,
    Known,
    Packed,
    Parcel,
    has_names,
    unpack_parcel,
)
from bygones.store.press import digest, unpress
from bygones.team.contract import Ack, Batch, Fragment, Sent, Span, TeamStore
from bygones.team.objects import RawObjects
from bygones.team.tokens import Token

__all__ = ["Intake", "checked_parcel"]

_MACHINE = re.compile(r"[0-9a-f]{32}")
_HOME = re.compile(r"[0-9a-f]{16}")
_MOST = 10_000
"""Pieces of a parcel."""
_SIGN = 32
"""Bytes of a hash."""
_MARK = 32
"""Bytes of the mark of an unfinished line, at most."""


def checked_parcel(raw: bytes) -> Parcel:
    """Return a parcel that is what it has to be, whoever sent it.

    :raises ParcelRefused: if it is not.
    """
    try:
        parcel = unpack_parcel(raw)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise ParcelRefused(f"it cannot be read: {error}") from None
    if not _MACHINE.fullmatch(parcel.machine):
        raise ParcelRefused("it does not say which machine it is from")
    if len(parcel.pieces) > _MOST:
        raise ParcelRefused(f"it has more than {_MOST:,} pieces")
    if len(parcel.signs) > _MOST or any(len(sign) != _SIGN for sign in parcel.signs):
        raise ParcelRefused("it asks for what cannot be")
    for piece in parcel.pieces:
        _check(piece)
    return parcel


def _check(piece: Packed) -> None:
    """Raise unless a piece is in order; its frame is opened for that."""
    if not _HOME.fullmatch(piece.home) or not piece.path:
        raise ParcelRefused("a piece does not say which file it is of")
    if not has_names(piece):
        raise ParcelRefused("a piece has a name that cannot be one")
    numbers = (piece.generation, piece.offset, piece.length, piece.origin)
    if any(not 0 <= number < 1 << 53 for number in numbers):
        raise ParcelRefused("a piece has a number that cannot be one")
    if piece.generation >= 1 << 31 or not 0 <= piece.mtime_ns < 1 << 63:
        raise ParcelRefused("a piece has a number that cannot be one")
    if len(piece.mark) > _MARK or (piece.mark and not piece.kind.is_transcript):
        raise ParcelRefused("a piece has a mark that cannot be one")
    if piece.length or piece.frame:
        _check_frame(piece)


def _check_frame(piece: Packed) -> None:
    if not 0 < piece.length <= LONGEST_LINE or len(piece.frame) > LONGEST_FRAME:
        raise ParcelRefused("a piece is too long")
    try:
        # A frame that unpacks to more than it says fails; all of ours say.
        told = zstandard.frame_content_size(piece.frame)
        raw = unpress(piece.frame) if told == piece.length else b""
    except zstandard.ZstdError as error:
        raise ParcelRefused(f"a piece cannot be unpacked: {error}") from None
    if len(raw) != piece.length or digest(raw) != piece.sha256:
        raise ParcelRefused("a piece is not what it says")
    if piece.kind.is_transcript and not piece.mark and not raw.endswith(b"\n"):
        raise ParcelRefused("a piece does not end with a line")
    if piece.mark and b"\n" in raw:
        raise ParcelRefused("a piece has a line behind the last one")


class Intake:
    """Takes parcels in, for any person."""

    def __init__(self, store: TeamStore, objects: RawObjects) -> None:
        self._store = store
        self._objects = objects

    def known(self, token: Token, machine: str) -> Answer:
        """Return up to where each source of a person's machine is there."""
        if not _MACHINE.fullmatch(machine):
            raise ParcelRefused("it does not say which machine it is from")
        acks = self._store.acks(token.person, machine)
        return Answer(sources=tuple(map(_known, acks)), person=token.person)

    def take(self, token: Token, parcel: Parcel) -> Answer:
        """Keep what a parcel holds, and return up to where its sources are there."""
        erased = self._store.erased(parcel.signs) if parcel.signs else ()
        sources = tuple(self._taken(token, parcel))
        return Answer(sources=sources, person=token.person, erased=tuple(erased))

    def _taken(self, token: Token, parcel: Parcel) -> Iterator[Known]:
        came: dict[Sent, list[Packed]] = {}
        for pieces in _by_source(parcel.pieces):
            came[_sent(token, parcel.machine, pieces[-1])] = pieces
        numbers = [sent.number for sent in came]
        acks = self._store.acks(token.person, parcel.machine, numbers)
        known = {ack.source.number: ack for ack in acks}
        new = [sent for sent in came if sent.number not in known]
        refused = self._begun(new, came, known)
        waiting: list[tuple[Batch, list[str]]] = []
        for sent, pieces in came.items():
            if sent.number in refused:
                yield Known(home=sent.home, path=sent.path, is_refused=True)
                continue
            ack = known.get(sent.number) or Ack(source=sent)
            generation, fresh = _fresh(ack, pieces)
            fragment = _fragment(ack, pieces, fresh)
            if not fresh and fragment is None:
                yield _known(ack)
                continue
            place = self._objects.of(sent.person, sent.id)
            written = [place.put_packed(p.frame, p.sha256) for p in fresh]
            batch = Batch(
                source=sent,
                generation=generation,
                spans=tuple(map(_span, fresh, written)),
                fragment=fragment,
            )
            waiting.append((batch, written))
        told = self._store.put_all([batch for batch, _ in waiting]) if waiting else ()
        for (batch, written), one in zip(waiting, told, strict=True):
            if isinstance(one, Ack):
                yield _known(one)
            else:
                yield self._refused(batch.source, written)

    def _begun(
        self,
        new: Sequence[Sent],
        came: Mapping[Sent, Sequence[Packed]],
        known: dict[int, Ack],
    ) -> set[int]:
        """Note new sources before any byte of them is written; return the erased.

        Whoever sweeps the raw store removes what is of no source. Of what has no bytes
        it is only asked whether it may come.
        """
        asked = [sent for sent in new if not any(one.length for one in came[sent])]
        refused = self._store.refused(asked) if asked else set()
        begun = [sent for sent in new if any(one.length for one in came[sent])]
        batches = [Batch(source=sent) for sent in begun]
        told = self._store.put_all(batches) if batches else ()
        for sent, one in zip(begun, told, strict=True):
            if isinstance(one, Ack):
                known[sent.number] = one
            else:
                refused.add(sent.number)
        return refused

    def _refused(self, sent: Sent, written: Sequence[str]) -> Known:
        """Return where a source stands that did not fit, or that it is not wanted."""
        for ack in self._store.acks(sent.person, sent.machine, [sent.number]):
            return _known(ack)
        # It was erased while its bytes were being written: they go as well.
        self._objects.remove(written)
        return Known(home=sent.home, path=sent.path, is_refused=True)


def _by_source(pieces: Sequence[Packed]) -> Iterable[list[Packed]]:
    """Return pieces by the source that they are of, in their order."""
    found: dict[tuple[str, str], list[Packed]] = {}
    for piece in pieces:
        found.setdefault((piece.home, piece.path), []).append(piece)
    return found.values()


def _fresh(ack: Ack, pieces: Sequence[Packed]) -> tuple[int, list[Packed]]:
    """Return the pieces that go on where a source stops; none behind a gap."""
    generation, fresh = pieces[0].generation, []
    upto = ack.upto if generation == ack.generation else 0
    for piece in pieces:
        is_due = piece.offset == upto and piece.generation == generation
        is_whole = piece.length and not piece.mark
        if is_due and is_whole and generation >= ack.generation:
            fresh.append(piece)
            upto += piece.length
    return generation, fresh


def _fragment(
    ack: Ack, pieces: Sequence[Packed], fresh: Sequence[Packed]
) -> Fragment | None:
    """Return the unfinished last line, if it came, fits and is another than before."""
    last = pieces[-1]
    if not last.mark or last.generation < ack.generation:
        return None
    is_anew = last.generation > ack.generation or bool(fresh)
    upto = fresh[-1].offset + fresh[-1].length if fresh else 0 if is_anew else ack.upto
    if last.offset != upto or (not is_anew and last.mark == ack.mark):
        return None
    return Fragment(offset=last.offset, mark=last.mark, frame=last.frame)


def _sent(token: Token, machine: str, piece: Packed) -> Sent:
    return Sent(
        person=token.person,
        teams=token.teams,
        machine=machine,
        home=piece.home,
        path=piece.path,
        kind=piece.kind,
        project=ProjectKey(piece.project) if piece.project else None,
        session=SessionId(piece.session) if piece.session else None,
        agent=AgentId(piece.agent) if piece.agent else None,
        mtime_ns=piece.mtime_ns,
    )


def _span(piece: Packed, address: str) -> Span:
    return Span(
        offset=piece.offset,
        length=piece.length,
        origin=piece.origin,
        sha256=piece.sha256,
        address=address,
    )


def _known(ack: Ack) -> Known:
    return Known(
        home=ack.source.home,
        path=ack.source.path,
        generation=ack.generation,
        upto=ack.upto,
        origin=ack.origin,
        mark=ack.mark,
    )
