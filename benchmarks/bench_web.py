"""Compare the speed of pages with agentsview, which serves the same home.

``python -m benchmarks.bench_web HOME --archive ARCHIVE`` serves the archive (made from the
home) and the same home with agentsview, both on this machine, and requests what people
look at: searches, and the start of sessions. First with one client, then with sixteen;
queries and sessions are the same for both, in the same order. In the series that say so,
every search and session is new to the servers. agentsview answers with JSON that a browser
still has to render, Bygones with the page. For a session, agentsview is asked for what its
page waits for before it shows messages (found by holding back each of its requests in
Chromium: the session, then its messages); for its messages alone; for everything that its
page requests about a session, compared with everything that ours requests; and for forty
messages, which its page never requests.
"""

from __future__ import annotations

import argparse
import os
import platform
import random
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from http.client import HTTPConnection
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote, urlsplit

from benchmarks.contenders import OURS, PEERS, ROOT, install
from bygones.archive import Archive

PEER = PEERS[0]
CLIENTS = (1, 16)
SEED = 7
WORDS = (
    *("ValueError", "raise", "socket", "timeout", "test", "assertEqual", "import"),
    *("module", "path", "file", "open", "encoding", "buffer", "thread", "lock"),
    *("queue", "async", "await", "class", "method", "return", "value", "key", "index"),
    *("error", "exception", "parse", "token", "string", "bytes", "format", "date"),
)


class Server(NamedTuple):
    """A server, and its address."""

    name: str
    port: int
    process: int
    cookie: str = ""

    def cpu_seconds(self) -> float:
        """Return the CPU time that the server has taken, in all its threads."""
        fields = Path(f"/proc/{self.process}/stat").read_text().rpartition(")")[2]
        user, system = fields.split()[11:13]
        return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


class Times(NamedTuple):
    """The times of a series of requests."""

    per_second: float
    median: float
    p95: float
    cpu: float
    """CPU time of the server per request; unlike the others, the same under load."""
    failed: int


Page = tuple[str, ...]
"""The paths that are requested for a page."""


class Question(NamedTuple):
    """A kind of page: what is requested in a series, by its number."""

    title: str
    items: Callable[[int], Sequence[str]]
    ours: tuple[str, ...]
    """The paths in Bygones, with ``{}`` for the item."""
    theirs: tuple[str, ...]
    is_known: bool = False
    """Whether it was requested before."""

    def pages(self, server: Server, number: int) -> list[Page]:
        """Return the pages that are requested from a server in a series."""
        paths = self.ours if server.cookie else self.theirs
        return [
            tuple(path.format(quote(one)) for path in paths)
            for one in self.items(number)
        ]


def questions(archive: Path, count: int) -> list[Question]:
    """Return the kinds of pages: searches, and sessions of every length."""
    rng = random.Random(SEED)  # noqa: S311 (repeatable)
    with Archive.open(archive) as reader:
        ids = [one.id for one in reader.sessions() if one.message_count]
    rng.shuffle(ids)

    def searches(number: int) -> list[str]:
        words_rng = random.Random(number)  # noqa: S311 (repeatable)
        return [
            " ".join(words_rng.sample(WORDS, words_rng.randint(1, 3)))
            for _ in range(count)
        ]

    def sessions(number: int) -> list[str]:
        return [ids[(number * count + at) % len(ids)] for at in range(count)]

    def again(_: int) -> list[str]:
        return sessions(-1)

    def others(number: int) -> list[str]:
        return sessions(number + _APART)

    def third(number: int) -> list[str]:
        return sessions(number + 2 * _APART)

    def fourth(number: int) -> list[str]:
        return sessions(number + 3 * _APART)

    session, known = ("/session/{}",), "session, again"
    first = "session, first time"
    whole = (*session, "/session/{}/outline", "/session/{}/timeline")
    return [
        Question("search", searches, ("/search/answer?q={}",), _SEARCH),
        Question(f"{first}, until messages are shown", fourth, session, _NEEDED),
        Question(f"{known}, until messages are shown", again, session, _NEEDED, True),
        Question(f"{first}, messages alone", sessions, session, _MESSAGES),
        Question(f"{known}, messages alone", again, session, _MESSAGES, True),
        Question(f"{first}, all requests", third, whole, _WHOLE),
        Question(f"{known}, all requests", again, whole, _WHOLE, True),
        Question(f"{first}, 40 messages of agentsview", others, session, _FORTY),
        Question(f"{known}, 40 messages of agentsview", again, session, _FORTY, True),
    ]


