"""The real client against a stub: what it wrote must read as what was done."""

from __future__ import annotations

import json
import os
import shutil
from collections import Counter
from pathlib import Path

import pytest

from bygones.archive import Archive
from bygones.assemble.requests import RequestLog
from tests.client.conftest import Bygones
from tests.client.messages_api import Json, select_answer
from tests.client.outline import outline_show, outline_tree
from tests.client.recording import Recording, read_lines, resume_apart
from tests.client.scenario import Scenario, load_scenarios
from tests.client.scenarios.basics import INSTRUCTIONS

pytestmark = pytest.mark.skipif(os.name != "posix", reason="needs POSIX")


WRONG_EVERYWHERE: dict[str, str] = {}
QUICK_RESUMES = ("agents",)


def every_scenario(check: str) -> pytest.MarkDecorator:
    """Parametrize a test with all scenarios, of which some fail this check today."""
    cases = []
    for name, scenario in load_scenarios().items():
        marks: list[pytest.MarkDecorator] = []
        is_slow_check = check == "resume" and name not in QUICK_RESUMES
        if not scenario.is_quick or is_slow_check:
            marks.append(pytest.mark.full)
        reason = scenario.wrong.get(check) or WRONG_EVERYWHERE.get(check)
        if reason:
            marks.append(pytest.mark.xfail(strict=True, reason=reason))
        cases.append(pytest.param(name, marks=marks, id=name))
    return pytest.mark.parametrize("scenario", cases, indirect=True)


@every_scenario("drift")
@pytest.mark.req("RC1")
def test_everything_that_it_writes_is_known(
    recording: Recording, bygones: Bygones
) -> None:
    rows = [
        json.loads(line)
        for line in bygones("inspect", "--json", str(recording.home)).splitlines()
    ]

    assert [row for row in rows if row["type"] == "drift"] == []


@every_scenario("tree")
def test_tree_agrees_with_what_was_done(
    scenario: Scenario, recording: Recording, bygones: Bygones
) -> None:
    ids = recording.session_ids()

    trees = [outline_tree(bygones("tree", id_), ids) for id_ in ids]

    assert "\n\n".join(trees) == "\n\n".join(scenario.trees)


@every_scenario("show")
def test_show_agrees_with_what_was_done(
    scenario: Scenario, recording: Recording, bygones: Bygones
) -> None:
    ids = recording.session_ids()

    shows = [outline_show(bygones("show", "--json", id_)) for id_ in ids]

    text = "\n\n".join(shows).replace(str(recording.work), "{work}")
    assert text == "\n\n".join(scenario.shows)


def token_counts(answers: list[Json]) -> dict[str, Counter[str]]:
    """Return the sums of token counts by model, named as in our JSON."""
    sums: dict[str, Counter[str]] = {}
    for answer in answers:
        usage = answer["usage"]
        written = usage["cache_creation_input_tokens"]
        split = usage.get("cache_creation", {"ephemeral_5m_input_tokens": written})
        sums.setdefault(answer["model"], Counter()).update(
            input=usage["input_tokens"],
            output=usage["output_tokens"],
            cache_read=usage["cache_read_input_tokens"],
            cache_write_5m=split["ephemeral_5m_input_tokens"],
            cache_write_1h=split.get("ephemeral_1h_input_tokens", 0),
        )
    return sums


def delivered_answers(scenario: Scenario, recording: Recording) -> list[Json]:
    """Return the answers with the token counts that reached the client."""
    answers = []
    for entry in recording.requests():
        if "answer" in entry:
            answer = entry["answer"]
            if select_answer(scenario.script, entry["request"])[2].is_cut_off:
                answer = answer | {"usage": answer["usage"] | {"output_tokens": 1}}
            answers.append(answer)
    return answers


@every_scenario("tokens")
@pytest.mark.req("RC3")
def test_tokens_are_those_that_the_stub_sent(
    scenario: Scenario, recording: Recording, bygones: Bygones
) -> None:
    recorded_ids = recording.recorded_ids()
    answers = delivered_answers(scenario, recording)
    recorded = [answer for answer in answers if answer["id"] in recorded_ids]

    rows = [
        json.loads(line)
        for line in bygones("usage", "--by=model", "--json").splitlines()
    ]
    counted = {row["key"]: row["tokens"] for row in rows if row["type"] == "usage"}

    assert counted == token_counts(recorded)
    assert len(answers) - len(recorded) == scenario.unrecorded


@every_scenario("cost")
@pytest.mark.req("RC3")
def test_cost_is_what_the_client_reports(
    scenario: Scenario, recording: Recording, bygones: Bygones
) -> None:
    differences = 0.0
    for id_ in recording.session_ids():
        report = json.loads(
            bygones("usage", f"session:{id_}", "--json").splitlines()[-1]
        )
        cost = report["reported_cost"]
        reported = reported_cost(recording, id_)
        if reported is None:
            assert cost is None
            continue
        assert cost["reported_cost_usd"] == pytest.approx(reported, abs=2e-6)
        assert cost["price_difference_usd"] == pytest.approx(0, abs=2e-6)
        assert cost["unexplained_difference_usd"] == pytest.approx(0, abs=2e-6)
        difference = cost["token_difference_usd"] + cost["unrecorded_cost_usd"]
        differences += difference
        assert cost["computed_cost_usd"] + difference == pytest.approx(
            reported, abs=2e-6
        )
    is_expected = scenario.unrecorded > 0 or scenario.is_cut_off
    assert (differences > 1e-6) == is_expected


