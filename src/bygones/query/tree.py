"""Makes terms in normal form out of terms in normal form."""

from __future__ import annotations

from collections.abc import Iterable

from bygones.model.query import And, Fact, Flag, Not, Or, Part, Scoped, Term, Words
from bygones.query.fields import OF_ANSWERS

__all__ = ["all_of", "any_of", "of_answers", "without"]

_ANSWERS = (Fact("is", Flag.ERROR), Fact("in", Part.RESULT))


def all_of(terms: Iterable[Term]) -> Term | None:
    """Return what asks for all of them; nothing, if there are none."""
    words: list[str] = []
    others: list[Term] = []
    for term in terms:
        for part in term.terms if isinstance(term, And) else (term,):
            if isinstance(part, Words):
                words.extend(part.words)
            else:
                others.append(part)
    flat = (Words(tuple(words)), *others) if words else tuple(others)
    return And(flat) if len(flat) > 1 else flat[0] if flat else None


def any_of(terms: Iterable[Term]) -> Term | None:
    """Return what asks for one of them at least; nothing, if there are none."""
    flat: list[Term] = []
    for term in terms:
        flat.extend(term.terms if isinstance(term, Or) else (term,))
    return Or(tuple(flat)) if len(flat) > 1 else flat[0] if flat else None


def without(term: Term) -> Term:
    """Return what asks for the opposite."""
    return term.term if isinstance(term, Not) else Not(term)


def of_answers(term: Term | None) -> Term | None:
    """Return a term in which what is said of a call is meant of what it gave back.

    That is so beside what only an answer can be: no call is an error, or a result.
    """
    if not isinstance(term, And) or not any(part in _ANSWERS for part in term.terms):
        return term
    return And(tuple(map(_answering, term.terms)))


def _answering(term: Term) -> Term:
    if isinstance(term, Fact) and term.field in OF_ANSWERS:
        return Fact(OF_ANSWERS[term.field], term.value)
    if isinstance(term, Scoped) and term.field in OF_ANSWERS:
        return Scoped(OF_ANSWERS[term.field], term.term)
    if isinstance(term, Not):
        return Not(_answering(term.term))
    if isinstance(term, Or):
        return Or(tuple(map(_answering, term.terms)))
    return term
