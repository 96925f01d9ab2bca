"""What is not loaded at first is there when it is asked for."""

from __future__ import annotations

import subprocess
import sys

import pytest


@pytest.mark.parametrize(
    "asked",
    [
        "import platform; assert platform.machine() and platform.system()",
        "import platform; assert platform.python_version().count('.') == 2",
        "from platform import node; node()",
        "from pathlib import Path; assert Path('/a b').as_uri() == 'file:///a%20b'",
        "import urllib.parse; assert urllib.parse.quote(' ') == '%20'",
        "import msgspec; assert msgspec.json.schema(int) == {'type': 'integer'}",
        "import msgspec.inspect; msgspec.inspect.type_info(int)",
        "import uuid; uuid.uuid4()",
        "import typing_extensions",
        "import typing; assert typing.get_type_hints(Some) == {'a': int | None}",
    ],
)
def test_what_was_left_out_can_be_had(asked: str) -> None:
    code = (
        "from bygones.cli.loading import load_paths, loaded\n"
        "load_paths()\n"
        "loaded('bygones.model.listing', 'Listed')\n"
        "class Some:\n    a: 'int | None'\n"
        f"{asked}\n"
    )

    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False
    )

    assert done.stderr == ""


def test_a_plain_search_loads_no_more_than_it_needs() -> None:
    code = (
        "import sys\n"
        "from bygones.cli import main\n"
        "main(['search', 'x', '--archive', '/no/such/archive'])\n"
        "spared = {'click', 'urllib.parse', 'msgspec._json_schema', 'threading',\n"
        "    'bygones.sources.walk', 'bygones.parse.small', 'inspect'}\n"
        "assert not spared & set(sys.modules), spared & set(sys.modules)\n"
    )

    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False
    )

    assert done.returncode == 0, done.stderr
