"""Values of the library as dicts."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bygones import Archive, to_dict
from bygones.cli.main import main
from bygones.errors import ExitCode
from tests.build import Home, prompt, reply, session_id, thread


def test_to_dict_equals_the_json_of_commands(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    home = Home(tmp_path / "home")
    home.session(session_id(1), thread(prompt("Hello"), reply("Hi")))
    folder = tmp_path / "archive"
    Archive.ingest(folder, [home.path])
    assert main(["list", "--json", "--archive", str(folder)]) == ExitCode.SUCCESS
    (printed,) = map(json.loads, capsys.readouterr().out.splitlines())

    with Archive.open(folder) as archive:
        (summary,) = archive.sessions()
        found = to_dict(summary)
        loaded = to_dict(archive.session(summary.id))

    costs = {"cost_usd": None, "unpriced_tokens": 0}
    assert found | costs == printed | costs
    assert loaded | costs == printed | costs