_APART = 6
"""Distance between the series of two questions, so that they request different items.

With up to three repetitions, four questions need 24 times as many sessions as requests
per series; with fewer sessions, some pages are not new to the servers.
"""
_SEARCH = ("/api/v1/search?q={}&limit=10",)
_MESSAGES = ("/api/v1/sessions/{}/messages?from=0&limit=1000&direction=asc",)
_NEEDED = ("/api/v1/sessions/{}", *_MESSAGES)
_WHOLE = (
    *_NEEDED,
    *(
        f"/api/v1/sessions/{{}}/{end}"
        for end in ("children", "timing", "pins", "directory", "usage?rollup=true")
    ),
)
"""What its page requests about one session, without streams of events.

Its list of sessions and some twenty other requests for any page are left out.
"""
_FORTY = ("/api/v1/sessions/{}/messages?limit=40",)


def timed(server: Server, pages: Sequence[Page], clients: int) -> Times:
    """Request pages with concurrent clients, and return the times."""
    share = [pages[at::clients] for at in range(clients)]
    cpu = server.cpu_seconds()
    started = time.perf_counter()
    with ThreadPoolExecutor(clients) as pool:
        each = list(pool.map(lambda some: _request_all(server, some), share))
    wall = time.perf_counter() - started
    took = sorted(seconds for some, _ in each for seconds in some)
    failed = sum(count for _, count in each)
    last = min(round(len(took) * 0.95), len(took) - 1)
    cpu = (server.cpu_seconds() - cpu) / len(took)
    return Times(len(took) / wall, took[len(took) // 2], took[last], cpu, failed)


def _request_all(server: Server, pages: Sequence[Page]) -> tuple[list[float], int]:
    connection = HTTPConnection("127.0.0.1", server.port, timeout=60)
    headers = {"Cookie": server.cookie} if server.cookie else {}
    took, failed = [], 0
    for page in pages:
        started = time.perf_counter()
        for path in page:
            connection.request("GET", path, headers=headers)
            answer = connection.getresponse()
            answer.read()
            failed += answer.status != 200  # noqa: PLR2004 (HTTP OK)
        took.append(time.perf_counter() - started)
    connection.close()
    return took, failed


@contextmanager
def ours(archive: Path, home: Path | None = None) -> Iterator[Server]:
    """Serve the archive with this checkout, and follow a home."""
    command = [sys.executable, "-m", "bygones", "serve", "--no-browser"]
    env = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    command += ["--archive", str(archive)]
    command += ["--home", str(home)] if home else []
    with _running(command, env) as running:
        assert running.stdout is not None
        lines = (line.strip() for line in running.stdout)
        link = urlsplit(next(line for line in lines if line.startswith("http")))
        port = link.port or 0
        connection = HTTPConnection("127.0.0.1", port, timeout=30)
        connection.request("GET", f"{link.path}?{link.query}")
        response = connection.getresponse()
        cookie = (response.getheader("set-cookie") or "").partition(";")[0]
        connection.close()
        yield Server(OURS.name, port, running.pid, cookie)


@contextmanager
def theirs(home: Path, scratch: Path) -> Iterator[Server]:
    """Serve the home with the peer, which has imported it before."""
    program = str(scratch / "programs" / PEER.name / "bin" / PEER.name)
    folder = scratch / "rooms" / PEER.name
    folder.mkdir(parents=True, exist_ok=True)
    if not (folder / ".claude").exists():
        (folder / ".claude").symlink_to(home, target_is_directory=True)
    env = {"HOME": str(folder), "PATH": os.defpath, "LANG": "C.UTF-8", **PEER.env}
    if not (folder / ".agentsview" / "sessions.db").exists():
        subprocess.run([program, "sync"], env=env, check=True, capture_output=True)
    command = [program, "serve", "--no-browser", "--no-sync", "--no-update-check"]
    with _running([*command, "--port", "0"], env) as running:
        assert running.stdout is not None
        for line in running.stdout:
            found = re.search(r"listening at http://[^:]+:(\d+)", line)
            if found:
                break
        else:
            raise RuntimeError("the peer does not listen")
        yield Server(PEER.name, int(found[1]), running.pid)


@contextmanager
def _running(
    command: Sequence[str], env: dict[str, str]
) -> Iterator[subprocess.Popen[str]]:
    running = subprocess.Popen(
        command, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    try:
        yield running
    finally:
        running.terminate()
        running.wait(20)


def report(
    kinds: Sequence[Question], servers: Sequence[Server], turns: int
) -> Iterator[str]:
    """Yield the lines of the tables; every turn requests from both, one after the other."""
    for question in kinds:
        yield f"\n## {question.title}\n"
        yield (
            "| clients | program | requests/s | median ms | p95 ms "
            "| share of agentsview | CPU ms per request |"
        )
        yield "|---:|---|---:|---:|---:|---:|---:|"
        if question.is_known:
            for server in servers:
                timed(server, question.pages(server, 0), 1)
        number = 0
        for clients in CLIENTS:
            best: dict[str, Times] = {}
            for _ in range(turns):
                for server in servers:
                    found = timed(server, question.pages(server, number), clients)
                    other = best.get(server.name, found)
                    best[server.name] = min(found, other, key=_p95)
                number += 1
            yield from _rows(clients, best)


def _rows(clients: int, best: dict[str, Times]) -> Iterator[str]:
    for name, one in best.items():
        ratio = one.p95 / best[PEER.name].p95
        failed = f" ({one.failed} failed)" if one.failed else ""
        yield (
            f"| {clients} | {name}{failed} | {one.per_second:,.0f} "
            f"| {one.median * 1e3:.1f} | {one.p95 * 1e3:.1f} | {ratio:.2f} "
            f"| {one.cpu * 1e3:.1f} |"
        )


def _p95(times: Times) -> float:
    return times.p95


def main(arguments: list[str]) -> int:
    """Measure, print the report, and save it if requested."""
    description = "Request the same pages from Bygones and agentsview."
    parser = option_parser("bench_web", description, count=100)
    parser.add_argument("--repeat", type=int, default=2, metavar="N", help="best of N")
    parser.add_argument("--only", default="", metavar="TEXT", help="series with TEXT")
    options = parser.parse_args(arguments)
    options.scratch.mkdir(parents=True, exist_ok=True)
    version = install(PEER, options.scratch)
    with ours(options.archive) as us, theirs(options.home, options.scratch) as them:
        chosen = questions(options.archive, options.count)
        for server in (us, them):
            timed(server, chosen[0].pages(server, -1), 1)
        lines = [
            f"# Pages · Python {platform.python_version()}, {platform.machine()}\n",
            (
                f"{options.count} requests per series, best of {options.repeat}; "
                f"{os.cpu_count()} cores, {PEER.name} {version}, both on 127.0.0.1."
            ),
            *report(
                [one for one in chosen if options.only in one.title],
                (us, them),
                options.repeat,
            ),
        ]
    write_report(lines, options.out)
    return 0


def write_report(lines: Sequence[str], out: Path | None) -> None:
    """Print a report, and save it if requested."""
    print(*lines, sep="\n")
    if out:
        out.write_text("\n".join(lines) + "\n", "utf-8")


def option_parser(
    name: str, description: str, *, count: int
) -> argparse.ArgumentParser:
    """Return the option parser of a benchmark that requests pages from both programs."""
    parser = argparse.ArgumentParser(
        prog=f"python -m benchmarks.{name}", description=description
    )
    parser.add_argument("home", type=Path, metavar="HOME", help="with projects/ in it")
    parser.add_argument(
        "--archive", type=Path, required=True, help="made from the home"
    )
    parser.add_argument("--count", type=int, default=count, help="pages to request")
    parser.add_argument(
        "--scratch", type=Path, default=Path(tempfile.gettempdir(), "bygones-bench")
    )
    parser.add_argument("--out", type=Path, metavar="FILE", help="save the report")
    return parser


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
