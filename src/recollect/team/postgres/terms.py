"""The terms of texts in the forms in which PostgreSQL keeps and asks for them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from itertools import accumulate
from struct import Struct
from zlib import crc32

import msgspec

from recollect.model.buckets import KINDS
from recollect.store.harvest import TextRow
from recollect.store.press import squeeze, unpress
from recollect.team.asking import Posted
from recollect.team.engine import group_of

__all__ = [
    "Tallied",
    "counts_in",
    "living_in",
    "places_of",
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

Places = Mapping[str, Sequence[int]]
"""Where each term of a text stands."""
_FACT = Struct("<III")
"""The record of a text, its kind and its length."""
_BREAK = b"\n"
_encode = msgspec.msgpack.encode
_decode_slot = msgspec.msgpack.Decoder(tuple[bytes, list[int], bytes]).decode
_decode_term = msgspec.msgpack.Decoder(list[tuple[int, list[int]]]).decode


def places_of(terms: Sequence[str]) -> dict[str, list[int]]:
    """Return where each term stands in a text."""
    found: dict[str, list[int]] = {}
    for at, term in enumerate(terms):
        if term in found:
            found[term].append(at)
        else:
            found[term] = [at]
    return found


def vectors_of(terms: Sequence[str], places: Places) -> Iterator[str]:
    """Yield the vectors of a text; most have one."""
    if len(terms) <= PIECE:
        yield _vector(places)
        return
    start = 0
    while True:
        yield _vector(places_of(terms[start : start + PIECE]))
        start += PIECE - OVERLAP
        if start + OVERLAP >= len(terms):
            return


def _vector(places: Places) -> str:
    # A term has letters and digits only: nothing in it needs to be escaped.
    return " ".join(
        [
            f"'{term}':{','.join([str(at + 1) for at in p])}"
            for term, p in places.items()
        ]
    )


def query_of(runs: Sequence[Sequence[str]]) -> str:
    """Return the question for texts that have one of some runs of terms."""
    return " | ".join(
        "(" + " <-> ".join(f"'{term}'" for term in run) + ")" for run in runs
    )


def sign_of(term: str) -> int:
    """Return the checksum by which a term is dealt to a slot."""
    return crc32(term.encode())


def slots_of(texts: Sequence[TextRow], places: Sequence[Places]) -> list[bytes]:
    """Return what a session's slots hold: the facts of its texts, then its terms."""
    by_term: dict[str, list[tuple[int, Sequence[int]]]] = {}
    count = 0
    for number, own in enumerate(places):
        count += len(own)
        for term, found in own.items():
            if term in by_term:
                by_term[term].append((number, found))
            else:
                by_term[term] = [(number, found)]
    slots = max(1, count // _SLOT)
    dealt: list[dict[str, list[tuple[int, Sequence[int]]]]]
    dealt = [{} for _ in range(slots)] if slots > 1 else [by_term]
    for term, posted in by_term.items() if slots > 1 else ():
        dealt[sign_of(term) % slots][term] = posted
    pack = _FACT.pack
    facts = b"".join([pack(t.record, t.kind, len(t.terms)) for t in texts])
    return [squeeze(facts), *(squeeze(_slot(one)) for one in dealt)]


def _slot(dealt: Mapping[str, Sequence[tuple[int, Sequence[int]]]]) -> bytes:
    """Pack terms so that one is found without unpacking the others."""
    told = [_encode(posted) for posted in dealt.values()]
    names = "\n".join(("", *dealt, "")).encode()
    return _encode((names, list(map(len, told)), b"".join(told)))


def posted_in(
    slots: Mapping[int, bytes], terms: Sequence[str], *, everything: bool
) -> Posted:
    """Return what a session's slots say of some terms; slot 0 must be there.

    Texts are told of that have one of them, or all.
    """
    places: dict[str, dict[int, Sequence[int]]] = {}
    for slot, packed in slots.items():
        if slot:
            names, lengths, told = _decode_slot(unpress(packed))
            for term in terms:
                at = names.find(b"\n%b\n" % term.encode())
                if at >= 0:
                    number = names.count(_BREAK, 0, at)
                    start = sum(lengths[:number])
                    own = memoryview(told)[start : start + lengths[number]]
                    places[term] = dict(_decode_term(own))
    raw = unpress(slots[0])
    numbers: Iterable[int] = range(len(raw) // _FACT.size)
    if not everything:
        numbers = {number for texts in places.values() for number in texts}
    facts = {n: _FACT.unpack_from(raw, _FACT.size * n) for n in numbers}
    return Posted(facts, places)


class Tallied:
    """Counts in how many texts of which session a form of each group stands."""

    _groups: dict[str, str] = {}  # noqa: RUF012 (remembered for all)

    def __init__(self) -> None:
        self.packed: dict[str, bytearray] = {}
        self.words: Counter[str] = Counter()
        """How many texts have each term."""
        self.texts = self.terms = 0

    def add(
        self, session: int, texts: Sequence[TextRow], places: Sequence[Places]
    ) -> None:
        """Count the texts of a session."""
        kinds: dict[int, Counter[str]] = {}
        for text, own in zip(texts, places, strict=True):
            self.texts += 1
            self.terms += len(text.terms)
            self.words.update(own.keys())
            groups = self.groups(own)
            kinds.setdefault(text.kind, Counter()).update(groups)
        pack = _COUNT.pack
        packed = self.packed
        for kind, counts in kinds.items():
            for group, count in counts.items():
                told = pack(session, kind << 24 | min(count, _MOST))
                if group in packed:
                    packed[group] += told
                else:
                    packed[group] = bytearray(told)

    def take(self, slot: int, packed: bytes) -> None:
        """Count what a slot of a session says that is there."""
        if slot == 0:
            facts = list(_FACT.iter_unpack(unpress(packed)))
            self.texts += len(facts)
            self.terms += sum(length for _, _, length in facts)
            return
        names, lengths, told = _decode_slot(unpress(packed))
        starts = accumulate(lengths, initial=0)
        terms = names.decode().split()
        self.words.update(
            {term: _length(told, at) for term, at in zip(terms, starts, strict=False)}
        )

    @classmethod
    def groups(cls, terms: Mapping[str, object]) -> set[str]:
        """Return the groups of terms."""
        known = cls._groups
        new = [term for term in terms if term not in known]
        if new:
            if len(known) > _KNOWN:
                known.clear()
                new = list(terms)
            known.update(zip(new, group_of(new), strict=True))
        return {known[term] for term in terms}

    @classmethod
    def group(cls, term: str) -> str:
        """Return the group of a term."""
        (found,) = cls.groups({term: None})
        return found


def _length(packed: bytes, at: int) -> int:
    """Return how many things a packed list has, which its first bytes tell."""
    first = packed[at]
    if first & 0xF0 == 0x90:  # noqa: PLR2004 (as MessagePack has it)
        return first & 0x0F
    size = 2 if first == 0xDC else 4  # noqa: PLR2004
    return int.from_bytes(packed[at + 1 : at + 1 + size], "big")


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
