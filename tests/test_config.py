"""Locations and settings."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from bygones.archive import Archive
from bygones.config import (
    SETTINGS,
    RedactSettings,
    Settings,
    find_prices_file,
    find_settings_file,
    get_machine_id,
    load_push_settings,
    load_redact_settings,
    load_redactor,
    load_settings,
    resolve_archive_location,
    resolve_homes,
)
from bygones.errors import (
    InvalidSettings,
    InvalidStoreURL,
    NoTranscriptsFound,
    PathNotFound,
)
from tests.build import Home, prompt, session_id, thread

ME = Path("/home/me")


@pytest.mark.parametrize(
    ("platform", "environ", "expected"),
    [
        ("linux", {}, "/home/me/.local/share/bygones"),
        ("linux", {"XDG_DATA_HOME": "/mnt/share"}, "/mnt/share/bygones"),
        ("linux", {"XDG_DATA_HOME": "relative"}, "/home/me/.local/share/bygones"),
        ("darwin", {}, "/home/me/Library/Application Support/bygones"),
        ("darwin", {"XDG_DATA_HOME": "/mnt/share"}, "/mnt/share/bygones"),
        ("win32", {"LOCALAPPDATA": "/c/local"}, "/c/local/bygones"),
        ("win32", {}, "/home/me/AppData/Local/bygones"),
    ],
)
def test_archive_is_in_the_default_folder_of_each_system(
    platform: str, environ: dict[str, str], expected: str
) -> None:
    assert resolve_archive_location(None, environ, ME, platform) == Path(expected)


def test_override_takes_precedence_over_settings() -> None:
    environ = {"BYGONES_ARCHIVE": "/set", "XDG_DATA_HOME": "/share"}

    assert resolve_archive_location(Path("/given"), environ, ME) == Path("/given")
    assert resolve_archive_location(None, environ, ME) == Path("/set")


def test_path_is_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a").mkdir()

    assert resolve_archive_location(Path("x"), {}, ME) == tmp_path / "x"
    assert resolve_archive_location(Path("~/x"), {}, ME) == ME / "x"
    assert resolve_archive_location(Path("a/../x"), {}, ME) == tmp_path.resolve() / "x"
    assert resolve_homes([Path("a"), tmp_path / "a"], {}, ME) == (tmp_path / "a",)


def test_homes_are_overrides_settings_or_defaults(tmp_path: Path) -> None:
    for name in ("one", "two", ".claude"):
        (tmp_path / name).mkdir()
    both = os.pathsep.join([str(tmp_path / "one"), str(tmp_path / "two")])

    assert resolve_homes([], {"BYGONES_HOME": both}, tmp_path) == (
        tmp_path / "one",
        tmp_path / "two",
    )
    assert resolve_homes([tmp_path / "two"], {"BYGONES_HOME": both}, tmp_path) == (
        tmp_path / "two",
    )
    assert resolve_homes([], {}, tmp_path) == (tmp_path / ".claude",)


def test_missing_requested_home_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(PathNotFound):
        resolve_homes([tmp_path / "gone"], {}, tmp_path)
    with pytest.raises(PathNotFound):
        resolve_homes([], {"BYGONES_HOME": str(tmp_path / "gone")}, tmp_path)


def test_no_home_at_all_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(NoTranscriptsFound):
        resolve_homes([], {}, tmp_path)


@pytest.mark.parametrize(
    ("platform", "environ", "expected"),
    [
        ("linux", {}, "/home/me/.config/bygones/prices.toml"),
        ("linux", {"XDG_CONFIG_HOME": "/etc/x"}, "/etc/x/bygones/prices.toml"),
        ("linux", {"XDG_CONFIG_HOME": "x"}, "/home/me/.config/bygones/prices.toml"),
        ("darwin", {}, "/home/me/.config/bygones/prices.toml"),
        ("win32", {"APPDATA": "/c/roaming"}, "/c/roaming/bygones/prices.toml"),
    ],
)
def test_price_file_is_next_to_the_settings(
    platform: str, environ: dict[str, str], expected: str
) -> None:
    assert find_prices_file(environ, ME, platform) == Path(expected)


def test_missing_configured_price_file_is_an_error(tmp_path: Path) -> None:
    own = tmp_path / "mine.toml"
    own.touch()

    assert find_prices_file({"BYGONES_PRICES": str(own)}, ME) == own
    with pytest.raises(PathNotFound):
        find_prices_file({"BYGONES_PRICES": str(tmp_path / "other")}, ME)


@pytest.mark.parametrize(
    ("platform", "environ", "expected"),
    [
        ("linux", {}, "/home/me/.config/bygones/settings.toml"),
        ("linux", {"XDG_CONFIG_HOME": "/etc/me"}, "/etc/me/bygones/settings.toml"),
        ("darwin", {}, "/home/me/.config/bygones/settings.toml"),
        ("win32", {"APPDATA": "/c/roaming"}, "/c/roaming/bygones/settings.toml"),
        ("linux", {"BYGONES_SETTINGS": "~/mine.toml"}, "/home/me/mine.toml"),
    ],
)
def test_settings_file_is_in_the_default_folder_of_each_system(
    platform: str, environ: dict[str, str], expected: str
) -> None:
    assert find_settings_file(environ, ME, platform) == Path(expected)


def test_redact_settings_are_read(tmp_path: Path) -> None:
    path = tmp_path / "settings.toml"
    environ = {"BYGONES_SETTINGS": str(path)}
    assert load_redact_settings({}, tmp_path) == RedactSettings()

    path.write_text("[redact]\nnames = ['Ada']\n[redact.patterns]\nticket = 'T-1'\n")

    assert load_redact_settings(environ, tmp_path) == RedactSettings(
        names=("Ada",), patterns={"ticket": "T-1"}
    )


def test_redactor_hides_the_login_and_the_configured_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LOGNAME", "adalove")
    path = tmp_path / "settings.toml"
    path.write_text('[redact]\nnames = ["zebraquux"]\n', "utf-8")

    redactor = load_redactor({"BYGONES_SETTINGS": str(path)}, tmp_path)

    text = redactor.redact_text("adalove met zebraquux and walrus")
    assert text == "[redacted user] met [redacted user] and walrus"


@pytest.mark.parametrize(
    "text",
    [
        "[redact",
        "[redact]\nname = 1",
        "[other]",
        "\xff",
        "redact = 1",
        "[redact]\nnames = [1]",
    ],
)
def test_invalid_settings_are_rejected(text: str, tmp_path: Path) -> None:
    path = tmp_path / "settings.toml"
    path.write_bytes(text.encode("latin-1"))

    with pytest.raises(InvalidSettings, match=r"settings\.toml"):
        load_redact_settings({"BYGONES_SETTINGS": str(path)}, tmp_path)


def load(tmp_path: Path, text: str, **environ: str) -> Settings:
    (tmp_path / "settings.toml").write_text(text, "utf-8")
    surroundings = {"BYGONES_SETTINGS": str(tmp_path / "settings.toml"), **environ}
    return load_settings(surroundings, tmp_path)


def test_examples_of_settings_are_valid(tmp_path: Path) -> None:
    text = "\n".join(f"{item.name} = {item.example}" for item in SETTINGS)

    found = load(tmp_path, text)

    assert all(getattr(found, item.name) not in (None, ()) for item in SETTINGS)


def test_nothing_is_set_without_a_file(tmp_path: Path) -> None:
    assert load_settings({}, tmp_path) == Settings()


def test_environment_variable_overrides_the_file(tmp_path: Path) -> None:
    found = load(
        tmp_path,
        'iso = true\ningest = true\ncolor = "always"\npager = "more"',
        BYGONES_ISO="no",
        BYGONES_INGEST="0",
        BYGONES_COLOR="never",
        BYGONES_PAGER="",
    )

    assert (found.iso, found.ingest, found.color, found.pager) == (
        False,
        False,
        "never",
        "",
    )


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("archiv = 1", "there is no setting 'archiv'"),
        ("archive = 1", "archive must be"),
        ("homes = 'a'", "homes must be"),
        ("iso = 'yes'", "iso must be"),
        ("color = 'red'", "color must be auto, always or never"),
        ("color = []", "color must be auto, always or never"),
        ("redact = 1", "redact must be"),
        ("[redact]\nname = []", "[redact] has no setting 'name'"),
        ("[redact]\nnames = [1]", "[redact] needs"),
        ("push = 1", "push must be"),
        ("[push]\nproject = []", "[push] has no setting 'project'"),
        ("[push]\nprojects = 'a'", "[push] needs"),
        ("[push]\nhub = 1", "[push] needs"),
        ("=", "Invalid"),
    ],
)
def test_invalid_values_are_reported_in_one_sentence(
    text: str, reason: str, tmp_path: Path
) -> None:
    with pytest.raises(InvalidSettings, match=re.escape(reason)):
        load(tmp_path, text)


def test_pushed_projects_are_absolute_paths(tmp_path: Path) -> None:
    text = '[push]\nhub = "https://h"\ntoken = "t"\nprojects = ["~/a", "/b/../c"]'
    (tmp_path / "settings.toml").write_text(text, "utf-8")
    surroundings = {"BYGONES_SETTINGS": str(tmp_path / "settings.toml")}

    found = load_push_settings(surroundings, tmp_path)
    stronger = load_push_settings({**surroundings, "BYGONES_HUB_TOKEN": "u"}, tmp_path)

    assert found == ("https://h", "t", (str(tmp_path / "a"), "/c"))
    assert stronger == ("https://h", "u", (str(tmp_path / "a"), "/c"))
    assert load_push_settings({}, tmp_path) == ("", "", ())


@pytest.mark.parametrize(
    ("name", "value", "reason"),
    [
        ("color", "blue", "color must be auto, always or never"),
        ("iso", "maybe", "iso must be true or false"),
        ("ingest", "2", "ingest must be true or false"),
    ],
)
def test_invalid_environment_variable_is_rejected(
    name: str, value: str, reason: str, tmp_path: Path
) -> None:
    with pytest.raises(InvalidSettings) as in_file:
        load(tmp_path, f'{name} = "{value}"')
    with pytest.raises(InvalidSettings) as in_variable:
        load(tmp_path, "", **{f"BYGONES_{name.upper()}": value})

    assert in_file.value.reason == in_variable.value.reason == reason
    assert str(in_variable.value).startswith(f"BYGONES_{name.upper()} is invalid")


def test_empty_environment_variable_is_ignored(tmp_path: Path) -> None:
    empty = {f"BYGONES_{name}": " " for name in ("COLOR", "ISO", "INGEST")}

    found = load(tmp_path, 'color = "always"\niso = true\ningest = false', **empty)

    assert (found.color, found.iso, found.ingest) == ("always", True, False)


def test_missing_configured_settings_file_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(PathNotFound, match=r"gone\.toml does not exist"):
        load_settings({"BYGONES_SETTINGS": str(tmp_path / "gone.toml")}, tmp_path)


@pytest.mark.parametrize(
    ("stored", "node", "actual"),
    [
        ("f00d\n", 1, "f00d"),
        ("", 0x0242AC110002, "0242ac110002"),
        (None, 1 << 40, ""),
    ],
)
def test_machine_id_is_stable(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    *,
    stored: str | None,
    node: int,
    actual: str,
) -> None:
    if stored is not None:
        (tmp_path / "host").write_text(stored, "ascii")
    monkeypatch.setattr("bygones.config.MACHINE_ID_FILE", tmp_path / "host")
    monkeypatch.setattr("uuid.getnode", lambda: node)

    assert get_machine_id() == actual


def test_home_and_symlink_to_it_are_one_home(tmp_path: Path) -> None:
    home = tmp_path / ".claude"
    home.mkdir()
    link = tmp_path / "link"
    link.symlink_to(home)

    assert resolve_homes([link, home, link], {}, tmp_path) == (link,)


def test_requested_projects_folder_means_its_home(
    tmp_path: Path,
) -> None:
    home = tmp_path / "other"
    (home / "projects").mkdir(parents=True)

    assert resolve_homes([home / "projects"], {}, tmp_path) == (home / "projects",)
    (home / "todos").mkdir()
    assert resolve_homes([home / "projects"], {}, tmp_path) == (home,)
    assert resolve_homes([home, home / "projects"], {}, tmp_path) == (home,)


@pytest.mark.skipif(os.name == "nt", reason="links need rights there")
def test_target_of_a_symlinked_projects_folder_is_imported(tmp_path: Path) -> None:
    home, elsewhere = Home(tmp_path / ".claude"), Home(tmp_path / "disk")
    elsewhere.session(session_id(1), thread(prompt("Hello")))
    target = elsewhere.path / "projects"
    home.path.mkdir()
    (home.path / "projects").symlink_to(target)

    found = resolve_homes([], {}, tmp_path)
    report = Archive.ingest(tmp_path / "archive", found)

    assert found == (home.path, target)
    assert (report.new, report.problems) == (1, [])


@pytest.mark.parametrize("address", ["ftp://a", "s3://b/c"])
def test_web_address_is_not_an_archive(address: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidStoreURL, match="an archive is a folder"):
        resolve_archive_location(Path(address), {}, tmp_path)
    with pytest.raises(InvalidStoreURL, match="an archive is a folder"):
        resolve_archive_location(None, {"BYGONES_ARCHIVE": address}, tmp_path)
