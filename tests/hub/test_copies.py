"""Two hosts with copies of one archive: sessions are there once, with all lines."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from bygones.archive import Archive
from bygones.team.contract import AccessScope
from bygones.team.worker import derive_all
from tests.build import Home, jsonl, prompt, reply, session_id, thread
from tests.hub.sending import KEY, NOW, PROJECT, MemoryHub, sent, worked
from tests.team.engines import opened


def go_on(home: Home, folder: Path, said: str, number: int) -> None:
    """Go on with a session that both have, and begin one that the other has not."""
    for name in (session_id(0), session_id(number)):
        path = home.path / "projects" / KEY / f"{name}.jsonl"
        records = thread(
            prompt(f"{said} {name}", cwd=PROJECT, sessionId=name),
            reply(f"so be it {said}", cwd=PROJECT, sessionId=name),
            start=number * 1000,
        )
        with path.open("ab") as file:
            file.write(jsonl(records))
    Archive.ingest(folder, [home.path])


def test_copies_of_an_archive_send_each_session_once(tmp_path: Path) -> None:
    one, folder = worked(tmp_path / "one")
    shutil.copytree(tmp_path / "one", tmp_path / "other")
    copy = tmp_path / "other" / "archive"
    other = Home(tmp_path / "other" / ".claude")
    hub = MemoryHub(tmp_path / "raw")
    with opened("postgresql") as make:
        store, _ = make()
        hub.use(store)
        for place, host in ((folder, "one"), (copy, "other")):
            sent(place, hub, host=host)
        go_on(one, folder, "walnut", 10)
        go_on(other, copy, "hazel", 20)
        for _ in range(2):
            for place, host in ((folder, "one"), (copy, "other")):
                sent(place, hub, host=host)
        derive_all(store, hub.objects)

        with Archive.from_store(
            store.open_reader(AccessScope(person="ann"), hub.objects)
        ) as team:
            names = [listed.id for listed in team.sessions(include_empty=True)]
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
    own, agent = session_id(1), "a1b2c3d4e5f60718a"
    place: dict[str, Any] = {"cwd": PROJECT, "sessionId": own}
    main = thread(prompt("find the leak", **place), reply("found", **place))
    work = thread(
        prompt("look for it", **place, agentId=agent, isSidechain=True),
        reply("it is in the pool", **place, agentId=agent, isSidechain=True),
        start=100,
    )
    home = tmp_path / "home" / folder
    (home / name / "subagents").mkdir(parents=True)
    (home / f"{name}.jsonl").write_bytes(jsonl(main))
    (home / name / "subagents" / f"agent-{agent}.jsonl").write_bytes(jsonl(work))
    Archive.ingest(tmp_path / "archive", [tmp_path / "home"])
    hub = MemoryHub(tmp_path / "raw")
    sent(tmp_path / "archive", hub)
    with opened("postgresql") as make:
        store, _ = make()
        hub.use(store)
        sent(tmp_path / "archive", hub)
        derive_all(store, hub.objects)
        reader = store.open_reader(AccessScope(person="ann"), hub.objects)
        with (
            Archive.open(tmp_path / "archive") as here,
            Archive.from_store(reader) as there,
        ):
            (local,) = here.sessions(include_empty=True)
            (shared,) = there.sessions(include_empty=True)
            assert (shared.id, shared.agent_count) == (own, 1)
            assert local.agent_count == 1
            assert there.usage("model", now=NOW).total.tokens > 0
            assert (
                there.usage("model", now=NOW).total.tokens
                == here.usage("model", now=NOW).total.tokens
            )
        store.close()
