"""The list of all JSON objects, and the conventions that they follow."""

from __future__ import annotations

import json

import msgspec
import pytest

from bygones.cli.main import main
from bygones.errors import ExitCode
from bygones.model.base import RecordId
from bygones.schema.encoding import portable_id
from bygones.schema.registry import OBJECT_GROUPS, OBJECT_TYPES, json_schema


def test_every_type_has_one_meaning() -> None:
    listed = [shape for group in OBJECT_GROUPS.values() for shape in group]

    assert len(listed) == len(OBJECT_TYPES)


def test_objects_follow_the_naming_conventions() -> None:
    wrong = []
    for name, shape in OBJECT_TYPES.items():
        for field in msgspec.structs.fields(shape):
            kind = str(field.type)
            if "datetime.datetime" in kind and not field.name.endswith("_at"):
                wrong.append((name, field.name))
            if field.name in {"id", "session", "started", "ended", "time", "cost"} and (
                "Object" not in kind
            ):
                wrong.append((name, field.name))

    assert wrong == []


def test_schema_command_prints_one_type(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["schema", "session"]) == ExitCode.SUCCESS

    assert json.loads(capsys.readouterr().out) == json_schema("session")


def test_schema_command_prints_all_types(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["schema"]) == ExitCode.SUCCESS
    found = json.loads(capsys.readouterr().out)
    assert len(found["anyOf"]) == len(OBJECT_TYPES)

    assert main(["schema", "--list"]) == ExitCode.SUCCESS
    assert capsys.readouterr().out.split() == list(OBJECT_TYPES)


def test_schema_command_suggests_a_type(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["schema", "sesion"]) == ExitCode.USAGE_ERROR
    assert "did you mean session or version?" in capsys.readouterr().err


def test_ids_contain_no_folder_of_this_machine() -> None:
    assert portable_id(RecordId("@/home/ann/x.jsonl:12")) == "@x.jsonl:12"
    assert portable_id(RecordId("uuid")) == "uuid"
