"""The terms of texts in the forms in which PostgreSQL keeps and asks for them."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from itertools import accumulate, chain
from operator import add
from struct import Struct
from zlib import crc32

import msgspec

from bygones.model.buckets import KINDS
from bygones.store.harvest import TextRow
from bygones.store.press import squeeze, unpress
from bygones.team.asking import Posted
from bygones.team.engine import group_of

__all__ = [
    "Said",
    "Tallied",
    "counts_in",
    "living_in",
    "posted_in",
    "query_of",
    "sign_of",
    "slots_of",
    "vectors_of",
]

PIECE = 8_000
"""Terms of a vector: positions above 16,383 are all one to the engine."""
OVERLAP = 32
"""Terms that two pieces share, so that no run is cut in two."""
_SLOT = 8_000
"""Terms of texts that a slot holds, about."""
_KNOWN = 400_000
"""Terms whose group is remembered."""
_COUNT = Struct(">qi")
"""A session, then the kind of its texts and how many there are: 8 and 24 bits."""
_MOST = (1 << 24) - 1

_BREAK = b"\n"
_encode = msgspec.msgpack.encode
_decode_facts = msgspec.msgpack.Decoder(tuple[list[int], list[int], list[int]]).decode
"""Of each text its record, its kind, and where it begins; then where the last ends."""
_decode_slot = msgspec.msgpack.Decoder(tuple[bytes, list[int], list[int], bytes]).decode
_decode_term = msgspec.msgpack.Decoder(list[int]).decode
_PLACES = [f":{at}" for at in range(1, PIECE + 1)]


def vectors_of(terms: Sequence[str]) -> Iterator[str]:
    """Yield the vectors of a text; most have one.

    A term has letters and digits only: nothing in it needs to be escaped. One that
    stands there twice is told twice; the engine joins the places.
    """
    start = 0
    while True:
        yield " ".join(map(add, terms[start : start + PIECE], _PLACES))
        start += PIECE - OVERLAP
        if start + OVERLAP >= len(terms):
            return


def query_of(runs: Sequence[Sequence[str]]) -> str:
    """Return the question for texts that have one of some runs of terms."""
    return " | ".join(
        "(" + " <-> ".join(f"'{term}'" for term in run) + ")" for run in runs
    )


def sign_of(term: str) -> int:
    """Return the checksum by which a term is dealt to a slot."""
    return crc32(term.encode())


def slots_of(said: Said) -> list[bytes]:
    """Return what a session's slots hold: the facts of its texts, then its terms."""
    places: defaultdict[str, list[int]] = defaultdict(list)
    for at, term in enumerate(chain.from_iterable(said.terms)):
        places[term].append(at)
    slots = max(1, said.words.total() // _SLOT)
    dealt: list[dict[str, list[int]]] = [{} for _ in range(slots)]
    for term, found in places.items() if slots > 1 else ():
        dealt[sign_of(term) % slots][term] = found
    some = dealt if slots > 1 else [places]
    starts = list(accumulate(map(len, said.terms), initial=0))
    records = [text.record for text in said.texts]
    facts = _encode((records, [text.kind for text in said.texts], starts))
    return [squeeze(facts), *(squeeze(_slot(one, said.words)) for one in some)]


def _slot(dealt: Mapping[str, list[int]], words: Mapping[str, int]) -> bytes:
    """Pack terms so that one is found without unpacking the others.

    Where each stands is told in terms of the whole session, text behind text.
    """
    told = [_encode(places) for places in dealt.values()]
    names = "\n".join(("", *dealt, "")).encode()
    texts = [words[term] for term in dealt]
    return _encode((names, texts, list(map(len, told)), b"".join(told)))


def posted_in(
    slots: Mapping[int, bytes], terms: Sequence[str], *, everything: bool
) -> Posted:
    """Return what a session's slots say of some terms; slot 0 must be there.

    Texts are told of that have one of them, or all.
    """
    records, kinds, starts = _decode_facts(unpress(slots[0]))
    places: dict[str, dict[int, Sequence[int]]] = {}
    for slot, packed in slots.items():
        if slot:
            names, _, lengths, told = _decode_slot(unpress(packed))
            for term in terms:
                at = names.find(b"\n%b\n" % term.encode())
                if at >= 0:
                    number = names.count(_BREAK, 0, at)
                    start = sum(lengths[:number])
                    own = memoryview(told)[start : start + lengths[number]]
                    places[term] = _by_text(_decode_term(own), starts)
    numbers: Iterable[int] = range(len(records))
    if not everything:
        numbers = {number for texts in places.values() for number in texts}
    facts = {n: (records[n], kinds[n], starts[n + 1] - starts[n]) for n in numbers}
    return Posted(facts, places)


def _by_text(places: Sequence[int], starts: Sequence[int]) -> dict[int, Sequence[int]]:
    """Return places in a session, which ascend, as places in its texts."""
    found: dict[int, Sequence[int]] = {}
    at = 0
    while at < len(places):
        text = bisect_right(starts, places[at]) - 1
        stop = bisect_left(places, starts[text + 1], at)
        start = starts[text]
        found[text] = [place - start for place in places[at:stop]]
        at = stop
    return found


class Said:
    """What the texts of a session say: their terms, and which have which."""

    def __init__(self, texts: Sequence[TextRow]) -> None:
        self.texts = texts
        self.terms = [text.terms for text in texts]
        self.sets = list(map(set, self.terms))
        self.words: Counter[str] = Counter()
        """How many texts have each term."""
        for own in self.sets:
            self.words.update(own)


class Tallied:
    """Counts in how many texts of which session a form of each group stands."""

    _groups: dict[str, str] = {}  # noqa: RUF012 (remembered for all)

    def __init__(self) -> None:
        self.packed: defaultdict[str, bytearray] = defaultdict(bytearray)
        self.words: Counter[str] = Counter()
        """How many texts have each term."""
        self.texts = self.terms = 0

    def add(self, session: int, said: Said) -> None:
        """Count the texts of a session."""
        self.texts += len(said.texts)
        self.terms += sum(map(len, said.terms))
        self.words.update(said.words)
        kinds: dict[int, Counter[str]] = {}
        for text, own in zip(said.texts, said.sets, strict=True):
            kinds.setdefault(text.kind, Counter()).update(set(self.groups(own)))
        packed = self.packed
        for kind, counts in kinds.items():
            told = {
                count: _COUNT.pack(session, kind << 24 | min(count, _MOST))
                for count in set(counts.values())
            }
            for group, count in counts.items():
                packed[group] += told[count]

    def take(self, slot: int, packed: bytes) -> None:
        """Count what a slot of a session says that is there."""
        if slot == 0:
            records, _, starts = _decode_facts(unpress(packed))
            self.texts += len(records)
            self.terms += starts[-1]
            return
        names, texts, _, _ = _decode_slot(unpress(packed))
        terms = names.decode().split()
        self.words.update(dict(zip(terms, texts, strict=True)))

    @classmethod
    def groups(cls, terms: AbstractSet[str]) -> Iterator[str]:
        """Yield the group of each term."""
        known = cls._groups
        if not known.keys() >= terms:
            if len(known) > _KNOWN:
                known.clear()
            new = [term for term in terms if term not in known]
            known.update(zip(new, group_of(new), strict=True))
        return map(known.__getitem__, terms)


def counts_in(packed: bytes, alive: Container[int]) -> dict[int, int]:
    """Return how many texts there are, by bucket, of sessions that are there."""
    return {
        session * KINDS + (told >> 24): told & _MOST
        for session, told in _COUNT.iter_unpack(packed)
        if session in alive
    }


def living_in(packed: bytes, alive: Container[int]) -> bytes:
    """Return the same without what is told of sessions that are no more."""
    told = list(_COUNT.iter_unpack(packed))
    if all(session in alive for session, _ in told):
        return packed
    return b"".join(_COUNT.pack(*one) for one in told if one[0] in alive)
