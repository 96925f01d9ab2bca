"""Changing a JSON file as text: one member comes or goes, and nothing else moves.

Somebody else's settings keep their order, their spaces and their line ends. What is
put in can be taken out again to the byte. A container that is made here stands on one
line; that tells it from one that was there before and was empty. Where somebody has
written the file anew since, on lines of its own, nothing tells them apart any more, and
what our going leaves empty goes too.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import msgspec

__all__ = ["JsonEditError", "add_member", "append_item", "parse_object", "remove_owned"]

_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\],:]|[^\s{}\[\],:"]+', re.DOTALL)
_DECODE_ERRORS = (msgspec.MsgspecError, UnicodeError, RecursionError)


class JsonEditError(Exception):
    """What stands in a file is no JSON object, or not of the shape that is needed."""


class _JsonPart(NamedTuple):
    """A member of an object or an element of a list, by where it stands."""

    key: str | None
    start: int
    """Where its key stands, or the element."""
    value_start: int
    end: int


def parse_object(text: str) -> dict[str, Any]:
    """Return the object that a text holds.

    A key that stands twice is refused: programs differ in which of the two they take.
    """
    try:
        found = msgspec.json.decode(text.encode())
    except _DECODE_ERRORS as error:
        raise JsonEditError(str(error)) from error
    if not isinstance(found, dict):
        raise JsonEditError("it holds no object")
    _reject_duplicate_keys(text)
    return found


def _reject_duplicate_keys(text: str) -> None:
    seen: list[set[str]] = []
    before = ""
    for token in _TOKEN.finditer(text):
        if token[0] in "{[":
            seen.append(set())
        elif token[0] in "}]":
            seen.pop()
        elif token[0] == ":":
            key: str = msgspec.json.decode(before)
            if key in seen[-1]:
                raise JsonEditError(f"{key!r} stands twice in one object")
            seen[-1].add(key)
        before = token[0]


def add_member(text: str, path: Sequence[str], value: object) -> str:
    """Return the text with a member added; objects on the way are made if need be."""
    parse_object(text)
    at = _root_offset(text)
    for number, key in enumerate(path):
        found = next((p for p in _container_parts(text, at) if p.key == key), None)
        if found is None:
            made = value
            for name in reversed(path[number + 1 :]):
                made = {name: made}
            return _insert(text, at, f"{_to_json(key)}: {_to_json(made)}")
        if number < len(path) - 1 and text[found.value_start] != "{":
            raise JsonEditError(f"{key!r} is no object")
        at = found.value_start
    raise JsonEditError(f"{path[-1]!r} is there already")


def append_item(text: str, path: Sequence[str], value: object) -> str:
    """Return the text with an element added to a list, which is made if need be."""
    at = _find_value(text, path)
    if at is None:
        return add_member(text, path, [value])
    if text[at] != "[":
        raise JsonEditError(f"{path[-1]!r} is no list")
    return _insert(text, at, _to_json(value))


def remove_owned(
    text: str, path: Sequence[str], is_owned: Callable[[object], bool]
) -> str:
    """Return the text without what is ours: a member, or elements of a list.

    A container that this leaves empty goes too if it was made here, or if what is ours
    was written anew, so that this cannot be told.
    """
    parse_object(text)
    at = _find_value(text, path)
    if at is None:
        return text
    if text[at] != "[":
        if not is_owned(_decode_value(text, at)):
            return text
        return _remove_member(text, path, is_rewritten=not _is_on_one_line(text, at))
    parts = _container_parts(text, at)
    ours = [part for part in parts if is_owned(_decode_value(text, part.value_start))]
    is_rewritten = not all(_is_on_one_line(text, part.value_start) for part in ours)
    if len(ours) == len(parts) and ours and (is_rewritten or _is_on_one_line(text, at)):
        return _remove_member(text, path, is_rewritten=is_rewritten)
    for part in reversed(ours):
        text = _cut_part(text, at, part.start)
    return text


def _remove_member(text: str, path: Sequence[str], *, is_rewritten: bool) -> str:
    """Return the text without a member, and without objects made here for it."""
    parent = _find_value(text, path[:-1])
    assert parent is not None  # noqa: S101 (the member was found below it)
    parts = _container_parts(text, parent)
    part = next(p for p in parts if p.key == path[-1])
    is_made_here = is_rewritten or _is_on_one_line(text, parent)
    if len(parts) == 1 and len(path) > 1 and is_made_here:
        return _remove_member(text, path[:-1], is_rewritten=is_rewritten)
    return _cut_part(text, parent, part.start)


def _is_on_one_line(text: str, offset: int) -> bool:
    return "\n" not in text[offset : _value_end(text, offset)]


def _insert(text: str, offset: int, added: str) -> str:
    parts = _container_parts(text, offset)
    if parts:
        last = parts[-1]
        before = parts[-2].end if len(parts) > 1 else offset
        space = text[before : last.start].lstrip(",{[")
        gap = space[space.find(",") + 1 :] if "," in space else space
        return f"{text[: last.end]},{gap}{added}{text[last.end :]}"
    end = _value_end(text, offset)
    line = text.rfind("\n", 0, offset) + 1
    margin = text[line : line + len(text[line:]) - len(text[line:].lstrip(" \t"))]
    inner = f"\n{margin}  {added}\n{margin}"
    return f"{text[: offset + 1]}{inner}{text[end - 1 :]}"


def _cut_part(text: str, offset: int, start: int) -> str:
    parts = _container_parts(text, offset)
    number = next(n for n, part in enumerate(parts) if part.start == start)
    if number:
        first, last = parts[number - 1].end, parts[number].end
    elif len(parts) > 1:
        first, last = parts[0].start, parts[1].start
    else:
        first, last = offset + 1, _value_end(text, offset) - 1
    return text[:first] + text[last:]


def _root_offset(text: str) -> int:
    return len(text) - len(text.lstrip())


def _find_value(text: str, path: Sequence[str]) -> int | None:
    """Return where the value at a path stands."""
    at = _root_offset(text)
    for key in path:
        if text[at] != "{":
            return None
        found = next(
            (part for part in _container_parts(text, at) if part.key == key), None
        )
        if found is None:
            return None
        at = found.value_start
    return at


def _container_parts(text: str, offset: int) -> list[_JsonPart]:
    """Return the members or elements of the container at a place."""
    is_object = text[offset] == "{"
    if not is_object and text[offset] != "[":
        raise JsonEditError("a value stands where an object should")
    found: list[_JsonPart] = []
    key: str | None = None
    start = offset
    place = offset + 1
    while True:
        token = _TOKEN.search(text, place)
        if token is None or token[0] in "}]":
            return found
        if token[0] in ",:":
            place = token.end()
        elif is_object and key is None:
            key, start, place = (
                msgspec.json.decode(token[0]),
                token.start(),
                token.end(),
            )
        else:
            place = _value_end(text, token.start())
            begun = start if is_object else token.start()
            found.append(_JsonPart(key, begun, token.start(), place))
            key = None


def _value_end(text: str, offset: int) -> int:
    """Return where the value at a place ends."""
    depth = 0
    for token in _TOKEN.finditer(text, offset):
        if token[0] in "{[":
            depth += 1
        elif token[0] in "}]":
            depth -= 1
        if depth == 0:
            return token.end()
    raise JsonEditError("a value without an end")


def _decode_value(text: str, offset: int) -> object:
    found: object = msgspec.json.decode(
        text[offset : _value_end(text, offset)].encode()
    )
    return found


def _to_json(value: object) -> str:
    return msgspec.json.format(msgspec.json.encode(value), indent=0).decode()
