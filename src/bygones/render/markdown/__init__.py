"""MARKDOWN: sessions for repositories and editors."""

from __future__ import annotations

from bygones.render.markdown.session import (
    Sheet,
    branch_markdown,
    markdown,
    window_markdown,
)

__all__ = ["Sheet", "branch_markdown", "markdown", "window_markdown"]
