"""What makes replaying files hard: `PITFALLS` names the tests of each known pitfall."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from bygones.archive import Archive
from bygones.cli.main import main
from bygones.errors import ExitCode, NotATextFile
from bygones.files.origins import Certainty, OriginKind
from bygones.files.paths import relative_to
from tests.build import CWD, Home, session_id
from tests.files.story import FILE, Story, history, hunks

PITFALLS = {
    "an abandoned branch": (
        "test_edits_of_an_abandoned_branch_do_not_leak",
        "test_no_line_is_attributed_to_an_abandoned_branch",
        "test_no_line_has_its_origin_in_a_branch_that_was_rewound",
    ),
    "an original that is missing or cut": (
        "test_edit_without_original_applies_to_the_known_content",
        "test_edit_of_unknown_content_has_no_text_until_it_is_seen",
        "test_original_that_was_cut_is_not_a_difference",
    ),
    "an empty patch": ("test_empty_patch_is_replaced_by_the_texts",),
    "an edit that was staged, not written": ("test_staged_edit_was_not_written",),
    "an edit that the user changed": (
        "test_lines_that_the_user_changed_before_accepting_are_the_users",
    ),
    "replacing every occurrence": ("test_replace_all_changes_every_occurrence",),
    "several edits in one call, and notebooks": (
        "test_edits_of_one_call_are_applied_in_order",
        "test_notebook_is_replaced_by_its_recorded_content",
    ),
    "line ends, byte order marks, encodings": (
        "test_bytes_are_compared_as_claude_code_shows_them",
        "test_backup_with_crlf_matches_the_edited_text",
        "test_text_without_final_newline_keeps_it_so",
        "test_not_utf8_content_is_not_exact",
        "test_line_ends_and_byte_order_mark_are_kept",
    ),
    "a call that was denied or interrupted": (
        "test_call_that_was_denied_or_has_no_result_changes_nothing",
    ),
    "parallel agents": ("test_agents_on_one_file_are_merged_by_time",),
    "worktrees": (
        "test_a_file_of_a_worktree_is_another_file",
        "test_several_files_with_one_name_are_ambiguous_unless_they_are_worktrees",
    ),
    "a renamed file": (
        "test_moved_file_keeps_its_history",
        "test_an_amended_and_renamed_file_has_its_true_origins",
    ),
    "a formatter after every edit": (
        "test_formatter_after_every_edit_is_recognized",
        "test_formatter_after_every_edit_leaves_lines_that_are_claudes",
    ),
    "a rewind of the code, or of the conversation alone": (
        "test_rewind_that_restored_code_matches_the_backup",
        "test_rewind_of_the_conversation_alone_is_a_change_from_outside",
    ),
    "pruned backups": ("test_pruned_backup_is_ignored",),
    "links": (
        "test_no_link_is_followed",
        "test_a_file_below_a_linked_folder_is_refused",
    ),
    "work that is not committed": (
        "test_changes_of_the_user_in_other_lines_are_kept",
        "test_changes_that_are_not_explained_are_not_overwritten_without_force",
    ),
    "paths in another case, and of Windows": (
        "test_windows_paths_of_any_case_are_one_file",
        "test_paths_of_macos_in_any_case_are_one_file_of_the_archive",
        "test_names_that_differ_in_case_are_two_files_elsewhere",
    ),
    "100,000 edits of one file": (
        "test_thousands_of_edits_of_one_file",
        "test_a_hundred_thousand_edits_of_one_file",
    ),
    "secrets in versions": (
        "test_purged_session_leaves_no_versions",
        "test_purging_a_session_erases_what_undo_kept",
        "test_versions_are_redacted",
        "test_secrets_in_checkpoints_are_masked_for_agents",
    ),
    "binary files": (
        "test_binary_content_has_no_text_and_is_not_compared",
        "test_blame_of_a_binary_file_says_so",
    ),
}
"""The names of tests, by what they show to be handled."""


def test_every_pitfall_has_its_tests() -> None:
    root = Path(__file__).parent.parent
    folders = ("files", "cli", "client", "integrations", "mcp")
    found = {
        name
        for folder in folders
        for path in (root / folder).glob("test_*.py")
        for name in re.findall(
            r"^def (test_\w+)", path.read_text("utf-8"), re.MULTILINE
        )
    }

    assert {name for names in PITFALLS.values() for name in names} - found == set()


def test_edits_of_one_call_are_applied_in_order(tmp_path: Path) -> None:
    story = Story()
    story.say("Change")
    before = "one\ntwo\ntwo\n"
    story.write(before)
    edits = [
        {"old_string": "one", "new_string": "two"},
        {"old_string": "two", "new_string": "three", "replace_all": True},
    ]
    outcome = {"filePath": FILE, "edits": edits, "originalFileContents": before}
    story.call("MultiEdit", outcome, file_path=FILE, edits=edits)

    assert history(tmp_path, story).text() == "three\nthree\nthree\n"


def test_notebook_is_replaced_by_its_recorded_content(tmp_path: Path) -> None:
    story = Story()
    story.say("Change")
    path = f"{CWD}/notes.ipynb"
    outcome = {
        "notebook_path": path,
        "original_file": '{"cells": []}\n',
        "updated_file": '{"cells": [1]}\n',
    }
    story.call("NotebookEdit", outcome, notebook_path=path, new_source="1")

    found = history(tmp_path, story, path=path)

    assert [found.text(number) for number in range(2)] == list(outcome.values())[1:]
    assert found.origins()[0].kind is OriginKind.CLAUDE


LONG = "".join(f"a line that is long enough {number}\n" for number in range(5))


@pytest.mark.req("FV4")
def test_lines_that_come_back_keep_their_origin(tmp_path: Path) -> None:
    changed = LONG.replace("enough 2", "enough TWO")
    story = Story()
    story.say("Read")
    story.read(LONG)
    story.say("Change")
    story.edit("enough 2", "enough TWO", LONG)
    story.say("I reverted it")
    story.read(LONG)

    found = history(tmp_path, story)

    assert found.text() == LONG
    origins = found.origins()[:5]
    assert {origin.kind for origin in origins} == {OriginKind.BEFORE}
    assert origins[2].certainty is Certainty.LIKELY
    story.say("Again")
    story.edit("enough 2", "enough TWO", LONG)
    assert history(tmp_path, story).text() == changed


def test_a_line_that_claude_writes_again_is_claudes(tmp_path: Path) -> None:
    shorter = LONG.replace("a line that is long enough 2\n", "")
    story = Story()
    story.say("Read")
    story.read(LONG)
    story.edit("a line that is long enough 2\n", "", LONG)
    story.say("Put it back")
    story.write(LONG, shorter)

    assert history(tmp_path, story).origins()[2].kind is OriginKind.CLAUDE


@pytest.mark.req("FV1")
def test_binary_content_has_no_text_and_is_not_compared(tmp_path: Path) -> None:
    story = Story()
    story.say("Write")
    story.write("text\n")
    patch = {"filePath": FILE, "hunks": hunks("text", "te\ufffdxt")}
    story.bash("make picture", [patch])

    found = history(tmp_path, story)

    assert found.text() is None
    assert found.text(0) == "text\n"


def test_blame_of_a_binary_file_says_so(tmp_path: Path) -> None:
    path = tmp_path / "picture.png"
    story = Story()
    story.say("Write")
    story.write("text\n", path=str(path))
    home = Home(tmp_path / "home")
    story.write_to(home)
    path.write_bytes(b"\x89PNG\0\0")
    Archive.ingest(tmp_path / "archive", [home.path])

    with (
        Archive.open(tmp_path / "archive") as archive,
        pytest.raises(NotATextFile),
    ):
        archive.file_library.blame(path)
    words = ["blame", str(path), "--archive", str(tmp_path / "archive"), "--no-ingest"]
    assert main(words) == ExitCode.USAGE_ERROR


def test_windows_paths_of_any_case_are_one_file(tmp_path: Path) -> None:
    story = Story()
    story.say("Write")
    story.write("one\n", path="C:\\Work\\Demo\\App.py")
    story.edit("one", "two", "one\n", path="c:\\work\\demo\\app.PY")

    found = history(tmp_path, story, path="C:/work/demo/app.py")

    assert found.text() == "two\n"


def test_paths_of_macos_in_any_case_are_one_file_of_the_archive(tmp_path: Path) -> None:
    home = Home(tmp_path / "home")
    for number, project in enumerate(("/Users/Ann/Shop", "/Users/ann/shop")):
        story = Story(session_id(number), name=f"s{number}_")
        story.seconds = number * 1000
        story.say("Write")
        text = f"{number}\n"
        story.write(text, None if not number else "0\n", path=f"{project}/src/Übung.py")
        story.write_to(home)
    Archive.ingest(tmp_path / "archive", [home.path])

    with Archive.open(tmp_path / "archive") as archive:
        file = archive.file("src/Übung.py")
        assert [file.text(number) for number in (0, 1)] == ["0\n", "1\n"]
        assert len(file.versions) == 2
        assert archive.file("/users/ann/shop/src/Übung.py").text() is not None


def test_a_name_below_a_directory_keeps_its_case() -> None:
    assert relative_to("/users/ann/shop/src/App.py", "/users/ann/shop") == "src/App.py"
    assert relative_to("/Users/ann/shop/src/App.py", "/Users/Ann/Shop") == "src/App.py"
    assert relative_to("C:\\Work\\src\\App.py", "c:/work") == "src/App.py"
    assert relative_to("/home/ann/Shop/app.py", "/home/ann/shop") is None


def test_names_that_differ_in_case_are_two_files_elsewhere(tmp_path: Path) -> None:
    story = Story()
    story.say("Write")
    story.write("one\n", path=f"{CWD}/Makefile")
    story.write("two\n", path=f"{CWD}/makefile")

    assert history(tmp_path, story, path=f"{CWD}/Makefile").text() == "one\n"
    assert history(tmp_path, story, path=f"{CWD}/makefile").text() == "two\n"


def test_formatter_after_every_edit_leaves_lines_that_are_claudes(
    tmp_path: Path,
) -> None:
    story = Story()
    story.say("Write")
    text = ""
    for number in range(4):
        written = f"{text}value_{number}=compute_something({number})\n"
        story.write(written, text or None)
        text = written.replace("=", " = ").replace("  =  ", " = ")
    story.read(text)

    found = history(tmp_path, story)

    kinds = [origin.kind for origin in found.origins()[:4]]
    assert set(kinds) <= {OriginKind.CLAUDE, OriginKind.MODIFIED}
