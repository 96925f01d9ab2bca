"""A call's line laid out: its subject cut so that how it ended is always seen."""

from __future__ import annotations

from collections.abc import Iterator

from bygones.render.prose import prose
from bygones.render.safe import safe_line
from bygones.render.spans import Row, Span, Style, row
from bygones.render.tools import CallLine, CallState
from bygones.render.widths import fit_left, fit_right, width

__all__ = ["call_rows"]

_LINE_LIMIT = 240
"""Columns of a line where no terminal limits it."""
_NARROW = 12
"""Columns that a subject gets at least."""
_STATES = {
    CallState.DONE: "",
    CallState.FAILED: "failed",
    CallState.INTERRUPTED: "interrupted",
    CallState.REFUSED: "refused",
    CallState.WAITING: "no result",
}


def call_rows(line: CallLine, room: int | None) -> Iterator[Row]:
    """Yield the line about a call, and those that belong to it."""
    limit = room or _LINE_LIMIT
    tail = _tail(line)
    name = fit_right(safe_line(line.name), limit // 2)
    taken = 2 + width(name) + sum(width(span.text) for span in tail)
    subject = safe_line(line.subject)
    if subject:
        fit = fit_left if line.is_path else fit_right
        subject = " " + fit(subject, max(limit - taken - 1, _NARROW))
    yield row("  ", Span(name, Style.TOOL), subject, *tail)
    for words in line.more:
        for span in prose(safe_line(words), limit - 4 if room else None):
            yield row("    ", span)
    if line.trouble:
        trouble = fit_right(safe_line(line.trouble), limit - 6)
        yield row(Span("    ╰ ", Style.FACT), Span(trouble, Style.ALERT))


def _tail(line: CallLine) -> list[Span]:
    spans = []
    facts = [safe_line(fact) for fact in line.facts]
    is_bad = line.state is not CallState.DONE
    has_code = line.state is CallState.FAILED and any(
        f.startswith("exit ") for f in facts
    )
    if line.added:
        spans.append(Span(f" +{line.added}", Style.ADDED))
    if line.removed:
        spans.append(Span(f" \N{MINUS SIGN}{line.removed}", Style.REMOVED))
    if is_bad and not has_code:
        facts.insert(0, _STATES[line.state])
    for number, fact in enumerate(facts):
        gap = "  " if number == 0 else " · "
        style = Style.ALERT if is_bad and number == 0 else Style.FACT
        spans += [Span(gap, Style.FACT), Span(fact, style)]
    return spans
