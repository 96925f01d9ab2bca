"""MARKDOWN: sessions for repositories and editors."""

from __future__ import annotations

from recollect.render.markdown.session import (
    Sheet,
    branch_markdown,
    markdown,
    window_markdown,
)

__all__ = ["Sheet", "branch_markdown", "markdown", "window_markdown"]
