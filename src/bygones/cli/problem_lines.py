"""Lines that show problems as compilers do: file, line, kind and detail."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from bygones.cli.context import cwd
from bygones.cli.output import shorten_path
from bygones.render.text.primitives import sanitize_name

if TYPE_CHECKING:
    from collections.abc import Callable

    from bygones.model.reports import ProblemRow


def shorten_source(path: str) -> str:
    return shorten_path(path, cwd=cwd(), home=Path.home())


def format_problem_location(
    problem: ProblemRow, shorten: Callable[[str], str] = str
) -> str:
    """Return the position of a problem as editors and compilers write it."""
    path = shorten(problem.source)
    return path if problem.line is None else f"{path}:{problem.line}"


def format_repeats(problem: ProblemRow) -> str:
    return f" ({problem.count:,} lines)" if problem.count > 1 else ""


def format_problem_row(problem: ProblemRow) -> str:
    reason = f"{problem.kind}: {problem.detail}" if problem.detail else problem.kind
    reason += format_repeats(problem)
    return sanitize_name(
        f"{format_problem_location(problem, shorten_source)}: {reason}"
    )
