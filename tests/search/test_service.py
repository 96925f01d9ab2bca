"""Searching an archive: which sessions and hits are found, and in which order."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from bygones.model.base import SessionId
from bygones.model.query import Part
from bygones.model.summary import Annotations, Role, ScorePartKind
from bygones.render.headers import search_notes
from bygones.search.ranking import SortOrder
from bygones.store.tantivy_engine import TantivyEngine
from tests.build import (
    Home,
    image,
    prompt,
    queue,
    reply,
    session_id,
    snapshot,
    summary,
    system,
    text,
    thinking,
    thread,
    title,
    tool_result,
    tool_use,
)
from tests.search.searching import SearchArchive, open_archive

PARSER = "/work/demo/src/server/parse_transcript.py"


@pytest.fixture(scope="module")
def search_archive(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SearchArchive]:
    """Return an archive of a few sessions about different things."""
    folder = tmp_path_factory.mktemp("search")
    home = Home(folder / "home")
    records_by_name = {
        "Flaky login": [
            prompt("Why does the login test fail on every second run?"),
            reply([thinking("Perhaps a race in the cookie jar"), text("A race.")]),
            reply([tool_use("Bash", command="pytest -k login --maxfail 1")]),
            tool_result("toolu_1", "ENOENT: no such file, open '/tmp/cookies.json'"),
            reply("The cookies were written twice. Retried with a lock."),
        ],
        "Parsing transcripts": [
            prompt("Split parseTranscript into two functions"),
            reply([tool_use("Edit", id="toolu_2", file_path=PARSER, old_string="x")]),
            tool_result("toolu_2", "permission denied: read-only", is_error=True),
            reply([tool_use("WebFetch", id="toolu_3", url="https://example.org/cafe")]),
            reply("Le café est fermé; 実装する前に。 The parser is in auth.go"),
        ],
        "Docker images": [
            prompt("Make the docker image smaller; retries time out"),
            reply("A multi-stage build. The image has 80 MB now."),
        ],
    }
    for number, (name, records) in enumerate(records_by_name.items(), 1):
        chain = thread(*records, start=3600.0 * number)
        home.session(session_id(number), [*chain, title(name, custom=True)])
    with open_archive(home, folder / "archive") as found:
        yield found


@pytest.mark.req("X4")
@pytest.mark.parametrize(
    ("text", "titles"),
    [
        ("docker", ["Docker images"]),
        ("login cookies", ["Flaky login"]),
        ("why is the login test failing sometimes", ["Flaky login"]),
        ("retry", ["Flaky login", "Docker images"]),
        ('"multi-stage build"', ["Docker images"]),
        ('"build multi-stage" -image', []),
        ("dock*", ["Docker images"]),
        ("retried -docker", ["Flaky login"]),
        ("docker OR cookies", ["Flaky login", "Docker images"]),
        ("(docker OR cookies) -image", ["Flaky login"]),
        ("/EN[A-Z]+: no/", ["Flaky login"]),
        ("tool:Bash", ["Flaky login"]),
        ("tool:Edit is:error", ["Parsing transcripts"]),
        ("tool:Bash is:error", []),
        ("result-of:Bash enoent", ["Flaky login"]),
        ("answers:Bash enoent", ["Flaky login"]),
        ("result-of:Edit enoent", []),
        ("tool:Edit file:*.py", ["Parsing transcripts"]),
        ("cmd:pytest", ["Flaky login"]),
        ("title:docker", ["Docker images"]),
        ("is:error denied", ["Parsing transcripts"]),
        ("is:error docker", []),
        ("in:thinking race", ["Flaky login"]),
        ("in:prompt race", []),
        ("has:edit", ["Parsing transcripts"]),
        ("has:image", []),
        ("session:5e551000-0000-4000-8000-000000000003 image", ["Docker images"]),
        ("before:2026-01-05T10:30Z retry", ["Flaky login"]),
        ("after:2026-01-05T11:30Z retry", ["Docker images"]),
        ("project:demo docker", ["Docker images"]),
        ("project:nowhere docker", []),
    ],
)
def test_query_finds(
    search_archive: SearchArchive, text: str, titles: list[str]
) -> None:
    assert sorted(search_archive.titles(text)) == sorted(titles)


@pytest.mark.parametrize(
    "text",
    [
        *("parseTranscript", "parse_transcript", "parsetranscript", "parse transcript"),
        *("parse_transcript.py", "src/server/parse_transcript.py", PARSER),
        *("auth.go", "WebFetch", "webfetch", "web_fetch", "cafe", "CAFÉ", "実装", "装"),
    ],
)
def test_identifiers_are_found_in_all_spellings(
    search_archive: SearchArchive, text: str
) -> None:
    assert search_archive.titles(text)[0] == "Parsing transcripts"


@pytest.mark.req("X4")
def test_sessions_with_more_of_the_words_come_first(
    search_archive: SearchArchive,
) -> None:
    found = search_archive.search("docker cookies retries")

    assert [len(one.matched_words) for one in found.sessions] == [2, 2]
    assert search_archive.titles("docker retry lock")[0] == "Docker images"
    assert search_archive.search("retry image").full_match_count == 1


def test_typos_are_corrected_and_reported(search_archive: SearchArchive) -> None:
    found = search_archive.search("dokcer image")

    assert [(one.original, one.corrected) for one in found.corrections] == [
        ("dokcer", "docker")
    ]
    assert found.sessions[0].summary.title.text == "Docker images"


def test_phrase_without_a_match_is_relaxed_to_words(
    search_archive: SearchArchive,
) -> None:
    found = search_archive.search('"build multi-stage"')

    assert found.is_phrase_relaxed
    assert [one.summary.title.text for one in found.sessions] == ["Docker images"]
    assert not search_archive.search('"multi-stage build"').is_phrase_relaxed


@pytest.mark.parametrize(
    "text",
    [
        "ENOENT: no such file, open '/tmp/cookies.json'",
        "why does the login test fail on every second run",
    ],
)
def test_pasted_line_finds_its_text(search_archive: SearchArchive, text: str) -> None:
    assert search_archive.titles(text)[0] == "Flaky login"


def test_pasted_line_that_is_half_indexed_comes_first(
    tmp_path: Path,
) -> None:
    home = Home(tmp_path / "home")
    half = "fatal cannot lock ref refs heads walrus because of heads"
    records = [prompt("push it"), reply([tool_use("Bash", command="git push -u")])]
    records.append(
        tool_result("toolu_1", f"{half} {'and so on ' * 100}", is_error=True)
    )
    home.session(session_id(1), thread(*records))
    for number in range(2, 6):
        words = half.split()
        replies = [reply(" ".join(words[at:] + words[:at])) for at in (3, 5, 7)]
        chain = thread(prompt(f"again {number}"), *replies, start=60.0 * number)
        home.session(session_id(number), chain)

    with open_archive(home, tmp_path / "archive") as archive:
        first, *_ = archive.search(
            f"{half} -u which nobody ever saw in a text"
        ).sessions

    assert first.summary.id == session_id(1)


def test_pasted_command_finds_its_call(tmp_path: Path) -> None:
    home = Home(tmp_path / "home")
    for number in (1, 2, 3):
        call = tool_use("Bash", command=f"cd /work && make test | tail -{number}3")
        home.session(session_id(number), thread(prompt("Run it"), reply([call])))

    with open_archive(home, tmp_path / "archive") as archive:
        found = archive.search("Bash cd /work && make test | tail -23")

    assert found.sessions[0].summary.id == session_id(2)


@pytest.mark.parametrize(
    "text",
    [
        'why does the "login test" fail on every run',
        'why does "," the login test "==" fail',
    ],
)
def test_quotes_in_pasted_text_do_not_count_each_word_alone(
    search_archive: SearchArchive, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = search_archive.titles(text)
    monkeypatch.delattr(TantivyEngine, "count_many")

    assert search_archive.titles(text) == expected
    assert expected[0] == "Flaky login"


def test_session_is_found_by_a_users_tag(tmp_path: Path) -> None:
    home = Home(tmp_path / "home")
    for number in (1, 2):
        home.session(session_id(number), thread(prompt(f"walrus {number}")))
    with open_archive(home, tmp_path / "archive") as archive:
        tagged = Annotations(tags=("zoo",))
        archive.archive.annotate([SessionId(session_id(2))], lambda _: tagged)

        for text in ("tag:zoo walrus", "tag:zoo", "tag:zoo OR /nothing/"):
            (found,) = archive.search(text).sessions
            assert found.summary.id == session_id(2)
        assert archive.search("walrus -tag:zoo").sessions[0].summary.id == session_id(1)


def test_blank_text_is_not_a_hit(tmp_path: Path) -> None:
    home = Home(tmp_path / "home")
    records = thread(prompt("Begin"), reply("\n\n"), reply(" \n"), reply("Done"))
    home.session(session_id(1), records)

    with open_archive(home, tmp_path / "archive") as archive:
        (found,) = archive.search("is:agent OR session:5e55", hits=9).sessions

    assert [hit.excerpt.text for hit in found.hits] == ["Begin", "Done"]


def test_missing_word_is_reported(search_archive: SearchArchive) -> None:
    found = search_archive.search("docker zzyzx")

    assert found.missing_words == ("zzyzx",)
    assert found.session_count == 1
    assert search_archive.search("zzyzx") == search_archive.search("zzyzx -docker")
    assert search_archive.search("zzyzx").sessions == ()


@pytest.mark.req("X1")
@pytest.mark.parametrize(
    "text",
    [
        *("5e551000", "main", "200", "uuid", "external", "sessionId", "gitBranch"),
        *("2026", "assistant", "toolu", "msg", "claude-opus", "timestamp"),
    ],
)
def test_metadata_is_not_searched(search_archive: SearchArchive, text: str) -> None:
    assert search_archive.titles(f'"{text}"') == []


@pytest.mark.req("X2")
def test_all_content_is_found_up_to_its_limit(tmp_path: Path) -> None:
    home = Home(tmp_path / "home")
    home.session(
        session_id(1),
        thread(
            prompt([text("long " * 9000 + "endofprompt"), image()]),
            reply([thinking("hm " * 9000 + "endofthought")]),
            reply([tool_use("Bash", command="true " * 900 + "endofcommand")]),
            reply([tool_use("Task", prompt="do " * 900 + "endofinput")]),
            tool_result("toolu_1", "out " * 900 + "endofresult"),
            summary("A summaryword", "x"),
        ),
    )
    home.session(session_id(2), [snapshot("x", {"backedup.py": None})])

    with open_archive(home, tmp_path / "archive") as archive:
        for word in ("endofprompt", "endofthought", "endofcommand", "task", "bash"):
            assert archive.search(f'"{word}"').session_count == 1, word
        for word in ("endofinput", "endofresult", "iVBORw0KGgo", "backedup"):
            assert archive.search(f'"{word}"').session_count == 0, word
        assert archive.search("out").session_count == 1


@pytest.mark.req("X3")
def test_identifier_weighs_most_where_it_is_used(tmp_path: Path) -> None:
    home = Home(tmp_path / "home")
    prompts = [prompt(f"Something about read_config number {n}") for n in range(3)]
    use = [
        reply([tool_use("Read", id=f"toolu_{n}", file_path="/work/read_config.py")])
        for n in range(3)
    ]
    others = [reply(f"A lot of other words {n}") for n in range(6)]
    home.session(
        session_id(1), [*thread(*prompts, *others), title("Talk", custom=True)]
    )
    home.session(session_id(2), [*thread(*use, *others), title("Use", custom=True)])

    with open_archive(home, tmp_path / "archive") as archive:
        assert archive.titles("read_config") == ["Use", "Talk"]
        assert archive.titles("something about config")[0] == "Talk"


@pytest.mark.req("X3")
@pytest.mark.parametrize("query", ["Edit", "edit", "config.ts", "Edit config.ts"])
def test_name_of_a_tool_or_file_finds_calls_first(tmp_path: Path, query: str) -> None:
    home = Home(tmp_path / "home")
    phrase = "Edit the config.ts"
    home.session(
        session_id(1),
        [
            title("Called"),
            *thread(
                prompt("Now"),
                reply([tool_use("Edit", file_path="/work/demo/src/config.ts")]),
                tool_result("toolu_1", "ok"),
            ),
        ],
    )
    for number in range(2, 6):
        records = [
            prompt(phrase),
            reply(f"{phrase}? Edit!"),
            prompt(f"{phrase} {number}"),
        ]
        named = title(f"{phrase} {number}" if number > 3 else "Mentioned")
        home.session(
            session_id(number), [named, *thread(*records, start=60.0 * number)]
        )

    with open_archive(home, tmp_path / "archive") as archive:
        assert archive.titles(query)[0] == "Called"
        assert len(archive.titles(query)) == 5
        # In a sentence it is an ordinary word.
        assert archive.titles("please edit the config again")[0] != "Called"


@pytest.mark.req("X3")
def test_identifier_as_typed_comes_before_its_parts(tmp_path: Path) -> None:
    home = Home(tmp_path / "home")
    others = [reply("A lot of other words") for _ in range(6)]
    name = [*others, reply("It ends with TypeError: no function")]
    parts = [prompt("A type error"), prompt("Still a type error")]
    home.session(session_id(1), [*thread(*name), title("Name", custom=True)])
    home.session(session_id(2), [*thread(*parts), title("Parts", custom=True)])

    with open_archive(home, tmp_path / "archive") as archive:
        assert archive.titles("TypeError") == ["Name", "Parts"]
        assert archive.titles("type error") == ["Parts", "Name"]


@pytest.mark.req("X3")
def test_newest_of_equal_sessions_comes_first(tmp_path: Path) -> None:
    home = Home(tmp_path / "home")
    for number in (1, 2, 3):
        records = thread(
            prompt("the same words", uuid=f"u{number}"), start=86400.0 * (number % 3)
        )
        home.session(session_id(number), records)

    with open_archive(home, tmp_path / "archive") as archive:
        ids = [one.summary.id for one in archive.search("same words").sessions]
        assert ids == [session_id(2), session_id(1), session_id(3)]
        oldest = archive.search("same words", sort=SortOrder.OLDEST).sessions
        assert [one.summary.id for one in oldest] == ids[::-1]


@pytest.mark.req("X5")
def test_hit_has_its_context(search_archive: SearchArchive) -> None:
    (first, *_) = search_archive.search("cookies").sessions
    hits = {hit.part: hit for hit in first.hits}

    assert search_archive.excerpts("cookies lock")[0] == (
        "The [cookies] were written twice. Retried with a [lock]."
    )
    assert hits[Part.REPLY].role is Role.ASSISTANT
    position = hits[Part.RESULT].position
    assert position is not None
    raw = Path(position.source_id).read_bytes()[position.offset :]
    assert b"ENOENT" in raw[: position.length]
    assert raw[position.length : position.length + 1] == b"\n"
    assert first.matched_words == ("cookies",)
    assert first.hit_count == 3


@pytest.mark.req("X5", "X6")
def test_hits_in_agents_and_on_rewound_branches_are_marked(
    tmp_path: Path,
) -> None:
    home = Home(tmp_path / "home")
    records = [
        prompt("Begin", uuid="a"),
        reply("Begun", uuid="b", parent="a"),
        prompt("The wrong walrus", uuid="c", parent="b"),
        prompt("The right walrus", uuid="d", parent="b"),
    ]
    for number, record in enumerate(records):
        record["timestamp"] = f"2026-01-05T09:00:{number:02}.000Z"
    home.session(session_id(1), records)
    inside = [prompt("Look for a walrus", uuid="e", isSidechain=True)]
    home.agent(session_id(1), "a1", inside, meta={"agentType": "Explore"})

    with open_archive(home, tmp_path / "archive") as archive:
        (one,) = archive.search("walrus").sessions
        hits = {str(hit.record_id): hit for hit in one.hits}
        assert {id_: hit.is_abandoned for id_, hit in hits.items()} == {
            "c": True,
            "d": False,
            "e": False,
        }
        assert (hits["e"].agent_id, hits["e"].agent_type) == ("a1", "Explore")
        assert [
            h.record_id for h in archive.search("walrus is:abandoned").sessions[0].hits
        ] == ["c"]
        assert [
            h.record_id for h in archive.search("walrus is:agent").sessions[0].hits
        ] == ["e"]
        found = archive.search("walrus -is:agent branch:live").sessions[0]
        assert [hit.record_id for hit in found.hits] == ["d"]
        assert archive.search("walrus agent:explore").session_count == 1


@pytest.mark.req("X6")
def test_record_in_two_files_is_one_hit(tmp_path: Path) -> None:
    home = Home(tmp_path / "home")
    records = thread(prompt("Only once a walrus"), reply("Yes"))
    home.session(session_id(1), records)
    home.session(session_id(1), records, project="-work-copy")
    home.session(session_id(2), [*records, *thread(prompt("More"), start=60)])

    with open_archive(home, tmp_path / "archive") as archive:
        (one,) = archive.search("walrus").sessions
        assert len(one.hits) == 1
        assert one.summary.id == session_id(1)
        assert one.duplicate_ids == (session_id(2),)


@pytest.mark.req("R9", "X2")
def test_prompt_that_was_only_queued_is_found(tmp_path: Path) -> None:
    home = Home(tmp_path / "home")
    call = reply([tool_use("Bash", command="sleep 9")], uuid="b")
    records = [
        *thread(prompt("Count", uuid="a"), call),
        queue("enqueue", "Leave out the walrus"),
        queue("remove"),
        queue("enqueue", "Forget the dugong"),
        queue("popAll", "Forget the dugong"),
        *thread(
            tool_result("toolu_1", "9", uuid="c"), reply("Nine", uuid="d"), start=60
        ),
    ]
    records[6]["parentUuid"] = "b"
    home.session(session_id(1), records)

    with open_archive(home, tmp_path / "archive") as archive:
        assert archive.excerpts("walrus") == ["Leave out the [walrus]"]
        (one,) = archive.search("walrus in:prompt role:user").sessions
        assert [hit.part for hit in one.hits] == [Part.PROMPT]
        # This branch was rewound.
        assert archive.titles("dugong") == []


@pytest.mark.req("X2", "E1")
def test_messages_without_ids_are_found(tmp_path: Path) -> None:
    home = Home(tmp_path / "home")
    records = thread(prompt("Feed the walrus"), reply("The walrus is fed"))
    for record in records:
        del record["uuid"], record["parentUuid"]
    home.session(session_id(1), records)

    with open_archive(home, tmp_path / "archive") as archive:
        assert sorted(archive.excerpts("walrus")) == [
            "Feed the [walrus]",
            "The [walrus] is fed",
        ]


@pytest.mark.req("R1", "X2")
def test_text_of_an_unknown_notice_is_found(tmp_path: Path) -> None:
    home = Home(tmp_path / "home")
    notice = system("walrus_alert", "The walrus escaped", level="error")
    home.session(session_id(1), thread(prompt("Count"), notice, reply("Nine")))

    with open_archive(home, tmp_path / "archive") as archive:
        assert archive.excerpts("escaped") == ["The walrus [escaped]"]


@pytest.mark.req("X6", "T6")
@pytest.mark.parametrize("order", [(1, 2, 3), (3, 2, 1)])
def test_hit_in_a_copied_record_belongs_to_the_original_session(
    tmp_path: Path, order: tuple[int, ...]
) -> None:
    """Each session continues the one before; the numbers of files are in any order."""
    home = Home(tmp_path / "home")
    first, second, third = map(session_id, order)
    begin = thread(prompt("A walrus", uuid="a"), reply("Of course", uuid="b"))
    own = thread(prompt("Another walrus", uuid="c"), reply("Yes", uuid="d"), start=60)
    own[0]["parentUuid"] = "b"
    rest = thread(prompt("Enough", uuid="e"), reply("Fine", uuid="f"), start=120)
    rest[0]["parentUuid"] = "d"
    old = {"version": "1.0.35"}
    for id_, records in (
        (first, begin),
        (second, [*begin, *own]),
        (third, [*begin, *own, *rest]),
    ):
        home.session(id_, [record | old | {"sessionId": id_} for record in records])

    with open_archive(home, tmp_path / "archive") as archive:
        found = archive.search("walrus").sessions
        assert {
            one.summary.id: [hit.record_id for hit in one.hits] for one in found
        } == {first: ["a"], second: ["c"]}
        assert {one.summary.id: one.hit_count for one in found} == {first: 1, second: 1}
        assert [id_ for one in found for id_ in one.duplicate_ids] == [third]


@pytest.mark.req("X1", "T7")
@pytest.mark.parametrize("id_", [session_id(1), session_id(1)[:8], "record", "upper"])
def test_id_instead_of_words_is_recognized(
    search_archive: SearchArchive, id_: str
) -> None:
    record = search_archive.search("cookies").sessions[0].hits[0].record_id
    typed = {"record": record, "upper": session_id(1).upper()}.get(id_, id_)

    found = search_archive.search(typed)
    assert (found.sessions, found.named_id) == ((), typed.lower())
    (note,) = search_notes(found)
    assert f"`bygones show {typed.lower()}`" in note


@pytest.mark.req("X1")
@pytest.mark.parametrize(
    "text", ["login", "deadbeef", f"{session_id(1)} login", f"session:{session_id(1)}"]
)
def test_other_queries_are_not_taken_for_an_id(
    search_archive: SearchArchive, text: str
) -> None:
    assert search_archive.search(text).named_id == ""


def test_pages_are_consecutive(tmp_path: Path) -> None:
    home = Home(tmp_path / "home")
    for number in range(1, 8):
        records = thread(prompt(f"page {'word ' * number}"), start=number)
        home.session(session_id(number), records)

    with open_archive(home, tmp_path / "archive") as archive:
        whole = archive.search("word page", limit=7).sessions
        pages = [archive.search("word page", limit=3, offset=at) for at in (0, 3, 6)]

        assert [one for page in pages for one in page.sessions] == list(whole)
        assert [page.session_count for page in pages] == [7, 7, 7]
        assert archive.search("word page", offset=7).sessions == ()


def test_search_of_an_empty_archive_finds_nothing(tmp_path: Path) -> None:
    home = Home(tmp_path / "home")
    home.path.mkdir()
    (home.path / "projects").mkdir()

    with open_archive(home, tmp_path / "archive") as archive:
        for query in ("anything", "", "tool:Bash", "/x/", "-a", '"a b"', "a*"):
            assert archive.search(query).sessions == ()


def test_empty_query_lists_the_newest_first(search_archive: SearchArchive) -> None:
    titles = ["Docker images", "Parsing transcripts", "Flaky login"]

    assert search_archive.titles("") == search_archive.titles("&& --") == titles


@pytest.mark.parametrize(
    "text",
    [
        "docker " * 1400,
        " ".join(f"word{n}" for n in range(1400)),
        "x" * 9999,
        "(" * 40 + "docker" + ")" * 40,
        " OR ".join(["docker*"] * 800),
        '"' + "docker " * 1400 + '"',
        "words:docker AND session:[0 TO 9] OR *:*",
        "'; DROP TABLE session; --",
        "docker^9 ~docker {a TO b} \\u0000 \x00 \x1b[31m",
        'docker" OR words:* "',
        "/(?:word )+x/",
    ],
)
def test_any_query_can_be_searched(search_archive: SearchArchive, text: str) -> None:
    found = search_archive.search(text[:9999])

    assert found.session_count <= 3
    assert all(one.summary.id.startswith("5e551000") for one in found.sessions)


def test_session_with_many_hits_is_one_match(tmp_path: Path) -> None:
    home = Home(tmp_path / "home")
    many = [reply(f"walrus {n}", uuid=f"r{n}", message_id=f"m{n}") for n in range(3000)]
    home.session(session_id(1), [prompt("walrus " * 1_000_000, uuid="p"), *many])
    home.session(session_id(2), [prompt("a walrus", uuid="q")])

    with open_archive(home, tmp_path / "archive") as archive:
        found = archive.search("walrus", hits=2)

        assert {one.summary.id: one.hit_count for one in found.sessions} == {
            session_id(1): 3001,
            session_id(2): 1,
        }
        assert all(len(one.hits) <= 2 for one in found.sessions)
        assert all(len(hit.excerpt.text) < 300 for hit in found.sessions[0].hits)


def test_rewound_texts_are_found_in_a_large_session(tmp_path: Path) -> None:
    home = Home(tmp_path / "home")
    first, left = thread(prompt("begin"), prompt("on the way that was left"))
    live_records = thread(
        *(prompt(f"kept {number}") for number in range(300)), start=900
    )
    live_records[0] = {**live_records[0], "parentUuid": first["uuid"]}
    home.session(session_id(1), [first, left, *live_records])

    with open_archive(home, tmp_path / "archive") as archive:
        found = archive.search("is:abandoned")
        others = archive.search("branch:live left")

    (session,) = found.sessions
    assert [hit.excerpt.text for hit in session.hits] == ["on the way that was left"]
    assert others.session_count == 0


def test_session_that_used_a_path_comes_before_those_with_its_words(
    tmp_path: Path,
) -> None:
    home = Home(tmp_path / "home")
    used = tool_use("Read", file_path="/home/otter/app/client/main")
    home.session(session_id(1), thread(prompt("Look"), reply([used])))
    words = " ".join(["The app is a client of an app; the client"] * 3)
    home.session(session_id(2), thread(prompt(f"{words}. app/client")))

    with open_archive(home, tmp_path / "archive") as archive:
        found = archive.search("app/client").sessions

    assert [one.summary.id for one in found] == [session_id(1), session_id(2)]


def test_words_around_a_slash_need_not_be_adjacent(tmp_path: Path) -> None:
    home = Home(tmp_path / "home")
    apart = "The logout fails, and so does the login of the otter"
    home.session(session_id(1), thread(prompt(apart, uuid="a")))
    home.session(session_id(2), thread(prompt("About the login/logout page", uuid="b")))

    with open_archive(home, tmp_path / "archive") as archive:
        alone = [one.summary.id for one in archive.search("login/logout").sessions]
        both = archive.search("otter login/logout").sessions
        path = archive.search("src/login.py").query_words

    assert alone == [session_id(2), session_id(1)]
    assert {one.summary.id: one.matched_words for one in both} == {
        session_id(1): ("otter", "login", "logout"),
        session_id(2): ("login/logout", "login", "logout"),
    }
    assert "src" not in path


@pytest.mark.parametrize("query", ["", "-cookies", "is:error"])
def test_sessions_in_order_of_time_have_no_score(
    search_archive: SearchArchive, query: str
) -> None:
    matches = search_archive.search(query).sessions

    assert matches
    assert {(one.score, one.score_parts) for one in matches} == {(0.0, ())}


@pytest.mark.req("X3")
def test_score_is_explained(search_archive: SearchArchive) -> None:
    (first, *_) = search_archive.search("cookies lock").sessions
    shares = {one.word: one for one in first.word_shares}

    assert sum(one.share for one in first.word_shares) == pytest.approx(1)
    assert sum(part.value for part in first.score_parts) == pytest.approx(first.score)
    assert {part.kind for part in first.score_parts} > {
        ScorePartKind.WORDS,
        ScorePartKind.RECORDS,
        ScorePartKind.RECENCY,
    }
    assert set(shares) == {"cookies", "lock"}
    assert dict(shares["lock"].record_counts) == {Part.REPLY: 1}
    assert dict(shares["cookies"].record_counts)[Part.RESULT] == 1
