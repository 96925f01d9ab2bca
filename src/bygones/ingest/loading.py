"""Loading sessions back: nodes from the index, what was said from the chunks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress

from msgspec import Struct, structs

from bygones.assemble import Steps, Summaries, assemble, steps_of
from bygones.errors import ArchiveDamaged, NotArchived
from bygones.ingest.gist import decode
from bygones.ingest.pieces import lines_of
from bygones.model.ids import RecordId, SessionId
from bygones.model.nodes import AgentNote, Node, TitleFacts, Transcript
from bygones.model.parts import Loader
from bygones.model.sessions import Session
from bygones.model.sources import SourceKind
from bygones.parse import parse_note
from bygones.store.chunks import Kept
from bygones.store.pages import read_frames
from bygones.store.shelf import Deriving, Shelf, Stock

__all__ = ["Family", "gather_family", "load_family", "load_session"]

_Told = tuple[tuple[int, str], RecordId, str]
"""The age of a file, a record, and what the file calls it."""


def _nothing(_: int) -> tuple[Node, ...]:
    return ()


def _no_pages(_: int) -> list[bytes]:
    return []


class Family(Struct, frozen=True, array_like=True):
    """All that sessions which share records are assembled from.

    Gathered in one process, it can be assembled in another.
    """

    transcripts: list[Transcript]
    pages: list[list[bytes]]
    """Nodes that stand before those of each transcript, as the index keeps them."""
    told: list[_Told]
    """What other files call its records."""

    @property
    def weight(self) -> int:
        """How many bytes there are to be opened."""
        return sum(len(page) for pages in self.pages for page in pages)

    def sessions(self, loader: Loader) -> tuple[Session, ...]:
        """Return the sessions."""
        transcripts = list(map(_opened, self.transcripts, self.pages))
        told = [*self.told, *_own_summaries(transcripts)]
        # The newest file has the last word.
        told.sort(key=lambda one: one[0])
        summaries = Summaries({leaf: text for _, leaf, text in told})
        return assemble(transcripts, loader, summaries)


def load_family(
    vault: Stock, derived: Deriving, family: Sequence[int], loader: Loader
) -> tuple[Session, ...]:
    """Return the sessions of a family, assembled from what the index has."""
    index = vault.index
    if index is None:
        return ()
    return gather_family(vault, derived, family, nodes=index.nodes).sessions(loader)


def load_session(shelf: Shelf, id_: SessionId, loader: Loader) -> Session:
    """Return a session, as it is in one moment."""
    with shelf.at_once():
        derived = shelf.derived
        number = derived.number_of(id_)
        if number is not None:
            family = derived.family_of(number) or [number]
            for session in load_family(shelf, derived, family, loader):
                if session.id == id_:
                    return session
    raise NotArchived("session", id_)


def gather_family(
    vault: Stock,
    derived: Deriving,
    family: Sequence[int],
    *,
    nodes: Callable[[int], tuple[Node, ...]] = _nothing,
    pages: Callable[[int], list[bytes]] = _no_pages,
) -> Family:
    """Return what a family is assembled from: its nodes, or the pages with them."""
    transcripts: list[Transcript] = []
    packed: list[list[bytes]] = []
    for number in family:
        for source in derived.sources_of(number):
            found = _transcript(vault, source, nodes(source))
            if found is not None:
                transcripts.append(found)
                packed.append(pages(source))
    told = _summaries(vault, derived, family)
    return Family(list(_with_steps(vault, transcripts)), packed, told)


def _opened(told: Transcript, pages: Sequence[bytes]) -> Transcript:
    before = list(read_frames(pages))
    return structs.replace(told, nodes=(*before, *told.nodes)) if before else told


def _transcript(vault: Stock, number: int, before: Sequence[Node]) -> Transcript | None:
    """Return a source as a transcript: nodes that are known, and the last line."""
    kept, raw = _unfinished(vault, number)
    if kept is None or vault.index is None:
        return None
    _, nodes, problems = decode(lines_of(kept.id, kept.generation, kept.kept, raw))
    return Transcript(
        source=kept.source,
        nodes=(*before, *nodes),
        problems=(*vault.index.problems(kept), *problems),
        note=_note(vault, kept),
    )


def _unfinished(vault: Stock, number: int) -> tuple[Kept | None, bytes]:
    """Return a source and its unfinished last line, as far as they can be read.

    That line is not indexed, but may be a whole record all the same.
    """
    kept = None
    with suppress(ArchiveDamaged), vault.chunks.at_once():
        kept = vault.chunks.source(number)
        if kept is not None:
            return kept, vault.chunks.fragment(number, kept.generation)
    return kept, b""


def _summaries(vault: Stock, derived: Deriving, family: Sequence[int]) -> list[_Told]:
    """Return what all files call the records of a family."""
    found = derived.summaries(family)
    ages = {source: _age(vault, source) for _, _, source in found}
    return [(ages[source], leaf, text) for leaf, text, source in found]


def _own_summaries(transcripts: Sequence[Transcript]) -> Iterator[_Told]:
    """Yield what the family's files say, also in a last line that is not finished."""
    for told in transcripts:
        for node in told.nodes:
            facts = node.extra
            if node.kind == "summary" and isinstance(facts, TitleFacts) and facts.leaf:
                yield (told.source.mtime_ns, told.source.id), facts.leaf, facts.text


def _age(vault: Stock, source: int) -> tuple[int, str]:
    kept = vault.chunks.source(source)
    return (kept.mtime_ns, kept.id) if kept else (0, "")


def _with_steps(
    vault: Stock, transcripts: Sequence[Transcript]
) -> Iterator[Transcript]:
    """Yield transcripts with what the journals beside them say of their agents."""
    journals: dict[tuple[str, str], Steps] = {}
    for told in transcripts:
        source = told.source
        if source.agent is None:
            yield told
            continue
        folder = (source.home, source.path.rpartition("/")[0])
        if folder not in journals:
            journals[folder] = _journal(vault, *folder)
        yield structs.replace(told, steps=journals[folder].get(source.agent, ()))


def _journal(vault: Stock, home: str, folder: str) -> Steps:
    kept = vault.chunks.find(home, f"{folder}/journal.jsonl")
    if kept is None or kept.kind is not SourceKind.JOURNAL:
        return {}
    # What was in a damaged chunk is lost; the lines around it are not.
    chunks = vault.chunks.tried(kept.number, kept.generation)
    raw = b"".join(b"\n" if part is None else part for _, part in chunks)
    return steps_of(decode(lines_of(kept.id, kept.generation, 0, raw))[1])


def _note(vault: Stock, kept: Kept) -> AgentNote | None:
    if kept.kind is not SourceKind.AGENT or kept.agent is None:
        return None
    sidecar = vault.chunks.find(
        kept.home, kept.path.removesuffix(".jsonl") + ".meta.json"
    )
    if sidecar is None:
        return None
    try:
        raw = vault.chunks.read(sidecar.number, sidecar.generation, 0, sidecar.kept)
    except ArchiveDamaged:
        return None
    return parse_note(raw, kept.agent)
