"""Letting the index see what the archive has: nodes, records, words."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import chain, islice

from msgspec import structs

from bygones.assemble import is_named, session_of
from bygones.errors import ArchiveDamaged
from bygones.ingest.gist import Gist, Stretch, decode, gist_of
from bygones.ingest.pieces import lines_of
from bygones.ingest.readers import Readers
from bygones.ingest.report import Progress, Report
from bygones.ingest.tasks import READING
from bygones.model.ids import Position, SourceId
from bygones.model.nodes import Node, Transcript
from bygones.model.problems import Problem
from bygones.model.sources import SourceKind
from bygones.store.chunks import Kept
from bygones.store.index import Index, Seen
from bygones.store.lengths import Lengths
from bygones.store.pages import Page, unpack_nodes
from bygones.store.rescue import readable
from bygones.store.vault import Vault

__all__ = ["Indexer", "stretch_of"]


class Indexer:
    """Feeds an index, from bytes just read or from the archive's chunks."""

    def __init__(self, vault: Vault, report: Report, readers: Readers) -> None:
        self._vault = vault
        self._report = report
        self.readers = readers
        self._seen: dict[int, Seen] = {}

    @property
    def _index(self) -> Index:
        index = self._vault.index
        if index is None:
            raise RuntimeError
        return index

    def prepare(
        self,
        progress: Progress,
        among: list[Kept] | None = None,
        *,
        is_all: bool = True,
    ) -> None:
        """Open the index, bring it level with the archive, and begin a batch.

        Whoever has all sources at hand gives them; whoever knows that it is level but
        for some names those alone.
        """
        if self._vault.index is None:
            self._vault.begin_index()
            self._vault.finish_index()
        self._seen = self._index.seen()
        self._mend_text()
        self._index.db.execute("BEGIN IMMEDIATE")
        lost: list[int] = []
        if among is None:
            among, lost = readable(self._vault.chunks)
            self._report.problems.extend(map(_unreadable, lost))
        if is_all:
            self._forget_all({*self._seen} - {*lost, *(kept.number for kept in among)})
        self._catch_up(among, progress)

    def _forget_all(self, sources: Iterable[int]) -> None:
        """Remove what was derived from sources that the archive has no longer.

        Somebody may have put a backup into its place.
        """
        for number in sources:
            self._vault.text.remove(self._index.forget_source(number))
            del self._seen[number]

    def _catch_up(self, sources: list[Kept], progress: Progress) -> None:
        behind = [kept for kept in sources if self._lags(kept)]
        if not behind:
            return
        total = sum(kept.kept for kept in behind)
        progress.begin("indexing", total)
        self.readers.expect(total)
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
                self.add(kept, found)
        self.finish(kept)

    def _stretches(
        self, kept: Kept, start: int, stop: int
    ) -> Iterator[Stretch | Problem]:
        """Yield what the archive has of a source, whole lines at a time.

        A damaged chunk costs the lines in it and is a problem.
        """
        upto = start
        rest = b""
        chunks = self._vault.chunks.tried(kept.number, kept.generation, start=start)
        for chunk, raw in chunks:
            if raw is None:
                upto, rest = min(chunk.stop, stop), b""
                length = upto - chunk.start
                place = Position(kept.id, kept.generation, chunk.start, length)
                yield Problem("damaged", place)
                continue
            begin = max(upto + len(rest), chunk.start)
            joined = rest + raw[begin - chunk.start : stop - chunk.start]
            is_last = chunk.stop >= stop
            cut = len(joined) if is_last else joined.rfind(b"\n") + 1
            if cut:
                yield stretch_of(kept, upto, joined[:cut])
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
        self.readers.finish()
        self.forget(kept)
        self._feed(kept)

    def see_touched(self, kept: Kept) -> None:
        """Have a source's session derived anew: its file looks younger or older."""
        self.readers.finish()
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
        if kept.number in self._seen:
            self._forget_all([kept.number])

    def add(self, kept: Kept, stretch: Stretch) -> None:
        """Let the index see whole lines, soon."""
        if kept.kind.is_transcript:
            then = partial(self._write, kept, stretch.start)
            self.readers.add(READING, stretch, then, weight=len(stretch.raw))
            self.readers.then(partial(self._note_upto, kept, stretch.stop))

    def _write(self, kept: Kept, start: int, gist: Gist) -> None:
        """Write down what a stretch holds that begins at ``start``."""
        seen = self._seen_of(kept)
        if seen is None:
            session = self._session(kept, gist.page)
            seen = Seen(kept.number, kept.generation, start, session)
            self._seen[kept.number] = seen
        index = self._index
        lowest = index.add_nodes(seen, gist.page, gist.rows)
        index.add_summaries(kept.number, gist.summaries)
        lengths = index.lengths(kept.number, is_new=not start)
        lengths.join(Lengths(gist.lengths))
        self._add_words(seen, gist, range(lowest, lowest + len(gist.rows)))
        index.add_problems(kept.number, gist.problems)
        index.add_drift(kept.number, gist.drift)
        self._report.records += gist.page.count

    def _note_upto(self, kept: Kept, stop: int) -> None:
        self._seen[kept.number] = structs.replace(self._seen[kept.number], upto=stop)

    def _add_words(self, seen: Seen, gist: Gist, ids: Sequence[int]) -> None:
        """Let the text index have what records say; those without an id say nothing."""
        text = self._vault.text
        for document in gist.documents:
            record = ids[document.row]
            if record:
                text.add(record, seen.session or 0, document.kind, document.words)

    def _session(self, kept: Kept, page: Page | None = None) -> int:
        """Return the number of the session that a source seems to belong to."""
        owner = self._folder_owner(kept)
        if owner is not None:
            return owner
        is_sure = page is None or is_named(kept.source)
        nodes = () if page is None or is_sure else tuple(unpack_nodes(page.raw))
        return self._index.number(
            session_of(Transcript(source=kept.source, nodes=nodes))
        )

    def _moves(self, kept: Kept) -> bool:
        """Book a source to the session that it belongs to; say whether that is new."""
        seen = self._seen[kept.number]
        owner = self._folder_owner(kept)
        if owner is None:
            told = Transcript(source=kept.source, nodes=tuple(self._speakers(kept)))
            owner = self._index.number(session_of(told))
        if owner == seen.session:
            return False
        self._index.move_source(kept.number, owner)
        self._seen[kept.number] = structs.replace(seen, session=owner)
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
        nodes = chain(self._index.each_node(kept.number), self._unfinished(kept))
        if kept.kind is SourceKind.AGENT:
            return islice((node for node in nodes if node.session), 1)
        return nodes

    def _unfinished(self, kept: Kept) -> Iterator[Node]:
        """Yield what the last line says: assembled with the rest, it is heard here."""
        try:
            raw = self._vault.chunks.fragment(kept.number, kept.generation)
        except ArchiveDamaged:
            return
        yield from decode(lines_of(kept.id, kept.generation, kept.kept, raw))[1]

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

    def finish(self, kept: Kept) -> None:
        """Note how far a source has been seen; its session must be derived anew."""
        self.readers.then(partial(self._finish, kept))

    def _finish(self, kept: Kept) -> None:
        seen = self._seen_of(kept)
        if seen is None:
            seen = Seen(kept.number, kept.generation, kept.kept)
            if kept.kind.is_transcript:
                seen = structs.replace(seen, session=self._session(kept))
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
        self.readers.finish()
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
        known = self._index.record_ids(kept.number, level)
        seen = self._seen[kept.number]
        for stretch in self._stretches(kept, first, seen.upto):
            if isinstance(stretch, Problem):
                continue
            gist = gist_of(stretch)
            self._add_words(seen, gist, [known.get(row[2], 0) for row in gist.rows])


def _unreadable(number: int) -> Problem:
    """Return what is to be said of a source whose row is damaged."""
    return Problem("damaged", Position(SourceId(f"source {number}"), 0, 0, 0))


def stretch_of(kept: Kept, start: int, raw: bytes) -> Stretch:
    """Return lines of a source as a stretch."""
    is_agent = kept.kind is SourceKind.AGENT
    return Stretch(kept.id, kept.generation, start, raw, is_agent)
