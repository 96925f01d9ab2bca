"""Outline of HTML without whitespace, used by golden files."""

from __future__ import annotations

from html.parser import HTMLParser

__all__ = ["VOID", "attributes", "outline", "tags"]

VOID = frozenset(("meta", "link", "img", "input", "br", "hr"))
_SHOWN = ("id", "href", "src", "type", "open", "checked", "datetime", "name")


class _Outline(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.lines: list[str] = []
        self.open: list[str] = []
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str, str]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [(tag, name, value or "") for name, value in attrs]
        values = dict(attrs)
        kind = ".".join(("", *(values.get("class") or "").split()))
        rest = "".join(
            f" {name}={values[name]}" if values[name] else f" {name}"
            for name in _SHOWN
            if name in values
        )
        self._put(f"<{tag}{kind}{rest}>")
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag in VOID:
            return  # written as <br />
        assert self.open, f"</{tag}> closes nothing"
        assert self.open[-1] == tag, f"</{tag}> closes <{self.open[-1]}>"
        self.open.pop()

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] in {"style", "script"}:
            self._put("…")
            return
        for line in data.split("\n"):
            if line.strip():
                self._put(" ".join(line.split()))

    def _put(self, text: str) -> None:
        self.lines.append("  " * len(self.open) + text)


def _parsed(markup: str) -> _Outline:
    parser = _Outline()
    parser.feed(markup)
    parser.close()
    assert parser.open == [], f"not closed: {parser.open}"
    return parser


def outline(markup: str) -> str:
    """Return elements with their attributes and text, one per line."""
    return "".join(f"{line}\n" for line in _parsed(markup).lines)


def tags(markup: str) -> set[str]:
    """Return the elements of markup, which must be well-formed."""
    return set(_parsed(markup).tags)


def attributes(markup: str) -> list[tuple[str, str, str]]:
    """Return the attributes of markup: element, name and value."""
    return _parsed(markup).attributes
