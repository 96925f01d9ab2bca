"""Letting the index see what the archive has: nodes, records, words."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

from msgspec import structs

from recollect.assemble import is_named, session_of
from recollect.ingest.pieces import lines_of
from recollect.ingest.report import Progress, Report
from recollect.model.attachments import ATTACHMENTS
from recollect.model.blocks import BLOCKS
from recollect.model.ids import Line, Position
from recollect.model.nodes import Node, Transcript
from recollect.model.problems import Problem
from recollect.model.records import SystemRecord
from recollect.model.sketches import Sketched
from recollect.model.sources import SourceKind
from recollect.parse import (
    RECORDS,
    is_beyond_limit,
    node_of,
    said_in,
    sketch_line,
    texts_of,
)
from recollect.store.chunks import Kept
from recollect.store.index import Index, Seen
from recollect.store.lengths import Lengths
from recollect.store.vault import Vault

__all__ = ["Indexer", "decode"]


class Indexer:
    """Feeds an index, from pieces just read or from the archive's chunks."""

    def __init__(self, vault: Vault, report: Report) -> None:
        self._vault = vault
        self._report = report
        self._seen: dict[int, Seen] = {}
        self._agents: set[int] = set()
        """Sources that are files of agents."""

    @property
    def _index(self) -> Index:
        index = self._vault.index
        if index is None:
            raise RuntimeError
        return index

    def prepare(self, progress: Progress) -> None:
        """Open the index, bring it level with the archive, and begin a batch."""
        if self._vault.index is None:
            self._vault.begin_index()
            self._vault.finish_index()
        self._seen = self._index.seen()
        self._mend_text()
        self._index.db.execute("BEGIN IMMEDIATE")
        self._catch_up(progress)

    def _catch_up(self, progress: Progress) -> None:
        behind = [kept for kept in self._vault.chunks.sources() if self._lags(kept)]
        if not behind:
            return
        progress.begin("indexing", sum(kept.kept for kept in behind))
        for kept in behind:
            # It may be moved as well as grown: what it is part of is asked once more.
            self.see_anew(kept)
            progress.advance(kept.kept)
        self.commit()
        progress.end()

    def _lags(self, kept: Kept) -> bool:
        seen = self._seen.get(kept.number)
        return seen is None or seen.lags(kept)

    def _feed(self, kept: Kept) -> None:
        """Show the index what the archive has of a source and it has not."""
        seen = self._seen_of(kept)
        for found in self._stretches(kept, seen.upto if seen else 0, kept.kept):
            if isinstance(found, Problem):
                self._index.add_problems(kept.number, [found])
                self._report.problems.append(found)
            else:
                self.add(kept, *found)
        self.finish(kept)

    def _stretches(
        self, kept: Kept, start: int, stop: int
    ) -> Iterator[tuple[int, int, list[Line]] | Problem]:
        """Yield what the archive has of a source, whole lines at a time.

        A damaged chunk costs the lines in it and is a problem.
        """
        upto = start
        rest = b""
        chunks = self._vault.chunks.tried(kept.number, kept.generation, start=start)
        for chunk, raw in chunks:
            if raw is None:
                place = Position(
                    kept.id, kept.generation, chunk.start, chunk.stop - chunk.start
                )
                yield Problem("damaged", place)
                upto, rest = chunk.stop, b""
                continue
            begin = max(upto + len(rest), chunk.start)
            joined = rest + raw[begin - chunk.start : stop - chunk.start]
            is_last = chunk.stop >= stop
            cut = len(joined) if is_last else joined.rfind(b"\n") + 1
            if cut:
                lines = lines_of(kept.id, kept.generation, upto, joined[:cut])
                yield upto, upto + cut, lines
            upto += cut
            rest = joined[cut:]
            if is_last:
                return

    def _seen_of(self, kept: Kept) -> Seen | None:
        """Return how far a source was seen; one that was begun anew, not at all."""
        seen = self._seen.get(kept.number)
        if seen is not None and seen.generation != kept.generation:
            self.forget(kept)
            return None
        return seen

    def see_anew(self, kept: Kept) -> None:
        """Derive again what is kept of a source: its place is another one."""
        self.forget(kept)
        self._feed(kept)

    def see_touched(self, kept: Kept) -> None:
        """Have a source's session derived anew: its file looks younger or older."""
        self.touch(kept)
        if kept.number in self._seen:
            self._note_seen(kept, self._seen[kept.number])

    def touch(self, kept: Kept) -> None:
        """Have a source's session derived anew."""
        seen = self._seen.get(kept.number)
        if seen is not None and seen.session is not None:
            self._index.set_dirty([seen.session])

    def forget(self, kept: Kept) -> None:
        """Remove what was derived from a source, to see it anew."""
        if kept.number not in self._seen:
            return
        self._vault.text.remove(self._index.forget_source(kept.number))
        self._seen.pop(kept.number, None)

    def add(self, kept: Kept, start: int, stop: int, lines: Sequence[Line]) -> None:
        """Let the index see a stretch of whole lines."""
        seen = self._seen_of(kept)
        if not kept.kind.is_transcript:
            self._seen[kept.number] = Seen(kept.number, kept.generation, stop)
            return
        sketched, nodes, problems = decode(lines)
        if seen is None:
            session = self._session(kept, nodes)
            seen = Seen(kept.number, kept.generation, start, session)
        ids = self._index.add_nodes(seen, nodes)
        if kept.kind is SourceKind.AGENT:
            self._agents.add(kept.number)
        lengths = self._index.lengths(kept.number, is_new=not start)
        lengths.reach(node.time for node in nodes if node.time is not None)
        problems += self._add_words(seen, ids, sketched, nodes, lengths=lengths)
        self._index.add_problems(kept.number, problems)
        self._index.add_drift(kept.number, _drift(nodes))
        self._seen[kept.number] = structs.replace(seen, upto=stop)
        self._report.records += len(nodes)

    def _session(self, kept: Kept, nodes: Iterable[Node]) -> int:
        """Return the number of the session that a source seems to belong to."""
        owner = self._folder_owner(kept)
        if owner is not None:
            return owner
        transcript = Transcript(source=kept.source, nodes=tuple(nodes))
        return self._index.number(session_of(transcript))

    def _moves(self, kept: Kept) -> bool:
        """Book a source to the session that it belongs to; say whether that is new."""
        seen = self._seen[kept.number]
        session = self._session(kept, self._speakers(kept))
        if session == seen.session:
            return False
        self._index.move_source(kept.number, session)
        self._seen[kept.number] = structs.replace(seen, session=session)
        return True

    def _agents_of(self, kept: Kept) -> list[Kept]:
        """Return the agents that lie in the folder of a session's file."""
        return self._agents_in(
            kept.home, kept.path.removesuffix(".jsonl") + "/subagents/"
        )

    def _agents_in(self, home: str, folder: str) -> list[Kept]:
        below = self._vault.chunks.below(home, folder)
        return [
            k for k in below if k.kind is SourceKind.AGENT and k.number in self._seen
        ]

    def _speakers(self, kept: Kept) -> Iterable[Node]:
        """Yield the nodes of a source that tell whose it is."""
        nodes = self._index.each_node(kept.number)
        if kept.kind is SourceKind.AGENT:
            return islice((node for node in nodes if node.session), 1)
        return nodes

    def _folder_owner(self, kept: Kept) -> int | None:
        """Return the session in whose folder an agent lies, by that session's file."""
        folder, inside, _ = kept.path.partition("/subagents/")
        if kept.kind is not SourceKind.AGENT or not inside:
            return None
        main = self._vault.chunks.find(kept.home, f"{folder}.jsonl")
        seen = self._seen.get(main.number) if main else None
        return seen.session if seen else None

    def reassign(self, sources: Sequence[int]) -> None:
        """Give sources to other sessions where all their records say so.

        The first records of a file that is not named by an id may be of another
        session than most. Agents follow the session in whose folder they lie.
        """
        found = self._vault.chunks.unnamed(sources)
        unsure = [kept for kept in found if kept.number in self._seen]
        moved = [k for k in unsure if k.kind is SourceKind.SESSION and self._moves(k)]
        agents = {k.number: k for k in unsure if k.kind is SourceKind.AGENT}
        for kept in moved:
            agents.update({agent.number: agent for agent in self._agents_of(kept)})
        moved.extend(agent for agent in agents.values() if self._moves(agent))
        for kept in moved:
            self._vault.text.remove(self._index.record_ids(kept.number, 0).values())
            self._words_again(kept, 0, 0)
        if moved:
            self._vault.text.commit()

    def _add_words(
        self,
        seen: Seen,
        ids: Sequence[int],
        sketched: Sequence[Sketched],
        nodes: Sequence[Node],
        *,
        lengths: Lengths | None = None,
    ) -> list[Problem]:
        """Let the text index have what records say; return which say too much."""
        text = self._vault.text
        is_agent = seen.source in self._agents
        long = []
        for record, found, node in zip(ids, sketched, nodes, strict=True):
            passages = texts_of(found)
            if not passages or not record:
                continue
            if is_beyond_limit(passages):
                long.append(Problem("long-text", node.position))
            said = said_in(node, passages)
            if lengths is not None:
                lengths.add(said)
            is_aside = is_agent or node.is_sidechain or node.agent is not None
            text.add(record, seen.session or 0, said, is_agent=is_aside)
        return long

    def finish(self, kept: Kept) -> None:
        """Note how far a source has been seen; its session must be derived anew."""
        seen = self._seen_of(kept)
        if seen is None:
            seen = Seen(kept.number, kept.generation, kept.kept)
            if kept.kind.is_transcript:
                seen = structs.replace(seen, session=self._session(kept, ()))
        self._note_seen(kept, seen)
        if seen.session is not None:
            self._index.set_dirty([seen.session])
        self._set_others_dirty(kept)

    def _note_seen(self, kept: Kept, seen: Seen) -> None:
        seen = structs.replace(seen, upto=kept.kept, sign=kept.sign)
        self._seen[kept.number] = seen
        self._index.set_seen(seen)

    def _set_others_dirty(self, kept: Kept) -> None:
        """Have sessions derived anew that a source tells something of."""
        if kept.kind is SourceKind.SIDECAR:
            agent = kept.path.removesuffix(".meta.json") + ".jsonl"
            found = self._vault.chunks.find(kept.home, agent)
            others = [found] if found else []
        elif kept.kind is SourceKind.JOURNAL:
            folder = kept.path.removesuffix("journal.jsonl")
            others = self._agents_in(kept.home, folder)
        elif kept.kind is SourceKind.SESSION and not is_named(kept.source):
            others = self._agents_of(kept)
        else:
            return
        for other in others:
            self.touch(other)

    def commit(self, *, last: bool = False) -> None:
        """Commit rows, then words, then the note that both are level."""
        index = self._index
        index.note_next()
        index.db.execute("COMMIT")
        self._vault.text.commit()
        with index.db:
            index.note_level()
        if not last:
            index.db.execute("BEGIN IMMEDIATE")

    def _mend_text(self) -> None:
        """Add again what was committed as rows but perhaps not as words."""
        index, text = self._index, self._vault.text
        if index.is_level():
            return
        level = index.level()
        text.remove(index.unsaid())
        text.remove_after(level)
        for source, start in index.records_after(level):
            kept = self._vault.chunks.source(source)
            if kept is not None:
                self._words_again(kept, start, level)
        text.commit()
        with index.db:
            index.note_level()

    def _words_again(self, kept: Kept, first: int, level: int) -> None:
        if kept.kind is SourceKind.AGENT:
            self._agents.add(kept.number)
        ids = self._index.record_ids(kept.number, level)
        seen = structs.replace(self._seen[kept.number], upto=first)
        for stretch in self._stretches(kept, first, self._seen[kept.number].upto):
            if isinstance(stretch, Problem):
                continue
            sketched, nodes, _ = decode(stretch[2])
            found = [ids.get(node.position.offset, 0) for node in nodes]
            self._add_words(seen, found, sketched, nodes)


def decode(
    lines: Sequence[Line],
) -> tuple[list[Sketched], list[Node], list[Problem]]:
    """Return what lines hold: sketches, their nodes, and what is odd."""
    sketched: list[Sketched] = []
    problems: list[Problem] = []
    for line in lines:
        for found in sketch_line(line):
            if isinstance(found, Sketched):
                sketched.append(found)
            else:
                problems.append(found)
    return sketched, [node_of(found) for found in sketched], problems


def _drift(nodes: Sequence[Node]) -> Iterator[tuple[str, str, str]]:
    """Yield the types that are not known, with the version that wrote them."""
    for node in nodes:
        version = node.version or ""
        if node.kind not in RECORDS:
            yield "record", node.kind, version
        if node.kind == "system" and node.subtype not in SystemRecord.subtypes:
            yield "system", node.subtype or "", version
        if node.kind == "attachment" and node.subtype not in ATTACHMENTS:
            yield "attachment", node.subtype or "", version
        for block in node.blocks:
            if block.kind not in BLOCKS:
                yield "block", block.kind, version
