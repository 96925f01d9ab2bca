"""Tables of the JSON that commands print, from the structs that make it."""

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

from bygones import json_rows
from bygones.cli.commands import hub
from bygones.model import reports as usage
from bygones.render import json as show

__all__ = ["schemas_page"]

_INTRODUCTION = """\
# JSON

With `--json` a command prints one object a line. Each says under `row` what it is; a
program takes the rows it knows and leaves the others. The first row has `schema`, which
counts up when a row or a field goes or changes its meaning, not when one comes. A field
that has nothing to say is left out. Control characters and other signs that nobody sees
are written as `\\u001b` and the like.
"""
_PLAIN = {
    "str": "text",
    "int": "number",
    "bool": "true or false",
    "datetime": "time, ISO 8601 in UTC",
    "Raw": "any JSON",
}


def schemas_page() -> str:
    """Return the page of rows and fields, command by command."""
    parts = [
        _INTRODUCTION,
        (
            f"## show\n\nSchema {show.SCHEMA_VERSION}; see the "
            "[guide](../guide/show.md).\n"
        ),
    ]
    parts.extend(shape_tables(show.JSON_TYPES))
    parts.append(
        f"## Other commands\n\nSchema {json_rows.SCHEMA}; the first row says which of "
        "them it is. See [at the terminal](../guide/terminal.md) and [keep what was "
        "said](../guide/archive.md).\n"
    )
    parts.extend(shape_tables((*json_rows.ARCHIVE_ROWS, *json_rows.COMMAND_ROWS)))
    parts.append(
        f"## usage\n\nSchema {json_rows.SCHEMA}; see the [guide](../guide/usage.md).\n"
    )
    parts.extend(shape_tables((json_rows.HeaderRow, *usage.USAGE_ROWS)))
    parts.append(
        f"## search\n\nSchema {json_rows.SCHEMA}; see the "
        "[guide](../guide/search.md).\n"
    )
    parts.extend(shape_tables((json_rows.HeaderRow, *json_rows.SEARCH_ROWS)))
    parts.append(
        f"## hub\n\nSchema {json_rows.SCHEMA}; see the [guide](../guide/team.md).\n"
    )
    parts.extend(shape_tables(hub.HUB_ROWS))
    return "\n".join(parts)


def shape_tables(rows: Iterable[type[msgspec.Struct]]) -> Iterator[str]:
    """Yield the tables of some rows, then those of what their fields hold."""
    shapes = list(rows)
    for shape in shapes:
        yield from shape_table(shape)
        for inner in inner_shapes(shape):
            if inner not in shapes:
                shapes.append(inner)


def shape_table(shape: type[msgspec.Struct]) -> Iterator[str]:
    """Yield the heading and the table of one struct."""
    tag = shape.__struct_config__.tag
    yield f"### {f'row `{tag}`' if tag else f'`{shape.__name__}`'}\n"
    yield f"{(inspect.getdoc(shape) or '').partition(chr(10))[0]}\n"
    yield "| field | is | meaning |\n|---|---|---|"
    meanings = field_meanings(shape)
    hints = typing.get_type_hints(shape)
    for field in msgspec.structs.fields(shape):
        always = "" if not field.required else ", always"
        kind = type_name(hints[field.name])
        meaning = meanings.get(field.name, "")
        yield f"| `{field.encode_name}` | {kind}{always} | {meaning} |"
    yield ""


def field_meanings(shape: type[msgspec.Struct]) -> dict[str, str]:
    """Return the sentence below each field of a class, by the field's name."""
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
    """Return what a reader of JSON calls a type."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in {typing.Union, types.UnionType}:
        named = [type_name(one) for one in arguments if one is not type(None)]
        return " or ".join(named)
    if origin is tuple:
        return f"list of {type_name(arguments[0])}"
    if isinstance(hint, type) and issubclass(hint, StrEnum):
        return ", ".join(f"`{member.value}`" for member in hint)
    plain = getattr(hint, "__supertype__", hint)
    name = getattr(plain, "__name__", str(plain))
    return _PLAIN.get(name, f"`{name}`")


def inner_shapes(shape: type[msgspec.Struct]) -> Iterator[type[msgspec.Struct]]:
    """Yield the structs that the fields of one hold."""
    hints = typing.get_type_hints(shape, vars(sys.modules[shape.__module__]))
    waiting: list[object] = list(hints.values())
    while waiting:
        hint = waiting.pop(0)
        waiting.extend(typing.get_args(hint))
        if isinstance(hint, type) and issubclass(hint, msgspec.Struct):
            yield hint
