"""`bygones schema`: the JSON Schemas of all JSON output."""

from __future__ import annotations

from difflib import get_close_matches

import click
import msgspec

from bygones.schema.registry import OBJECT_TYPES, json_schema


@click.command("schema")
@click.argument("type_name", metavar="[TYPE]", required=False)
@click.option("--list", "list_types", is_flag=True, help="List the types.")
def schema(type_name: str | None, *, list_types: bool) -> None:
    r"""Print the JSON Schema of --json output.

    \b
    bygones schema session
    bygones schema --list

    Without TYPE, the schemas of all objects are printed. Each object has its type in the
    field "type". The web API returns the same objects.
    """
    if list_types:
        for name in OBJECT_TYPES:
            click.echo(name)
        return
    if type_name is not None and type_name not in OBJECT_TYPES:
        close = get_close_matches(type_name, OBJECT_TYPES, n=2)
        hint = f"; did you mean {' or '.join(close)}?" if close else ""
        raise click.UsageError(f"there is no type {type_name!r}{hint}")
    encoded = msgspec.json.encode(json_schema(type_name))
    click.echo(msgspec.json.format(encoded, indent=2).decode())
