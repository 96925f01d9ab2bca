"""Loading sessions back: nodes from the index, what was said from the chunks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress

from msgspec import structs

from recollect.assemble import Steps, Summaries, assemble, steps_of
from recollect.errors import ArchiveDamaged
from recollect.ingest.gist import decode
from recollect.ingest.pieces import lines_of
from recollect.model.ids import RecordId
from recollect.model.nodes import AgentNote, TitleFacts, Transcript
from recollect.model.parts import Loader
from recollect.model.sessions import Session
from recollect.model.sources import SourceKind
from recollect.parse import parse_note
from recollect.store.chunks import Kept
from recollect.store.shelf import Deriving, Stock

__all__ = ["load_family"]

_Told = tuple[tuple[int, str], RecordId, str]
"""The age of a file, a record, and what the file calls it."""


def load_family(
    vault: Stock, derived: Deriving, family: Sequence[int], loader: Loader
) -> tuple[Session, ...]:
    """Return the sessions of a family, assembled from what the index has."""
    sources = [source for number in family for source in derived.sources_of(number)]
    found = (transcript(vault, source) for source in sources)
    transcripts = list(_with_steps(vault, [t for t in found if t is not None]))
    told = [*_summaries(vault, derived, family), *_own_summaries(transcripts)]
    # The newest file has the last word.
    told.sort(key=lambda one: one[0])
    return assemble(transcripts, loader, Summaries({leaf: t for _, leaf, t in told}))


def transcript(vault: Stock, number: int) -> Transcript | None:
    """Return the transcript of a source from the index."""
    kept, raw = _unfinished(vault, number)
    if kept is None or vault.index is None:
        return None
    _, nodes, problems = decode(lines_of(kept.id, kept.generation, kept.kept, raw))
    return Transcript(
        source=kept.source,
        nodes=(*vault.index.nodes(number), *nodes),
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
