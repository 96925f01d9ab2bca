"""Add and remove members of a JSON file as text, without changing anything else.

The settings of the user keep their order, spaces and line ends, and removing restores
the file byte for byte. A container that is created here is written on one line, which
distinguishes it from an empty container of the user. If another program has reformatted
the file in the meantime, they look the same, and a container that becomes empty is
removed, too.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import msgspec

_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\],:]|[^\s{}\[\],:"]+', re.DOTALL)
_DECODE_ERRORS = (msgspec.MsgspecError, UnicodeError, RecursionError)


class JsonEditError(Exception):
    """A file does not contain a JSON object, or not in the expected form."""


class _JsonPart(NamedTuple):
    """The offsets of a member of an object, or of an item of a list."""

    key: str | None
    start: int
    """The offset of its key, or of the item."""
    value_start: int
    end: int


def parse_object(text: str) -> dict[str, Any]:
    """Parse a JSON object.

    Duplicate keys are an error, as programs differ in which of them they use.
    """
    try:
        value = msgspec.json.decode(text.encode())
    except _DECODE_ERRORS as error:
        raise JsonEditError(str(error)) from error
    if not isinstance(value, dict):
        raise JsonEditError("it does not contain an object")
    _reject_duplicate_keys(text)
    return value


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
                raise JsonEditError(f"{key!r} appears twice in one object")
            seen[-1].add(key)
        before = token[0]


def add_member(text: str, path: Sequence[str], value: object) -> str:
    """Add a member, and the objects on its path that do not exist."""
    parse_object(text)
    at = _root_offset(text)
    for number, key in enumerate(path):
        found = next((p for p in _container_parts(text, at) if p.key == key), None)
        if found is None:
            member = value
            for name in reversed(path[number + 1 :]):
                member = {name: member}
            return _insert(text, at, f"{_to_json(key)}: {_to_json(member)}")
        if number < len(path) - 1 and text[found.value_start] != "{":
            raise JsonEditError(f"{key!r} is not an object")
        at = found.value_start
    raise JsonEditError(f"{path[-1]!r} already exists")


def append_item(text: str, path: Sequence[str], value: object) -> str:
    """Add an item to a list, which is created if it does not exist."""
    at = _find_value(text, path)
    if at is None:
        return add_member(text, path, [value])
    if text[at] != "[":
        raise JsonEditError(f"{path[-1]!r} is not a list")
    return _insert(text, at, _to_json(value))


def remove_owned(
    text: str, path: Sequence[str], is_owned: Callable[[object], bool]
) -> str:
    """Remove a member or the items of a list that are ours.

    A container that becomes empty is removed if it was created here, or if the file was
    reformatted, so that this is not known.
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


def replace_owned(
    text: str, path: Sequence[str], update: Callable[[object], object]
) -> str:
    """Replace a member, or the items of a list, by what ``update`` returns for them.

    Only the parts that differ are written, so that the formatting stays.
    """
    parse_object(text)
    at = _find_value(text, path)
    if at is None:
        return text
    offsets = [at]
    if text[at] == "[":
        offsets = [part.value_start for part in _container_parts(text, at)]
    for offset in reversed(offsets):
        text = _replace_value(text, offset, update(_decode_value(text, offset)))
    return text


def _replace_value(text: str, offset: int, value: object) -> str:
    if _decode_value(text, offset) == value:
        return text
    parts = _container_parts(text, offset) if text[offset] in "{[" else []
    if isinstance(value, dict) and value.keys() == {part.key for part in parts}:
        values = [value[part.key] for part in parts]
    elif isinstance(value, list) and text[offset] == "[" and len(value) == len(parts):
        values = value
    else:
        return text[:offset] + _to_json(value) + text[_value_end(text, offset) :]
    for part, new in reversed([*zip(parts, values, strict=True)]):
        text = _replace_value(text, part.value_start, new)
    return text


def _remove_member(text: str, path: Sequence[str], *, is_rewritten: bool) -> str:
    """Remove a member, and the objects that were created for it."""
    parent = _find_value(text, path[:-1])
    assert parent is not None  # noqa: S101 (the member was found below it)
    parts = _container_parts(text, parent)
    part = next(p for p in parts if p.key == path[-1])
    is_created_here = is_rewritten or _is_on_one_line(text, parent)
    if len(parts) == 1 and len(path) > 1 and is_created_here:
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
    """Return the offset of the value at a path."""
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
    """Return the members or items of the container at an offset."""
    is_object = text[offset] == "{"
    if not is_object and text[offset] != "[":
        raise JsonEditError("there is a value in place of an object")
    parts: list[_JsonPart] = []
    key: str | None = None
    start = offset
    place = offset + 1
    while True:
        token = _TOKEN.search(text, place)
        if token is None or token[0] in "}]":
            return parts
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
            first = start if is_object else token.start()
            parts.append(_JsonPart(key, first, token.start(), place))
            key = None


def _value_end(text: str, offset: int) -> int:
    """Return the end of the value at an offset."""
    depth = 0
    for token in _TOKEN.finditer(text, offset):
        if token[0] in "{[":
            depth += 1
        elif token[0] in "}]":
            depth -= 1
        if depth == 0:
            return token.end()
    raise JsonEditError("a value is not terminated")


def _decode_value(text: str, offset: int) -> object:
    value: object = msgspec.json.decode(
        text[offset : _value_end(text, offset)].encode()
    )
    return value


def _to_json(value: object) -> str:
    return msgspec.json.format(msgspec.json.encode(value), indent=0).decode()
