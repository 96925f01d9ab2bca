"""Queries as command-line arguments, as a shell passes them."""

from __future__ import annotations

import pytest

from bygones.cli.context import join_query_words
from bygones.cli.main import main
from bygones.errors import ExitCode


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["flaky test"], "flaky test"),
        (["flaky", "test"], "flaky test"),
        (["project:my notes", "x"], 'project:"my notes" x'),
        (["x", "-tag:a b"], 'x -tag:"a b"'),
        (['title:"a b" c'], 'title:"a b" c'),
        (["branch:live retry"], "branch:live retry"),
        (["role:(user OR system)"], "role:(user OR system)"),
        ([], ""),
    ],
)
def test_quotes_removed_by_the_shell_are_restored(
    arguments: list[str], text: str
) -> None:
    assert join_query_words(arguments) == text


@pytest.mark.usefixtures("demo_home")
@pytest.mark.parametrize(
    ("query", "count"),
    [
        ("project:shop", 2),
        ("-project:shop", 3),
        ("model:opus", 1),
        ("model:opus OR title:markdown", 2),
        ("git:main", 5),
        ("on:2026-01", 4),
        ("after:2026-01-30", 3),
        ("before:2026-01-10", 1),
        ("session:3d75", 1),
        ("tag:none", 0),
        ("tool:Task", 1),
        ("file:checkout.py", 1),
        ("tool:Edit -project:shop", 2),
        ("jitter idempotency", 1),
        ("branch:abandoned", 1),
    ],
)
@pytest.mark.req("L1")
def test_sessions_can_be_filtered(
    query: str, count: int, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["list", "--json", query]) == ExitCode.SUCCESS
    assert len(capsys.readouterr().out.splitlines()) == count


@pytest.mark.usefixtures("demo_home")
def test_query_error_points_at_its_position(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["list", "on:whenever"]) == ExitCode.USAGE_ERROR
    assert "whenever" in capsys.readouterr().err


@pytest.mark.usefixtures("demo_home")
def test_unknown_field_is_noted(capsys: pytest.CaptureFixture[str]) -> None:
    main(["prompts", "projekt:shop"])

    assert "note: " in capsys.readouterr().err


@pytest.mark.usefixtures("demo_home")
def test_unknown_field_is_noted_once(
    capsys: pytest.CaptureFixture[str],
) -> None:
    main(["list", "modl:opus"])

    assert capsys.readouterr().err.count(" model:") == 1
