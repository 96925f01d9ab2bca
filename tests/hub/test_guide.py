"""The compose file and the systemd unit of the guide use existing options."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
from configparser import ConfigParser
from pathlib import Path
from typing import Any

import click
import pytest

from bygones.cli.commands.hub import hub
from bygones.cli.commands.hub_options import RAW_VARIABLE, STORE_VARIABLE
from bygones.hub.middleware import HEALTH_PATH

GUIDE = Path(__file__).resolve().parents[2] / "docs" / "guide" / "team.md"
UNIT = "bygones-hub.service"


def block(kind: str) -> str:
    found = re.findall(
        rf"^```{kind}\n(.*?)^```", GUIDE.read_text("utf-8"), re.MULTILINE | re.DOTALL
    )
    assert len(found) == 1
    return str(found[0])


@pytest.fixture
def services() -> dict[str, Any]:
    yaml = pytest.importorskip("yaml")
    path = GUIDE.parents[2] / "deploy" / "compose.yaml"
    text = yaml.safe_load(
        path.read_text("utf-8").replace("${HUB_NAME:?}", "hub.example.com")
    )
    assert text.keys() == {"services", "volumes"}
    mounted = [
        volume.partition(":")[0]
        for service in text["services"].values()
        for volume in service["volumes"]
    ]
    assert sorted(mounted) == sorted(text["volumes"])
    services: dict[str, Any] = text["services"]
    return services


@pytest.fixture
def unit() -> ConfigParser:
    parser = ConfigParser(interpolation=None, strict=True)
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    parser.read_string(block("ini"))
    return parser


def parse_options(line: str) -> dict[str, Any]:
    """Return the options that a command line sets."""
    program, group, name, *arguments = shlex.split(line)
    assert (Path(program).name, group) == ("bygones", "hub")
    command = hub.commands[name]
    around = {"--store": "postgresql:///a", "--raw": "/srv/a"}
    more = [argument for pair in around.items() for argument in pair]
    with click.Context(hub) as above:
        return dict(
            command.make_context(name, [*arguments, *more], parent=above).params
        )


def test_the_containers_run_commands_that_there_are(services: dict[str, Any]) -> None:
    options = parse_options(shlex.join(["bygones", *services["hub"]["command"]]))

    proxy = shlex.split(services["proxy"]["command"])
    named = dict(zip(proxy[2::2], proxy[3::2], strict=True))
    assert options["names"] == (named["--from"],)
    assert named["--to"] == f"hub:{options['port']}"
    assert options["host"] == "0.0.0.0"  # noqa: S104 (as containers need it)


def test_the_containers_get_the_variables_they_read(services: dict[str, Any]) -> None:
    conninfo = pytest.importorskip("psycopg.conninfo")
    around = services["hub"]["environment"]
    engine = services["engine"]["environment"]

    assert around.keys() == {STORE_VARIABLE, RAW_VARIABLE, "PGPASSWORD"}
    address = conninfo.conninfo_to_dict(around[STORE_VARIABLE])
    assert address["dbname"] == engine["POSTGRES_DB"]
    assert address["host"] in services
    assert around["PGPASSWORD"] == engine["POSTGRES_PASSWORD"]
    assert f"raw:{around[RAW_VARIABLE]}" in services["hub"]["volumes"]


def test_the_service_runs_a_command_that_there_is(unit: ConfigParser) -> None:
    options = parse_options(unit["Service"]["ExecStart"])

    assert options["names"] == ("hub.example.com",)
    folder = unit["Service"]["ReadWritePaths"]
    assert f"{RAW_VARIABLE}={folder}" in GUIDE.read_text("utf-8")
    assert f"`{HEALTH_PATH}` returns `alive`" in GUIDE.read_text("utf-8")


@pytest.mark.skipif(
    shutil.which("systemd-analyze") is None, reason="no systemd-analyze here"
)
def test_the_service_is_one_to_systemd(unit: ConfigParser, tmp_path: Path) -> None:
    program = unit["Service"]["ExecStart"].split()[0]
    path = tmp_path / UNIT
    path.write_text(block("ini").replace(program, sys.executable), "utf-8")

    completed = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", path],
        capture_output=True,
        text=True,
        check=False,
    )

    assert UNIT not in completed.stderr
