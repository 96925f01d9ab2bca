"""A push: from what the hub has to what the archive has, parcel by parcel.

Nothing is remembered here. What the hub has, the hub says: before the first parcel, and
in its answer to each. So nothing can be out of step with it, whoever was killed when.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path

from msgspec import Struct, field
from msgspec.structs import replace

from bygones.archive import Archive
from bygones.errors import ArchiveDamaged, HubUnreachable
from bygones.ingest import Progress
from bygones.ingest.report import Silence
from bygones.model.ids import SessionId, SourceId
from bygones.push.choosing import Chosen, choose
from bygones.push.courier import Carrying
from bygones.push.masking import Mask
from bygones.push.packing import Packing, Piece, machine_of, parcels
from bygones.push.wire import Answer, Known, Packed, Parcel, has_names
from bygones.render.redact import Redactor
from bygones.render.redact.personal import names_in
from bygones.store.chunks import Kept
from bygones.store.derived import Derived
from bygones.store.vault import Vault
from bygones.team.contract import Sent
from bygones.team.refusing import signs_of

__all__ = ["Pushed", "Share", "push"]

_Place = tuple[str, str]
_PASSES = 5
"""How often a push begins anew when the hub is not where it was thought to be."""
_QUESTIONS = 2000
"""Files that are asked for at once."""


class Share(Struct):
    """What goes of one project."""

    sessions: set[SessionId] = field(default_factory=set)
    files: int = 0
    lines: int = 0
    bytes: int = 0


class Pushed(Struct, kw_only=True):
    """What was sent, or would be."""

    named: int = 0
    """Sessions of the projects that were named, sent or not."""
    sessions: set[SessionId] = field(default_factory=set)
    files: int = 0
    lines: int = 0
    bytes: int = 0
    """Masked, as the hub will show them."""
    packed: int = 0
    """As they travel."""
    parcels: int = 0
    projects: dict[str, Share] = field(default_factory=dict)
    hidden: Counter[str] = field(default_factory=Counter)
    private: int = 0
    foreign: int = 0
    """Lines that stay, as they are of sessions in projects that were not named."""
    too_long: int = 0
    refused: int = 0
    """Files that were erased on the hub, and are not sent again."""
    erased: set[SessionId] = field(default_factory=set)
    """The sessions that these are of."""
    shared: int = 0
    """Files that stay, as they hold sessions of projects that were not named."""
    damaged: int = 0
    unnamed: int = 0
    """Files that stay, as no hub takes what they are called."""


class _Push:
    def __init__(
        self,
        vault: Vault,
        chosen: Chosen,
        mask: Mask,
        courier: Carrying | None,
        *,
        host: str,
    ) -> None:
        self._courier = courier
        self._machine = machine_of(vault.chunks.identity, host)
        self._packing = Packing(vault.chunks, mask, chosen.is_foreign)
        named = [k for k in chosen.sources if self._packing.may_be_named(k)]
        self._chosen = replace(chosen, sources=tuple(named))
        self._met: set[SourceId] = set()
        self._refused: set[_Place] = set()
        self.done = Pushed(
            named=len(chosen.sessions),
            shared=len(chosen.shared),
            unnamed=len(chosen.sources) - len(named),
        )

    def run(self, *, dry: bool, progress: Progress) -> Pushed:
        for _ in range(_PASSES):
            if self._is_through(dry=dry, progress=progress):
                break
        else:
            address = getattr(self._courier, "address", "the hub")
            raise HubUnreachable(address, "somebody else sends the same files")
        self.done.refused = len(self._refused)
        self.done.erased = {
            self._session(kept)
            for kept in self._chosen.sources
            if self._packing.place(kept) in self._refused
        }
        mask = self._packing.mask
        self.done.hidden, self.done.private = mask.found, mask.private
        self.done.too_long = self._packing.too_long
        self.done.foreign = self._packing.foreign
        return self.done

    def _is_through(self, *, dry: bool, progress: Progress) -> bool:
        """Send all that is missing; return whether the hub has it as we do."""
        known = self._known(dry=dry)
        progress.begin("sending", sum(kept.kept for kept in self._chosen.sources))
        pieces = self._pieces(known, progress)
        for parcel, lines in parcels(self._machine, pieces):
            if self._courier is not None and not dry:
                answer = self._courier.send(parcel)
                if not self._is_level(parcel, answer):
                    return False
            self._count(parcel.pieces, lines)
        progress.end()
        return True

    def _known(self, *, dry: bool) -> dict[_Place, Known]:
        """Return what the hub has of what was chosen, and what it does not want.

        Of a file that it has not, it is asked first: what was erased there must not
        even travel. A dry run asks by hashes: the hub is told of no file.
        """
        if self._courier is None:
            return {}
        answered = self._courier.known(self._machine)
        known = {(one.home, one.path): one for one in answered.sources}
        new = [
            self._packing.question(kept)
            for kept in self._chosen.sources
            if self._packing.place(kept) not in known
        ]
        for start in range(0, len(new), _QUESTIONS):
            some = new[start : start + _QUESTIONS]
            if dry:
                known |= self._erased(some, answered.person, self._courier)
                continue
            parcel = Parcel(machine=self._machine, pieces=tuple(some))
            answer = self._courier.send(parcel)
            known |= {(o.home, o.path): o for o in answer.sources if o.is_refused}
        self._refused = {place for place, one in known.items() if one.is_refused}
        return known

    def _erased(
        self, some: Sequence[Packed], person: str, courier: Carrying
    ) -> dict[_Place, Known]:
        """Return what of some files was erased, asked for without telling of them."""
        if not person:
            return {}
        signs = {(one.home, one.path): self._signs(one, person) for one in some}
        every = tuple({sign for own in signs.values() for sign in own})
        told = courier.send(Parcel(machine=self._machine, pieces=(), signs=every))
        there = set(told.erased)
        return {
            place: Known(home=place[0], path=place[1], is_refused=True)
            for place, own in signs.items()
            if not there.isdisjoint(own)
        }

    def _signs(self, one: Packed, person: str) -> tuple[bytes, ...]:
        return signs_of(
            Sent(
                person=person,
                machine=self._machine,
                home=one.home,
                path=one.path,
                kind=one.kind,
                session=SessionId(one.session) if one.session else None,
            )
        )

    def _is_level(self, parcel: Parcel, answer: Answer) -> bool:
        """Whether all of a parcel arrived, but for what is not wanted."""
        there = {(one.home, one.path): one for one in answer.sources}
        for piece in parcel.pieces:
            place = (piece.home, piece.path)
            one = there.get(place)
            if one is None or not _is_there(piece, one):
                if one is None or not one.is_refused:
                    return False
                self._refused.add(place)
        return True

    def _pieces(
        self, known: dict[_Place, Known], progress: Progress
    ) -> Iterator[Piece]:
        for kept in self._chosen.sources:
            place = self._packing.place(kept)
            pieces = self._packing.pieces(kept, known.get(place))
            pieces = chain(pieces, self._titles(kept, known))
            try:
                # What is refused is not even masked; that may be said between two.
                while place not in self._refused and (piece := next(pieces, None)):
                    self._note(kept, piece)
                    yield piece
            except ArchiveDamaged:
                self.done.damaged += 1
            progress.advance(kept.kept)

    def _titles(self, kept: Kept, known: dict[_Place, Known]) -> Iterator[Piece]:
        """Yield titles of a session that files give it which stay."""
        for titled in self._chosen.titles.get(kept.number, ()):
            place = self._packing.titles_place(kept, titled)
            piece = self._packing.titles(kept, titled, known.get(place))
            if piece is not None and has_names(piece.packed):
                yield piece

    def _note(self, kept: Kept, piece: Piece) -> None:
        """Count a file with its session and project, once."""
        is_first = piece.source not in self._met
        self._met.add(piece.source)
        session = self._session(kept)
        directory = self._chosen.sessions.get(session, "")
        told = self._packing.mask.directory(directory)
        share = self.done.projects.setdefault(told, Share())
        share.files += is_first
        share.lines += piece.lines
        share.bytes += piece.packed.length
        self.done.files += is_first
        if session in self._chosen.sessions:
            share.sessions.add(session)
            self.done.sessions.add(session)

    def _session(self, kept: Kept) -> SessionId:
        return self._chosen.owners.get(kept.number, kept.session or SessionId(""))

    def _count(self, pieces: Sequence[Packed], lines: int) -> None:
        self.done.parcels += 1
        self.done.lines += lines
        self.done.bytes += sum(one.length for one in pieces)
        self.done.packed += sum(len(one.frame) for one in pieces)


def _is_there(piece: Packed, known: Known) -> bool:
    if piece.mark:
        return known.mark == piece.mark or known.upto > piece.offset
    return known.upto >= piece.offset + piece.length


def push(  # noqa: PLR0913 (all but two by name)
    folder: Path,
    projects: Sequence[str],
    *,
    redactor: Redactor,
    courier: Carrying | None,
    dry: bool = False,
    progress: Progress | None = None,
    host: str = "",
) -> Pushed:
    """Send what a hub lacks of projects; return what that was.

    With ``dry`` nothing is sent; without a courier there is no hub to ask, and it has
    nothing. ``progress`` hears how many bytes were looked at. ``host`` tells copies of
    an archive apart; the hub is told no more than that they are.
    """
    with Archive.open(folder) as archive, Vault(folder) as vault:
        if vault.index is None:
            raise vault.missing()
        chosen = choose(archive, Derived(vault.index), projects)
        names = names_in(chosen.sessions.values())
        mask = Mask(redactor.with_names(names))
        return _Push(vault, chosen, mask, courier, host=host).run(
            dry=dry, progress=progress or Silence()
        )
