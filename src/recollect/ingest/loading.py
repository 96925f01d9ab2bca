"""Loading sessions back: nodes from the index, what was said from the chunks."""

from __future__ import annotations

from collections.abc import Sequence

from recollect.assemble import Summaries, assemble
from recollect.ingest.indexing import decode
from recollect.ingest.pieces import lines_of
from recollect.model.nodes import AgentNote, Transcript
from recollect.model.parts import Loader
from recollect.model.sessions import Session
from recollect.model.sources import SourceKind
from recollect.parse import parse_note
from recollect.store.chunks import Kept
from recollect.store.derived import Derived
from recollect.store.vault import Vault

__all__ = ["load_family"]


def load_family(
    vault: Vault, derived: Derived, family: Sequence[int], loader: Loader
) -> tuple[Session, ...]:
    """Return the sessions of a family, assembled from what the index has."""
    sources = [source for number in family for source in derived.sources_of(number)]
    transcripts = [t for source in sources if (t := transcript(vault, source))]
    return assemble(transcripts, loader, _summaries(vault, derived, family))


def transcript(vault: Vault, number: int) -> Transcript | None:
    """Return the transcript of a source from the index."""
    kept = vault.chunks.source(number)
    if kept is None or vault.index is None:
        return None
    # An unfinished line is not indexed, but may be a whole record all the same.
    raw = vault.chunks.fragment(number, kept.generation)
    _, nodes, problems = decode(lines_of(kept.id, kept.generation, kept.kept, raw))
    return Transcript(
        source=kept.source,
        nodes=(*vault.index.nodes(number), *nodes),
        problems=(*vault.index.problems(kept), *problems),
        note=_note(vault, kept),
    )


def _summaries(vault: Vault, derived: Derived, family: Sequence[int]) -> Summaries:
    """Return the titles of a family's leaves; the newest file has the last word."""
    found = derived.summaries(family)
    ages = {source: _age(vault, source) for _, _, source in found}
    found.sort(key=lambda row: ages[row[2]])
    return Summaries({record: text for record, text, _ in found})


def _age(vault: Vault, source: int) -> tuple[int, str]:
    kept = vault.chunks.source(source)
    return (kept.mtime_ns, kept.id) if kept else (0, "")


def _note(vault: Vault, kept: Kept) -> AgentNote | None:
    if kept.kind is not SourceKind.AGENT or kept.agent is None:
        return None
    sidecar = vault.chunks.find(
        kept.home, kept.path.removesuffix(".jsonl") + ".meta.json"
    )
    if sidecar is None:
        return None
    raw = vault.chunks.read(sidecar.number, sidecar.generation, 0, sidecar.kept)
    return parse_note(raw, kept.agent)
