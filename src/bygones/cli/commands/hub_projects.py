"""`bygones hub project`: list projects of a hub, and limit who may see them."""

from __future__ import annotations

from collections.abc import Iterable

import click

from bygones.cli.commands.hub_options import (
    abbreviate_home,
    hub_options,
    open_hub,
    record_action,
)
from bygones.cli.context import json_option
from bygones.cli.output import TextColumn, TextTable, print_objects
from bygones.render.numbers import pluralize
from bygones.render.text.primitives import sanitize_name
from bygones.schema.commands import HubProjectObject
from bygones.team.access import check_account_name, repository_name
from bygones.team.contract import ProjectRule


@click.group("project")
def project() -> None:
    r"""List projects, and limit who may see them.

    \b
    bygones hub project list
    bygones hub project limit github.com/acme/pay --team pay
    bygones hub project open github.com/acme/pay
    """


@project.command("list")
@hub_options
@json_option
def list_projects(*, store: str, raw: str, as_json: bool) -> None:
    r"""List all projects of a hub, and who may see them.

    \b
    bygones hub project list
    bygones hub project list --json

    A project is a repository, with all its clones and worktrees, or a directory.
    """
    with open_hub(store, raw) as (engine, _):
        counts = engine.count_sessions_by_project()
        rules = engine.project_rules()
    objects = [
        HubProjectObject(
            project=name,
            session_count=counts.get(name, 0),
            is_limited=name in rules,
            teams=rules[name].teams if name in rules else (),
            people=rules[name].people if name in rules else (),
        )
        for name in sorted({*counts, *rules})
    ]
    if as_json:
        print_objects(objects)
        return
    if not objects:
        click.echo("no projects yet")
        return
    columns = tuple(TextColumn(name) for name in ("PROJECT", "SESSIONS", "VISIBLE TO"))
    rows = (
        (sanitize_name(one.project), str(one.session_count), _describe(one))
        for one in objects
    )
    for line in TextTable(columns, rows).lines():
        click.echo(line)


def _describe(one: HubProjectObject) -> str:
    if not one.is_limited:
        return "teams of the author"
    return _join((*(f"team {name}" for name in one.teams), *one.people))


def _join(names: Iterable[str]) -> str:
    return ", ".join(names) or "the author"


def _parse_name(name: str) -> str:
    """Return a directory with `~`, or a repository; its address works too."""
    found = repository_name(name) or abbreviate_home(name)
    if "/" not in found.replace("\\", "/") or not found.isprintable():
        raise click.BadParameter(
            "use a repository such as github.com/acme/pay, or a directory",
            param_hint="NAME",
        )
    return found


@project.command("limit")
@click.argument("name")
@click.option(
    "--team",
    "teams",
    metavar="NAME",
    multiple=True,
    help="Team that may see it; repeatable.",
)
@click.option(
    "--person",
    "people",
    metavar="NAME",
    multiple=True,
    help="Person who may see it; repeatable.",
)
@hub_options
def limit(
    *, name: str, teams: tuple[str, ...], people: tuple[str, ...], store: str, raw: str
) -> None:
    r"""Limit who may see a project.

    \b
    bygones hub project limit github.com/acme/pay --team pay
    bygones hub project limit ~/work/secret

    NAME is a repository, or a directory as the hub shows it, with everything below it.
    Its sessions are visible to those who are named and share a team with the author, to
    the author, and to auditors. A limit never shows more than before. It replaces
    an earlier one; sessions of the project are indexed again and are hidden meanwhile.
    """
    for one in (*teams, *people):
        check_account_name(one)
    rule = ProjectRule(people=tuple(sorted(people)), teams=tuple(sorted(teams)))
    named = _parse_name(name)
    from bygones.team.worker import derive_all

    with open_hub(store, raw) as (engine, objects):
        hidden = engine.limit_project(named, rule)
        who = _join((*(f"team {team}" for team in rule.teams), *rule.people))
        record_action(engine, "project-limit", "", f"{named}: {who}")
        derive_all(engine, objects)
    shown = sanitize_name(named)
    click.echo(f"{shown} ({pluralize(hidden, 'session')}) is visible to: {who}")
    if not hidden:
        click.echo(
            "note: no session matches so far; `bygones hub project list` lists projects",
            err=True,
        )


@project.command("open")
@click.argument("name")
@hub_options
def open_project(*, name: str, store: str, raw: str) -> None:
    r"""Lift the limit of a project.

    \b
    bygones hub project open github.com/acme/pay

    Its sessions are visible to the teams of their authors again.
    """
    named = _parse_name(name)
    with open_hub(store, raw) as (engine, _):
        if named not in engine.project_rules():
            raise click.UsageError(
                f"{sanitize_name(named)!r} is not limited;"
                " `bygones hub project list` lists all projects"
            )
        engine.limit_project(named, None)
        record_action(engine, "project-open", "", named)
    click.echo(f"{sanitize_name(named)} is visible to the teams of its authors")
