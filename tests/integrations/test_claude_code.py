"""Adding Bygones to the files of Claude Code, and removing it."""

from __future__ import annotations

import json
from hashlib import sha256
from pathlib import Path

import pytest

from bygones.errors import FileModifiedConcurrently, UnreadableFile
from bygones.integrations import claude_code
from bygones.integrations.claude_code import (
    ClaudePaths,
    PartState,
    apply_changes,
    claude_paths,
    plan_changes,
)
from bygones.integrations.plugin_versions import is_plugin_file

PLUGIN = Path(__file__).resolve().parents[2] / "plugin"
OWN = '{\n    "model": "opus",\n    "hooks": {\n        "Stop": []\n    }\n}\n'
SERVERS = '{"numStartups":12,"mcpServers":{},"projects":{"/a":{"x":[1,2]}}}'


@pytest.fixture
def places(tmp_path: Path) -> ClaudePaths:
    return claude_paths({}, tmp_path, PLUGIN)


def add(places: ClaudePaths, *, statusline: bool = True) -> None:
    apply_changes(
        plan_changes(places, ["bygones"], removing=False, statusline=statusline)
    )


def take_away(places: ClaudePaths) -> None:
    apply_changes(plan_changes(places, ["bygones"], removing=True, statusline=True))


def test_checkpoints_are_added_on_request_and_removed(
    places: ClaudePaths, tmp_path: Path
) -> None:
    places.settings.parent.mkdir()
    places.settings.write_text(OWN)
    places.servers.write_text(SERVERS)
    before = files(tmp_path)
    add(places)
    assert "checkpoint.sh" not in places.settings.read_text()

    apply_changes(
        plan_changes(
            places, ["bygones"], removing=False, statusline=True, checkpoints=True
        )
    )

    hooks = json.loads(places.settings.read_text())["hooks"]
    (group,) = hooks["PreToolUse"]
    assert group["matcher"] == "Bash"
    script = group["hooks"][0]["command"].split('"')[1]
    assert Path(script).is_file()
    assert "Edit" in hooks["PostToolUse"][0]["matcher"]
    take_away(places)
    assert files(tmp_path) == before


