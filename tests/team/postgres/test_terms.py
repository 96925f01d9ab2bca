"""Terms are found again where they stood, however they were packed."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bygones.store.export_rows import ExportedText
from bygones.team.stores import postgres_search
from bygones.team.stores.postgres_search import (
    SegmentTermCounts,
    SessionTerms,
    posted_in,
    slots_of,
    vectors_of,
)

texts = st.lists(
    st.builds(
        ExportedText,
        st.integers(0, 9),
        st.integers(0, 15),
        st.lists(st.sampled_from(["a", "ab", "b", "é", "10", "c"]), max_size=9).map(
            " ".join
        ),
    ),
    min_size=1,
    max_size=9,
)


def places(text: ExportedText, term: str) -> list[int]:
    return [at for at, one in enumerate(text.terms) if one == term]


@pytest.mark.parametrize("slot", [1, 8_000])
@given(texts)
def test_a_slot_tells_where_a_term_stands(slot: int, said: list[ExportedText]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(postgres_search, "_SLOT", slot)
        packed = dict(enumerate(slots_of(SessionTerms(said))))

    found = posted_in(packed, ["ab", "b", "z"], everything=True)

    assert found.text_facts == {
        at: (text.record, text.kind, len(text.terms)) for at, text in enumerate(said)
    }
    for term in ("ab", "b", "z"):
        standing = {at: places(text, term) for at, text in enumerate(said)}
        there = {at: own for at, own in standing.items() if own}
        assert found.positions.get(term, {}) == there
    some = posted_in(packed, ["ab"], everything=False)
    assert some.text_facts.keys() == some.positions.get("ab", {}).keys()


@given(texts)
def test_what_is_counted_is_what_a_slot_tells(said: list[ExportedText]) -> None:
    new, kept = SegmentTermCounts(), SegmentTermCounts()
    new.add(7, SessionTerms(said))

    for slot, packed in enumerate(slots_of(SessionTerms(said))):
        kept.take(slot, packed)

    assert (kept.texts, kept.terms) == (new.texts, new.terms)
    assert kept.words == new.words


def test_a_long_text_has_several_vectors_that_overlap() -> None:
    long = [f"w{at}" for at in range(postgres_search.PIECE + 1)]

    first, second = vectors_of(long)

    assert first.split()[-1] == f"w{postgres_search.PIECE - 1}:{postgres_search.PIECE}"
    assert second.split()[0] == f"w{postgres_search.PIECE - postgres_search.OVERLAP}:1"
    assert list(vectors_of([])) == [""]
