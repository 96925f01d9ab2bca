"""The reference page of the JSON objects, generated from their structs."""

from __future__ import annotations

import ast
import inspect
import sys
import textwrap
import types
import typing
from collections.abc import Iterable, Iterator
from enum import StrEnum

import msgspec

from bygones.schema.encoding import SCHEMA_VERSION
from bygones.schema.registry import OBJECT_GROUPS

__all__ = ["schemas_page"]

_INTRODUCTION = f"""\
# JSON

With `--json` a command prints one object per line. The [web API](../guide/web.md)
returns the same objects as `{{"schema": {SCHEMA_VERSION}, "items": […]}}`. Errors and
notes go to stderr.

- Each object has a `type`; ignore the types that you do not know.
- Every field is always present, and null if the value is unknown. Only fields marked
  *optional* are left out unless you request them.
- Times are ISO 8601 with a time zone and end in `_at`; durations are in milliseconds and
  end in `_ms`; costs are US dollars and end in `_usd`.
- Tokens are counted by how they are billed; `jq '.tokens | add'` gives their sum.
- Turns, branches and hits count from 1. Branch 1 is the live one.
- Control characters and other invisible characters are escaped, as in `\\u001b`.

This is schema {SCHEMA_VERSION}. The number increases when an object or a field is removed
or changes its meaning. `bygones schema` prints the JSON Schemas.
"""
_PLAIN = {
    "str": "string",
    "int": "integer",
    "float": "number",
    "bool": "boolean",
    "datetime": "time",
    "date": "date",
    "Raw": "any JSON",
}


def schemas_page() -> str:
    """Return the page of all objects and their fields."""
    parts = [_INTRODUCTION]
    known: list[type[msgspec.Struct]] = []
    for title, group in OBJECT_GROUPS.items():
        parts.append(f"## {title}\n")
        parts.extend(shape_tables(group, known))
    return "\n".join(parts)


def shape_tables(
    group: Iterable[type[msgspec.Struct]], known: list[type[msgspec.Struct]]
) -> Iterator[str]:
    """Yield the tables of some structs and of those that their fields contain.

    Structs in `known` have a table already.
    """
    waiting = list(group)
    for shape in waiting:
        if shape in known:
            continue
        known.append(shape)
        yield from shape_table(shape)
        waiting += [inner for inner in inner_shapes(shape) if not _is_object(inner)]


def shape_table(shape: type[msgspec.Struct]) -> Iterator[str]:
    """Yield the heading and the table of one struct."""
    tag = shape.__struct_config__.tag
    yield f"### {f'`{tag}`' if tag else shape.__name__}\n"
    yield f"{(inspect.getdoc(shape) or '').partition(chr(10))[0]}\n"
    yield "| field | type | meaning |\n|---|---|---|"
    meanings = field_meanings(shape)
    hints = typing.get_type_hints(shape)
    for field in msgspec.structs.fields(shape):
        kind = type_name(hints[field.name])
        meaning = meanings.get(field.name, "")
        yield f"| `{field.encode_name}` | {kind} | {meaning} |"
    yield ""


def _is_object(shape: type[msgspec.Struct]) -> bool:
    return shape.__struct_config__.tag_field == "type"


def field_meanings(shape: type[msgspec.Struct]) -> dict[str, str]:
    """Return the docstrings of the fields of a class by name."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(shape))).body[0]
    found = {}
    if isinstance(tree, ast.ClassDef):
        for field, below in zip(tree.body, tree.body[1:], strict=False):
            if isinstance(field, ast.AnnAssign) and isinstance(below, ast.Expr):
                words = ast.literal_eval(below.value)
                words = " ".join(words.replace("``", "`").split())
                found[ast.unparse(field.target)] = words
    return found


def type_name(hint: object) -> str:
    """Return how JSON names a type."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in {typing.Union, types.UnionType}:
        named = [
            type_name(argument)
            for argument in arguments
            if argument not in {type(None), msgspec.UnsetType}
        ]
        is_optional = msgspec.UnsetType in arguments
        is_nullable = type(None) in arguments
        return (
            " or ".join(named)
            + (" or null" if is_nullable else "")
            + (", *optional*" if is_optional else "")
        )
    if origin is tuple:
        return f"list of {type_name(arguments[0])}"
    if origin is dict:
        return f"object of {type_name(arguments[1])} by name"
    if isinstance(hint, type) and issubclass(hint, msgspec.Struct):
        return f"`{hint.__struct_config__.tag or hint.__name__}`"
    if isinstance(hint, type) and issubclass(hint, StrEnum):
        return ", ".join(f"`{member.value}`" for member in hint)
    plain = getattr(hint, "__supertype__", hint)
    name = getattr(plain, "__name__", str(plain))
    return _PLAIN.get(name, f"`{name}`")


def inner_shapes(shape: type[msgspec.Struct]) -> Iterator[type[msgspec.Struct]]:
    """Yield the structs that the fields of a struct contain."""
    hints = typing.get_type_hints(shape, vars(sys.modules[shape.__module__]))
    waiting: list[object] = list(hints.values())
    while waiting:
        hint = waiting.pop(0)
        waiting.extend(typing.get_args(hint))
        if isinstance(hint, type) and issubclass(hint, msgspec.Struct):
            yield hint
