"""What a new version of the client writes is reported."""

from __future__ import annotations

import json
from pathlib import Path

from tests.client.news import KNOWN_NAMES, collect_names, describe_news
from tests.client.recording import Recording

CALL = {"type": "tool_use", "id": "t1", "name": "Bash", "input": {"command": "ls"}}
RESULT = {"type": "tool_result", "tool_use_id": "t1", "content": ""}
RECORDS = [
    {"type": "assistant", "message": {"content": [CALL]}, "requestRef": "r"},
    {
        "type": "user",
        "message": {"content": [RESULT]},
        "toolUseResult": {"stdout": "", "inner": {"weather": 1}},
    },
    {"type": "attachment", "attachment": {"type": "date", "moon": "full"}},
    {"type": "cost-state", "modelUsage": {"claude-x": {"costUSD": 1}}},
    {"type": "api-request-shape", "shape": {"system": "a long prompt"}},
]
TOOL = {"name": "Bash", "input_schema": {"properties": {"command": {}, "mood": {}}}}


def test_new_fields_records_and_tools_are_reported(tmp_path: Path) -> None:
    project = tmp_path / "home" / ".claude" / "projects" / "p"
    project.mkdir(parents=True)
    lines = "".join(json.dumps(record) + "\n" for record in RECORDS)
    (project / "s.jsonl").write_text(lines)
    (project / "a.meta.json").write_text('{"agentType": "x", "hue": "red"}')
    request = json.dumps({"request": {"tools": [TOOL]}})
    (tmp_path / "requests.jsonl").write_text(f"{request}\n")
    known = json.loads(KNOWN_NAMES.read_text("utf-8"))["names"]

    news = list(describe_news(collect_names(Recording(tmp_path)), known))

    assert news == [
        "attachment date: attachment.moon",
        "input of Bash: mood",
        "meta.json: hue",
        "result of Bash: inner, inner.weather",
    ]
    del known["cost-state"]
    assert "new: cost-state: modelUsage, modelUsage.*, modelUsage.*.costUSD, type" in (
        describe_news(collect_names(Recording(tmp_path)), known)
    )
