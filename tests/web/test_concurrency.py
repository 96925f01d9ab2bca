"""Many and slow requests during ingestion."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from http.client import HTTPConnection
from pathlib import Path
from threading import Event, Thread
from urllib.parse import urlsplit

from bygones.archive import Archive
from bygones.web.pool import ArchivePool
from bygones.web.server import ServerConfig, WebServer
from tests.build import prompt, reply, session_id, thread
from tests.web.archives import LONG, PLAIN, WebArchive, build_archive

READERS = 200
PATHS = ("/", f"/session/{PLAIN}", f"/session/{LONG}", "/search/answer?q=lines")


@contextmanager
def serving(web_archive: WebArchive) -> Iterator[tuple[int, str]]:
    """Start a server and yield its port and cookie."""
    links: list[str] = []
    server = WebServer(ServerConfig(folder=web_archive.folder), links.append)
    running = Thread(target=server.run, daemon=True)
    running.start()
    try:
        link = urlsplit(links[0])
        status, cookie, _ = query(link.port or 0, f"{link.path}?{link.query}")
        assert status == 200
        yield link.port or 0, cookie.partition(";")[0]
    finally:
        server.stop()
        running.join(20)


def query(port: int, path: str, cookie: str = "") -> tuple[int, str, bytes]:
    connection = HTTPConnection("127.0.0.1", port, timeout=60)
    try:
        connection.request("GET", path, headers={"Cookie": cookie} if cookie else {})
        answer = connection.getresponse()
        return answer.status, answer.getheader("set-cookie") or "", answer.read()
    finally:
        connection.close()


def test_two_hundred_readers_during_ingestion(tmp_path: Path) -> None:
    web_archive = build_archive(tmp_path)
    ended = Event()
    written: list[int] = []

    def write() -> None:
        number = 100
        while not ended.is_set():
            number += 1
            records = thread(prompt(f"New {number}"), reply(f"Said {number}"))
            web_archive.home.session(session_id(number), records)
            Archive.ingest(web_archive.folder, [web_archive.home.path], lock_timeout=30)
            written.append(number)

    writer = Thread(target=write)
    with serving(web_archive) as (port, cookie), ThreadPoolExecutor(READERS) as pool:
        writer.start()
        paths = [PATHS[at % len(PATHS)] for at in range(READERS)]
        answers = list(pool.map(lambda path: query(port, path, cookie), paths))
        ended.set()
        writer.join(60)

    assert {status for status, _, _ in answers} == {200}
    assert all(body for _, _, body in answers)
    assert written


def test_slow_client_blocks_no_other(tmp_path: Path) -> None:
    with serving(build_archive(tmp_path)) as (port, cookie):
        slow = [socket.create_connection(("127.0.0.1", port)) for _ in range(50)]
        try:
            for one in slow:
                one.sendall(b"GET / HTTP/1.1\r\nHost: 127.0.0.1")

            assert query(port, "/about", cookie)[0] == 200
        finally:
            for one in slow:
                one.close()


def test_next_request_sees_imported_messages(tmp_path: Path) -> None:
    web_archive = build_archive(tmp_path)
    readers = ArchivePool(web_archive.folder)
    with readers.session(PLAIN) as open_session:
        before = open_session.summary.message_count
    path = web_archive.home.path / "projects" / "-work-demo" / f"{PLAIN}.jsonl"
    text = path.read_bytes()
    more = thread(prompt("Once more"), reply("Yes"), start=900)
    web_archive.home.session(PLAIN, more)
    path.write_bytes(text + path.read_bytes())
    Archive.ingest(web_archive.folder, [web_archive.home.path])
    readers.invalidate()

    with readers.session(PLAIN) as open_session:
        assert open_session.summary.message_count != before
    readers.close()


def test_page_is_cached_until_its_session_changes(tmp_path: Path) -> None:
    readers = ArchivePool(tmp_path)
    readers.cache_page("/a", "as it was", b"made")

    assert readers.cached_page("/a", "as it was") == b"made"
    assert readers.cached_page("/a", "as it is") is None
    assert readers.cached_page("/b", "as it was") is None


def test_page_cache_has_a_limit(tmp_path: Path) -> None:
    readers = ArchivePool(tmp_path)
    for number in range(60):
        readers.cache_page(f"/{number}", 0, b"x" * 1_000_000)

    assert readers.cached_page("/0", 0) is None
    assert readers.cached_page("/59", 0) is not None