def files(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


def test_planning_writes_nothing(places: ClaudePaths, tmp_path: Path) -> None:
    changes = plan_changes(places, ["bygones"], removing=False, statusline=True)

    assert all(change.state is PartState.MISSING for change in changes)
    assert all(change.is_needed for change in changes)
    assert files(tmp_path) == {}


def test_all_parts_are_added_where_claude_code_reads_them(
    places: ClaudePaths, tmp_path: Path
) -> None:
    add(places)

    settings = json.loads(places.settings.read_text())
    servers = json.loads(places.servers.read_text())["mcpServers"]
    assert servers["bygones"]["args"] == ["mcp"]
    assert set(settings["hooks"]) == {"SessionEnd", "PreCompact"}
    (group,) = settings["hooks"]["SessionEnd"]
    assert group["hooks"][0]["command"] == "bygones hook || true"
    assert settings["statusLine"]["command"] == "bygones statusline"
    assert (tmp_path / ".claude/skills/recall/SKILL.md").exists()
    assert (tmp_path / ".claude/commands/bygones/search.md").exists()
    assert places.settings.stat().st_mode & 0o077 == 0


def test_adding_twice_equals_adding_once(places: ClaudePaths, tmp_path: Path) -> None:
    add(places)
    once = files(tmp_path)

    add(places)

    assert files(tmp_path) == once


@pytest.mark.parametrize("statusline", [True, False])
@pytest.mark.parametrize("settings", [None, OWN, "{}", '{"hooks": {"SessionEnd": []}}'])
@pytest.mark.parametrize("servers", [None, SERVERS, '{\n  "a": 1\n}'])
def test_removing_restores_files_byte_for_byte(
    places: ClaudePaths,
    tmp_path: Path,
    settings: str | None,
    servers: str | None,
    *,
    statusline: bool,
) -> None:
    places.settings.parent.mkdir()
    if settings is not None:
        places.settings.write_text(settings)
    if servers is not None:
        places.servers.write_text(servers)
    before = files(tmp_path)

    add(places, statusline=statusline)
    assert files(tmp_path) != before
    take_away(places)

    assert files(tmp_path) == before


def test_removing_leaves_no_folder(places: ClaudePaths, tmp_path: Path) -> None:
    own = tmp_path / ".claude" / "commands" / "mine.md"
    own.parent.mkdir(parents=True)
    own.write_text("mine")

    add(places)
    take_away(places)

    assert [*tmp_path.rglob("*/")] == [tmp_path / ".claude", own.parent]
    assert own.read_text() == "mine"


def test_later_changes_of_the_user_stay(places: ClaudePaths) -> None:
    add(places)
    settings = json.loads(places.settings.read_text())
    settings["model"] = "opus"
    settings["hooks"]["SessionEnd"].append({"hooks": [{"command": "mine"}]})
    places.settings.write_text(json.dumps(settings, indent=2))

    take_away(places)

    left = json.loads(places.settings.read_text())
    assert left["model"] == "opus"
    assert left["hooks"]["SessionEnd"] == [{"hooks": [{"command": "mine"}]}]
    assert "statusLine" not in left


@pytest.mark.parametrize("indent", [None, 0, 2, "\t"])
def test_removing_works_in_reformatted_files(
    places: ClaudePaths, indent: int | str | None
) -> None:
    own = {"model": "opus", "hooks": {"Stop": [], "Start": [{"hooks": []}]}}
    servers = {"numStartups": 12}
    for settings in (own, {"model": "opus"}):
        places.settings.parent.mkdir(exist_ok=True)
        places.settings.write_text(json.dumps(settings))
        places.servers.write_text(json.dumps(servers))
        add(places)
        for path in (places.settings, places.servers):
            path.write_text(json.dumps(json.loads(path.read_text()), indent=indent))

        take_away(places)

        assert json.loads(places.settings.read_text()) == settings
        assert json.loads(places.servers.read_text()) == servers


def test_another_status_line_stays(places: ClaudePaths) -> None:
    places.settings.parent.mkdir()
    places.settings.write_text('{"statusLine": {"type": "command", "command": "mine"}}')

    changes = plan_changes(places, ["bygones"], removing=False, statusline=True)
    apply_changes(changes)

    assert [c.description for c in changes if c.state is PartState.CONFLICT] == [
        "status line"
    ]
    take_away(places)
    assert json.loads(places.settings.read_text())["statusLine"]["command"] == "mine"


def test_files_of_an_earlier_version_are_updated_and_removed(
    places: ClaudePaths, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    add(places)
    current = files(tmp_path)
    skill = places.skills / "recall" / "SKILL.md"
    command = places.commands / "bygones" / "search.md"
    earlier = b"an earlier version"
    digests = frozenset([sha256(earlier).hexdigest()])
    monkeypatch.setattr("bygones.integrations.plugin_versions._DIGESTS", digests)
    skill.write_bytes(earlier)
    command.write_text("edited")

    changes = plan_changes(places, ["bygones"], removing=False, statusline=True)
    states = {change.path: change.state for change in changes}
    assert states[skill] is PartState.OUTDATED
    assert states[command] is PartState.CONFLICT
    apply_changes(changes)

    assert command.read_text() == "edited"
    command.write_bytes(current[command.relative_to(tmp_path).as_posix()])
    assert files(tmp_path) == current
    skill.write_bytes(earlier)
    take_away(places)
    assert files(tmp_path) == {}


def test_every_file_of_the_plugin_is_in_the_list_of_versions(
    places: ClaudePaths, tmp_path: Path
) -> None:
    add(places)

    written = [path for path in tmp_path.rglob("*.md") if path.is_file()]

    assert written
    # If this fails, add the new digest to plugin_versions.py and keep the earlier ones.
    assert [path for path in written if not is_plugin_file(path.read_bytes())] == []


@pytest.mark.parametrize("indent", [None, 4])
def test_entries_of_a_program_that_was_moved_are_updated(
    places: ClaudePaths,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    indent: int | None,
) -> None:
    old = ["/old place/bin/python", "-m", "bygones"]
    places.settings.parent.mkdir()
    places.settings.write_text(OWN)
    places.servers.write_text(SERVERS)
    before = files(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr("sys.executable", old[0])
        patch.setattr(claude_code, "__file__", "/old place/bygones/integrations/x.py")
        apply_changes(
            plan_changes(
                places,
                old,
                removing=False,
                statusline=True,
                checkpoints=True,
                recall_folder=tmp_path / "recall",
            )
        )
    if indent:
        for path in (places.settings, places.servers):
            path.write_text(json.dumps(json.loads(path.read_text()), indent=indent))
    text = places.settings.read_text().replace('"timeout": 10', '"timeout": 20')
    places.settings.write_text(text)

    changes = plan_changes(places, ["bygones"], removing=False, statusline=False)
    outdated = [c.description for c in changes if c.state is PartState.OUTDATED]
    assert len(outdated) == 11
    apply_changes(changes)

    settings = places.settings.read_text()
    assert "old place" not in settings + places.servers.read_text()
    assert settings.count('"timeout": 20') == 2
    assert settings.count(f'{tmp_path / "recall"}\\"') == 5
    group = json.loads(settings)["hooks"]["PreToolUse"][0]
    assert Path(group["hooks"][0]["command"].split('"')[1]).is_file()
    again = plan_changes(places, ["bygones"], removing=False, statusline=False)
    assert {change.state for change in again} == {PartState.INSTALLED}
    take_away(places)
    if not indent:
        assert files(tmp_path) == before
    assert "bygones" not in places.settings.read_text() + places.servers.read_text()


def test_edited_entries_are_not_replaced(places: ClaudePaths) -> None:
    add(places)
    servers = (
        '{"mcpServers": {"bygones": {"command": "uvx", "args": ["bygones", "mcp"]}}}'
    )
    places.servers.write_text(servers)
    hook = "nice bygones hook || true"
    settings = places.settings.read_text().replace("bygones hook || true", hook)
    places.settings.write_text(settings)

    apply_changes(
        plan_changes(
            places, ["/new/python", "-m", "bygones"], removing=False, statusline=False
        )
    )

    assert places.servers.read_text() == servers
    after = json.loads(places.settings.read_text())
    assert after["hooks"] == json.loads(settings)["hooks"]
    assert after["statusLine"]["command"] == "/new/python -m bygones statusline"


def test_modified_skill_stays(places: ClaudePaths) -> None:
    add(places)
    skill = places.skills / "recall" / "SKILL.md"
    skill.write_text("my own")

    take_away(places)

    assert skill.read_text() == "my own"


@pytest.mark.parametrize(
    "broken",
    [
        '{"a": 1',
        "// x\n{}",
        "[]",
        '{"hooks": 7}',
        '{"hooks": {"SessionEnd": []}, "hooks": {}}',
        "\xff",
    ],
)
def test_one_unreadable_file_stops_everything(
    places: ClaudePaths, tmp_path: Path, broken: str
) -> None:
    places.settings.parent.mkdir()
    places.settings.write_bytes(broken.encode("latin-1"))
    before = files(tmp_path)

    with pytest.raises(UnreadableFile):
        add(places)

    assert files(tmp_path) == before


def test_file_that_changed_since_the_plan_is_not_written(places: ClaudePaths) -> None:
    places.servers.write_text("{}")
    changes = plan_changes(places, ["bygones"], removing=False, statusline=False)
    places.servers.write_text('{"numStartups": 1}')

    with pytest.raises(FileModifiedConcurrently):
        apply_changes(changes)

    assert places.servers.read_text() == '{"numStartups": 1}'
    assert not places.settings.exists()


def test_symbolic_link_is_preserved(places: ClaudePaths, tmp_path: Path) -> None:
    real = tmp_path / "dotfiles" / "settings.json"
    real.parent.mkdir()
    real.write_text("{}")
    places.settings.parent.mkdir()
    places.settings.symlink_to(real)

    add(places)

    assert places.settings.is_symlink()
    assert "hooks" in json.loads(real.read_text())


def test_claude_config_dir_is_respected(tmp_path: Path) -> None:
    places = claude_paths({"CLAUDE_CONFIG_DIR": str(tmp_path / "c")}, tmp_path, PLUGIN)

    assert places.settings == tmp_path / "c" / "settings.json"
    assert places.servers == tmp_path / "c" / ".claude.json"
