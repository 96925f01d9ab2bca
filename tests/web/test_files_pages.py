"""The pages of files and of their versions."""

from __future__ import annotations

import re
from pathlib import Path

from bygones.archive import Archive
from tests.build import (
    SESSION,
    Home,
    prompt,
    reply,
    session_id,
    thread,
    tool_result,
    tool_use,
)
from tests.cases.archives import CaseArchives
from tests.files.story import Story
from tests.web.archives import (
    EDITED,
    EDITED_PATH,
    WebArchive,
)
from tests.web.client import WebClient, web_client


def test_pages_show_what_commands_changed(case_archives: CaseArchives) -> None:
    home = Home(case_archives.home("shell_edits"))
    page = web_client(WebArchive(home, case_archives.archive("shell_edits")))

    listed = page.get(f"/files?session={SESSION}").text
    diff = page.get(f"/files?session={SESSION}&path=/work/demo/a.py").text
    large = page.get(f"/files?session={SESSION}&path=/work/demo/big").text
    session = page.get(f"/session/{SESSION}").text

    assert "/work/demo/many7.txt" in listed
    assert ">not recorded<" in listed
    assert '>-two</del><ins data-new="2">+<span class="n">2</span></ins>' in diff
    assert "lines not recorded" in large
    assert "changed a.py +1 \N{MINUS SIGN}1" in session
    assert '>-two</del><ins data-new="2">+2</ins>' in session


def test_lines_of_an_edit_without_a_patch_are_not_counted_as_zero(
    tmp_path: Path,
) -> None:
    home = Home(tmp_path / ".claude")
    edit = tool_use("Edit", file_path="/w/a.py", old_string="b", new_string="c\nd")
    lines = thread(prompt("Go"), reply([edit]), tool_result("toolu_1", "Done."))
    home.session(SESSION, lines)
    Archive.ingest(tmp_path / "archive", [home.path])
    page = web_client(WebArchive(home, tmp_path / "archive"))

    listed = page.get(f"/files?session={SESSION}").text
    diff = page.get(f"/files?session={SESSION}&path=/w/a.py").text

    assert ">+0<" not in listed
    assert "not recorded" in listed
    assert "+2 \N{MINUS SIGN}1" in diff


def test_file_page_shows_diffs(page: WebClient) -> None:
    text = page.get(f"/files?session={EDITED}&path={EDITED_PATH}").text

    assert "<ins>" in text
    assert "<b>new</b> words" in text
    assert EDITED in page.get(f"/files?path={EDITED_PATH}").text
    assert "No session changed" in page.get("/files?path=nowhere.py").text


def test_versions_of_a_file_have_origins_and_need_no_script(tmp_path: Path) -> None:
    home = Home(tmp_path / "home")
    story = Story(SESSION)
    story.say("Write <b>it</b>")
    story.write("old()\n<script>alert(1)</script>\n", path="/work/demo/x.py")
    story.say("Change it")
    before = "old()\n<script>alert(1)</script>\n"
    story.edit("old()", "new()", before, path="/work/demo/x.py")
    story.write_to(home)
    Archive.ingest(tmp_path / "archive", [home.path])
    page = web_client(WebArchive(home, tmp_path / "archive"))

    last = page.get("/file?path=/work/demo/x.py").text
    first = page.get("/file?path=/work/demo/x.py&version=1").text

    assert 'value="2" data-labels' in last
    changes = page.get("/file?path=/work/demo/x.py&view=unified").text
    assert "+new()</ins>" in changes
    assert 'title="Write &lt;b&gt;it&lt;/b&gt;"' in last
    assert f"{SESSION[:8]}:2" in last
    assert "<script>alert" not in last
    assert "new()" not in first
    assert page.get("/file?path=nothing.py").status == 404
    assert page.get("/file?path=/work/demo/x.py&version=x").status == 400
    assert page.get("/file").status == 404


def test_a_file_is_shown_at_any_turn_of_any_branch(tmp_path: Path) -> None:
    home = Home(tmp_path / "home")
    path = "/work/demo/x.py"
    story = Story(SESSION)
    story.say("Write")
    fork = story.write("a = 1\nb = 2\n", path=path)
    story.say("Abandoned")
    story.edit("a = 1", "a = 111", "a = 1\nb = 2\n", path=path)
    story.rewind(fork)
    story.say("Again")
    story.edit("b = 2", "b = 3", "a = 1\nb = 2\n", path=path)
    last = story.edit("b = 3", "b = 4", "a = 1\nb = 3\n", path=path)
    story.say("Look")
    story.read("# mine\na = 1\nb = 4\n", path=path)
    story.write_to(home)
    Archive.ingest(tmp_path / "archive", [home.path])
    page = web_client(WebArchive(home, tmp_path / "archive"))
    call = next(r for r in story.records if r["uuid"] == last)["message"]["content"]

    def text(query: str) -> str:
        return _plain_text(page.get(f"/file?path={path}{query}").text)

    assert "111" not in text("")
    assert "b = 3" in text("&turn=2&view=unified")
    assert "b = 4" in text("&turn=2")  # a turn ends with its last version
    assert "b = 4" in text(f"&call={call[0]['tool_use_id']}")
    assert "user?" in text("")  # not recorded
    assert "between 2026" in page.get(f"/file?path={path}").text
    abandoned = text(f"&branch={SESSION}:2")
    assert "a = 111" in abandoned
    assert "b = 4" not in abandoned
    assert "Version 1 compared with 4" in text("&view=split&from=1")
    assert f"branch={SESSION}%3A2" in page.get(f"/session/{SESSION}?branch=1").text
    assert "The file after this change" in page.get(f"/session/{SESSION}").text
    assert page.get(f"/file?path={path}&branch=x").status == 400
    assert page.get(f"/file?path={path}&branch=x:1").status == 404
    assert page.get(f"/file?path={path}&view=x").status == 400


def _plain_text(html: str) -> str:
    return re.sub("<[^>]*>", "", html)


def test_files_page_counts_each_file_once(page: WebClient) -> None:
    text = page.get("/files").text

    assert "2 files</p>" in text
    assert "the newest" not in text


def test_files_are_filtered_by_project_and_shown_relative_to_it(
    tmp_path: Path,
) -> None:
    home = Home(tmp_path / ".claude")
    for number, project in enumerate(("/work/one", "/work/two"), 1):
        story = Story(session_id(number), f"s{number}")
        story.say("Create")
        story.write("text\n", path=f"{project}/src/{number}.py")
        for record in story.records:
            record["cwd"] = project
        story.write_to(home)
    Archive.ingest(tmp_path / "archive", [home.path])
    client = web_client(WebArchive(home, tmp_path / "archive"))
    everything = client.get("/files").text
    one = client.get("/files?project=/work/one").text

    assert "2 files</p>" in everything
    assert "1.py <small>src/</small>" in one
    assert "2.py" not in one


def test_changes_of_an_abandoned_branch_are_listed_separately(tmp_path: Path) -> None:
    home = Home(tmp_path / ".claude")
    story = Story()
    story.say("Create")
    fork = story.write("text\n")
    story.say("Try")
    story.edit("text", "other", "text\n")
    story.rewind(fork)
    story.say("Change")
    story.edit("text", "better", "text\n")
    story.write_to(home)
    Archive.ingest(tmp_path / "archive", [home.path])
    client = web_client(WebArchive(home, tmp_path / "archive"))

    for query in (f"session={SESSION}", "path=/work/demo/a.py"):
        text = client.get(f"/files?{query}").text
        assert text.count("abandoned branch 2") == 1
        assert text.count('class="added"') == 2