def reported_cost(recording: Recording, session_id: str) -> float | None:
    """Return the last total that the client wrote into a session's transcript.

    With `--fork-session` the client continues the total of the parent, which is not
    part of the fork's own cost.
    """
    paths = {
        path.stem: path for path in (recording.home / "projects").glob("*/*.jsonl")
    }
    costs = read_costs(paths[session_id])
    if not costs:
        return None
    ids = recording.session_ids()
    records = read_lines(paths[session_id])
    inherited = [
        cost["totalCostUSD"]
        for id_ in ids[: ids.index(session_id)]
        for cost in costs_before(read_lines(paths[id_]), records)
        if cost["startTime"] == costs[-1]["startTime"]
    ]
    return float(costs[-1]["totalCostUSD"] - max(inherited, default=0))


def costs_before(parent: list[Json], fork: list[Json]) -> list[Json]:
    """Return the totals of a session that were written before it was forked."""
    known = {record.get("uuid") for record in parent}
    own = [record for record in fork if record.get("uuid") not in known]
    start = min(record["timestamp"] for record in own if "timestamp" in record)
    costs = []
    for record in parent:
        if record.get("timestamp", "") > start:
            break
        if record["type"] == "cost-state":
            costs.append(record)
    return costs


def read_costs(path: Path) -> list[Json]:
    lines = path.read_text("utf-8").splitlines()
    return [json.loads(line) for line in lines if '"type":"cost-state"' in line]


@every_scenario("resume")
@pytest.mark.req("RC2")
def test_restored_session_continues_with_the_same_messages(
    recording: Recording, tmp_path: Path
) -> None:
    copy = Recording(tmp_path / "copy")
    shutil.copytree(recording.folder, copy.folder, symlinks=True)
    Archive.ingest(tmp_path / "archive", [copy.home])
    ids = copy.session_ids()
    original = resume_apart(copy, ids)

    shutil.rmtree(copy.home / "projects")
    with Archive.open(tmp_path / "archive") as archive:
        archive.restore(archive.plan_restore(archive.sources()))
    assert resume_apart(copy, ids) == original


def one_scenario(name: str, *, wrong: str) -> pytest.MarkDecorator:
    """Parametrize a test with one scenario, which fails it today."""
    marks = pytest.mark.xfail(strict=True, reason=wrong)
    case = pytest.param(name, marks=marks, id=name)
    return pytest.mark.parametrize("scenario", [case], indirect=True)


@pytest.mark.full
@pytest.mark.parametrize("scenario", ["shell_edits"], indirect=True)
def test_files_lists_what_commands_changed(
    recording: Recording, bygones: Bygones
) -> None:
    (id_,) = recording.session_ids()

    rows = [json.loads(line) for line in bygones("files", id_, "--json").splitlines()]

    names = {Path(row["path"]).name for row in rows if "path" in row}
    assert names == {
        "new.txt",
        "base.txt",
        "gone.txt",
        "before.txt",
        "after.txt",
        *(f"many{n}.txt" for n in range(1, 10)),
    }


@pytest.mark.parametrize("scenario", ["conversation"], indirect=True)
def test_exported_records_do_not_contain_instructions(
    recording: Recording, bygones: Bygones
) -> None:
    (id_,) = recording.session_ids()

    text = bygones("export", id_, "--format", "jsonl", "-o", "-")

    assert "color of the door" in text
    assert INSTRUCTIONS.strip() not in text


def list_messages(request: Json) -> list[Json]:
    """Return the messages of a request in the form in which they are hashed."""
    return [
        message
        | {
            "content": [{"type": "text", "text": message["content"]}]
            if isinstance(message["content"], str)
            else [
                {key: block[key] for key in block if key != "cache_control"}
                for block in message["content"]
            ],
        }
        for message in request["messages"]
    ]


@every_scenario("requests")
def test_rebuilt_requests_are_those_that_the_stub_received(
    recording: Recording,
) -> None:
    received = [list_messages(entry["request"]) for entry in recording.requests()]
    for path in recording.transcripts():
        lines = path.read_bytes().splitlines()
        ids = [record["id"] for record in map(json.loads, lines) if is_request(record)]

        requests = list(RequestLog(lines).requests())

        assert [request.id for request in requests] == ids
        for request in requests:
            messages = [
                message.other_fields
                | {
                    "role": message.role,
                    "content": [block.content for block in message.blocks],
                }
                for message in request.messages
            ]
            assert messages in received


def is_request(record: Json) -> bool:
    return bool(record.get("type") == "api-request")
