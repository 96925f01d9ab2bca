"""Two hosts with copies of one archive: each session is on the hub once, complete."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from bygones.archive import Archive
from bygones.team.contract import AccessScope
from bygones.team.worker import derive_all
from tests.build import Home, jsonl, prompt, reply, session_id, thread
from tests.hub.sending import KEY, NOW, PROJECT, MemoryHub, make_project, push_project
from tests.team.engines import open_engine


def continue_sessions(home: Home, folder: Path, text: str, number: int) -> None:
    """Continue a session that both hosts have, and start one that only this host has."""
    for name in (session_id(0), session_id(number)):
        path = home.path / "projects" / KEY / f"{name}.jsonl"
        records = thread(
            prompt(f"{text} {name}", cwd=PROJECT, sessionId=name),
            reply(f"so be it {text}", cwd=PROJECT, sessionId=name),
            start=number * 1000,
        )
        with path.open("ab") as file:
            file.write(jsonl(records))
    Archive.ingest(folder, [home.path])


def test_copies_of_an_archive_send_each_session_once(tmp_path: Path) -> None:
    one, folder = make_project(tmp_path / "one")
    shutil.copytree(tmp_path / "one", tmp_path / "other")
    copy = tmp_path / "other" / "archive"
    other = Home(tmp_path / "other" / ".claude")
    hub = MemoryHub(tmp_path / "raw")
    with open_engine("postgresql") as make:
        store, _ = make()
        hub.use_store(store)
        for archive, host in ((folder, "one"), (copy, "other")):
            push_project(archive, hub, host=host)
        continue_sessions(one, folder, "walnut", 10)
        continue_sessions(other, copy, "hazel", 20)
        for _ in range(2):
            for archive, host in ((folder, "one"), (copy, "other")):
                push_project(archive, hub, host=host)
        derive_all(store, hub.objects)

        with Archive.from_store(
            store.open_reader(AccessScope(person="ann"), hub.objects)
        ) as team:
            names = [session.id for session in team.sessions(include_empty=True)]
            assert sorted(names) == sorted(
                session_id(number) for number in (0, 1, 2, 10, 20)
            )
            prompts = [found.text for found in team.prompts()]
            assert len(prompts) == len(set(prompts)) == 12 + 4
        store.close()


@pytest.mark.parametrize("folder", ["projects/-home-ann-work-shop", "chats", "."])
@pytest.mark.parametrize("name", ["episode 8", "ann@shop.example"])
def test_renamed_transcripts_keep_their_agents(
    tmp_path: Path, folder: str, name: str
) -> None:
    id_, agent = session_id(1), "a1b2c3d4e5f60718a"
    fields: dict[str, Any] = {"cwd": PROJECT, "sessionId": id_}
    main = thread(prompt("find the leak", **fields), reply("found", **fields))
    work = thread(
        prompt("look for it", **fields, agentId=agent, isSidechain=True),
        reply("it is in the pool", **fields, agentId=agent, isSidechain=True),
        start=100,
    )
    home = tmp_path / "home" / folder
    (home / name / "subagents").mkdir(parents=True)
    (home / f"{name}.jsonl").write_bytes(jsonl(main))
    (home / name / "subagents" / f"agent-{agent}.jsonl").write_bytes(jsonl(work))
    Archive.ingest(tmp_path / "archive", [tmp_path / "home"])
    hub = MemoryHub(tmp_path / "raw")
    push_project(tmp_path / "archive", hub)
    with open_engine("postgresql") as make:
        store, _ = make()
        hub.use_store(store)
        push_project(tmp_path / "archive", hub)
        derive_all(store, hub.objects)
        reader = store.open_reader(AccessScope(person="ann"), hub.objects)
        with (
            Archive.open(tmp_path / "archive") as local_archive,
            Archive.from_store(reader) as shared_archive,
        ):
            (local,) = local_archive.sessions(include_empty=True)
            (shared,) = shared_archive.sessions(include_empty=True)
            assert (shared.id, shared.agent_count) == (id_, 1)
            assert local.agent_count == 1
            assert shared_archive.usage("model", now=NOW).total.tokens > 0
            assert (
                shared_archive.usage("model", now=NOW).total.tokens
                == local_archive.usage("model", now=NOW).total.tokens
            )
        store.close()
