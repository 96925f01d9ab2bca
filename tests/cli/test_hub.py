"""``bygones hub``: tokens, holds and erasures, from the command line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bygones.cli.main import main
from bygones.errors import ExitCode
from bygones.model.base import SessionId
from bygones.team.access import BLOB_STORE_NOTE, TokenStore
from bygones.team.contract import ErasureSelector
from tests.build import session_id
from tests.hub.sending import MemoryHub, make_project, push_project


@pytest.fixture
def hub(home_dir: Path, monkeypatch: pytest.MonkeyPatch) -> MemoryHub:
    _, folder = make_project(home_dir)
    hub = MemoryHub(home_dir / "raw")
    push_project(folder, hub)
    monkeypatch.setattr("bygones.team.access.open_store", lambda _: hub.store)
    monkeypatch.setenv("BYGONES_HUB_STORE", "postgresql://nowhere")
    monkeypatch.setenv("BYGONES_HUB_RAW", str(home_dir / "raw"))
    return hub


def test_a_token_is_shown_once_listed_and_revoked(
    hub: MemoryHub, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["hub", "token", "new", "ann", "--team", "shop", "--label", "lap\x1btop"]
    assert main(words) == ExitCode.SUCCESS
    secret = capsys.readouterr().out.strip()
    known = TokenStore(hub.store).authenticate(secret)
    assert known is not None
    assert (known.person, known.teams, known.role) == ("ann", ("shop",), "team")

    assert main(["hub", "token", "list"]) == ExitCode.SUCCESS
    stdout = capsys.readouterr().out
    assert known.id in stdout
    assert secret not in stdout
    assert "\x1b" not in stdout

    assert main(["hub", "token", "revoke", known.id]) == ExitCode.SUCCESS
    assert main(["hub", "token", "revoke", known.id]) == ExitCode.USAGE_ERROR
    assert TokenStore(hub.store).authenticate(secret) is None
    capsys.readouterr()
    assert main(["hub", "token", "list", "--json"]) == ExitCode.SUCCESS
    assert json.loads(capsys.readouterr().out)["revoked_at"]


@pytest.mark.usefixtures("hub")
@pytest.mark.parametrize(
    "words",
    [
        ["erase"],
        ["erase", "--before", "whenever", "--yes"],
        ["erase", "--person", "ann"],
        ["token", "new", "Ann Lee"],
        ["token"],
    ],
)
def test_ambiguous_erasures_are_rejected(
    hub: MemoryHub, words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    before = hub.texts()

    assert main(["hub", *words]) == ExitCode.USAGE_ERROR
    assert capsys.readouterr().err
    assert hub.texts() == before


def test_an_erasure_leaves_a_receipt_and_nothing_else(
    hub: MemoryHub, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["hub", "hold", "--session", session_id(2), "--reason", "law"]) == 0
    assert main(["hub", "hold"]) == ExitCode.SUCCESS
    assert "law" in capsys.readouterr().out

    assert main(["hub", "erase", "--person", "ann", "--yes"]) == ExitCode.SUCCESS

    stdout = capsys.readouterr().out
    assert "erased 2 sessions, 2 files, 2 objects" in stdout
    assert "not erased because of a hold: 1 session" in stdout
    (receipt,) = map(json.loads, hub.store.list_notes("receipt").values())
    assert receipt["sessions"] == [session_id(0), session_id(1)]
    assert list(hub.texts()) == [p for p in hub.texts() if session_id(2) in p]

    assert main(["hub", "erase", "--person", "ann", "--yes"]) == ExitCode.FAILURE
    stdout = capsys.readouterr().err
    assert "nothing was erased: the session is on hold (1)" in stdout
    assert "hub hold" in stdout
    words = ["hub", "erase", "--session", session_id(2), "--yes", "--json"]
    assert main(words) == ExitCode.FAILURE
    assert json.loads(capsys.readouterr().out.splitlines()[0])["held_session_ids"] == [
        session_id(2)
    ]

    words = ["hub", "hold", "--session", session_id(2), "--release"]
    assert main(words) == ExitCode.SUCCESS
    assert hub.store.holds() == []
    assert main(["hub", "erase", "--session", "5e55", "--yes"]) == ExitCode.SUCCESS
    assert "no session matches; session ids must be complete" in capsys.readouterr().err
    assert main(["hub", "erase", "--session", session_id(2), "--yes", "--json"]) == 0
    assert json.loads(capsys.readouterr().out.splitlines()[-1])["blob_count"] == 1
    assert hub.texts() == {}
    assert ErasureSelector(session=SessionId(session_id(2))) not in dict(
        hub.store.holds()
    )


def test_tilde_expanded_by_the_shell_is_restored(
    hub: MemoryHub, capsys: pytest.CaptureFixture[str]
) -> None:
    expanded = str(Path.home() / "work" / "shop")

    assert main(["hub", "hold", "--project", expanded, "--reason", "law"]) == 0
    assert main(["hub", "hold", "--project", f"{expanded}/x/../y"]) == 0
    assert main(["hub", "hold", "--project", "/srv/shop"]) == 0

    projects = [selector.project for selector, _ in hub.store.holds()]
    assert projects == ["~/work/shop", "~/work/shop/x/../y", "/srv/shop"]
    assert "held: project ~/work/shop" in capsys.readouterr().out


@pytest.mark.usefixtures("hub")
def test_expiry_that_is_no_duration_is_named(
    capsys: pytest.CaptureFixture[str],
) -> None:
    words = ["hub", "token", "new", "ann", "--expires", "soon"]

    assert main(words) == ExitCode.USAGE_ERROR
    stderr = capsys.readouterr().err
    assert "--expires" in stderr
    assert "'soon' is not a duration such as 90d" in stderr


@pytest.mark.parametrize("text", ["2020-01-01", "yesterday", "0d"])
def test_expiry_in_the_past_is_rejected(hub: MemoryHub, text: str) -> None:
    words = ["hub", "token", "new", "ann", "--expires", text]

    assert main(words) == ExitCode.USAGE_ERROR
    assert list(TokenStore(hub.store).list_tokens()) == []


def test_no_token_is_issued_if_its_file_cannot_be_written(
    hub: MemoryHub, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    taken = tmp_path / "taken"
    taken.write_text("mine")
    for out in (taken, tmp_path / "no" / "folder"):
        assert main(["hub", "token", "new", "ann", "--out", str(out)]) != 0
    assert "taken exists; name a new file" in capsys.readouterr().err
    assert main(["hub", "token", "new", "No Name", "--out", str(tmp_path / "a")]) != 0

    assert list(TokenStore(hub.store).list_tokens()) == []
    assert taken.read_text() == "mine"
    assert list(tmp_path.glob("a")) == []


def test_nothing_is_erased_with_the_raw_store_of_another_hub(
    hub: MemoryHub, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = hub.texts()
    other = str(tmp_path / "other")

    words = ["hub", "erase", "--person", "ann", "--yes", "--raw", other]
    assert main(words) == ExitCode.FAILURE

    assert "check --raw" in capsys.readouterr().err
    assert hub.texts() == before


def test_commands_do_not_change_where_readers_find_the_raw_store(
    hub: MemoryHub, tmp_path: Path
) -> None:
    assert main(["hub", "token", "list"]) == ExitCode.SUCCESS
    recorded = hub.store.get_note(*BLOB_STORE_NOTE)
    other = str(tmp_path / "other")

    assert main(["hub", "token", "list", "--raw", other]) == ExitCode.SUCCESS

    assert recorded
    assert hub.store.get_note(*BLOB_STORE_NOTE) == recorded
