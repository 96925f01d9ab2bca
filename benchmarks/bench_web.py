"""Compare the speed of pages with agentsview, which serves the same home.

``python -m benchmarks.bench_web HOME --archive ARCHIVE`` serves the archive (made from the
home) and the same home with agentsview, both on this machine, and requests what people
look at: searches, and the start of sessions. First with one client, then with sixteen;
queries and sessions are the same for both, in the same order. In the series that say so,
every search and session is new to the servers. agentsview answers with JSON that a browser
still has to render, Bygones with the page. For a session, agentsview is asked for what its
own page requests, and for forty messages, which its page never requests.
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
    """Who answers, and where."""

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
    """What a series of requests took."""

    a_second: float
    median: float
    p95: float
    cpu: float
    """CPU time of the server per request; unlike the others, the same under load."""
    failed: int


class Question(NamedTuple):
    """Something that is looked at: what is asked for in a series, by its number."""

    title: str
    asked: Callable[[int], Sequence[str]]
    ours: str
    """The path of ours, with ``{}`` for what is asked for."""
    theirs: str
    is_known: bool = False
    """Whether it was asked for before."""

    def paths(self, server: Server, number: int) -> list[str]:
        """Return what a server is asked for in a series."""
        path = self.ours if server.cookie else self.theirs
        return [path.format(quote(one)) for one in self.asked(number)]


def questions(archive: Path, count: int) -> list[Question]:
    """Return what is asked: searches, and sessions of every length."""
    chosen = random.Random(SEED)  # noqa: S311 (the same for everybody)
    with Archive.open(archive) as opened:
        ids = [one.id for one in opened.sessions() if one.message_count]
    chosen.shuffle(ids)

    def searches(number: int) -> list[str]:
        drawn = random.Random(number)  # noqa: S311 (the same for everybody)
        return [
            " ".join(drawn.sample(WORDS, drawn.randint(1, 3))) for _ in range(count)
        ]

    def sessions(number: int) -> list[str]:
        return [ids[(number * count + at) % len(ids)] for at in range(count)]

    def again(_: int) -> list[str]:
        return sessions(-1)

    def others(number: int) -> list[str]:
        return sessions(number + _APART)

    session, known = "/session/{}", "session, again"
    first = "session, first time"
    return [
        Question("search", searches, "/search/answer?q={}", _SEARCH),
        Question(first, sessions, session, _MESSAGES),
        Question(known, again, session, _MESSAGES, True),
        Question(f"{first}, 40 messages of agentsview", others, session, _FORTY),
        Question(f"{known}, 40 messages of agentsview", again, session, _FORTY, True),
    ]


_APART = 10
"""Series that are between those of two questions: neither asks for the same."""
_SEARCH = "/api/v1/search?q={}&limit=10"
_MESSAGES = "/api/v1/sessions/{}/messages?from=0&limit=1000&direction=asc"
"""What its page asks for to show a session, among some twenty other questions."""
_FORTY = "/api/v1/sessions/{}/messages?limit=40"


def timed(server: Server, paths: Sequence[str], clients: int) -> Times:
    """Ask for paths, so many at once, and return what that took."""
    share = [paths[at::clients] for at in range(clients)]
    cpu = server.cpu_seconds()
    begun = time.perf_counter()
    with ThreadPoolExecutor(clients) as pool:
        each = list(pool.map(lambda some: _asked(server, some), share))
    wall = time.perf_counter() - begun
    took = sorted(seconds for some, _ in each for seconds in some)
    failed = sum(count for _, count in each)
    last = min(round(len(took) * 0.95), len(took) - 1)
    cpu = (server.cpu_seconds() - cpu) / len(took)
    return Times(len(took) / wall, took[len(took) // 2], took[last], cpu, failed)


def _asked(server: Server, paths: Sequence[str]) -> tuple[list[float], int]:
    connection = HTTPConnection("127.0.0.1", server.port, timeout=60)
    headers = {"Cookie": server.cookie} if server.cookie else {}
    took, failed = [], 0
    for path in paths:
        begun = time.perf_counter()
        connection.request("GET", path, headers=headers)
        answer = connection.getresponse()
        answer.read()
        took.append(time.perf_counter() - begun)
        failed += answer.status != 200  # noqa: PLR2004 (that it was answered)
    connection.close()
    return took, failed


@contextmanager
def ours(archive: Path) -> Iterator[Server]:
    """Serve the archive with this checkout."""
    words = [sys.executable, "-m", "bygones", "serve", "--no-browser"]
    env = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    with _running([*words, "--archive", str(archive)], env) as running:
        assert running.stdout is not None
        lines = (line.strip() for line in running.stdout)
        link = urlsplit(next(line for line in lines if line.startswith("http")))
        port = link.port or 0
        connection = HTTPConnection("127.0.0.1", port, timeout=30)
        connection.request("GET", f"{link.path}?{link.query}")
        told = connection.getresponse()
        cookie = (told.getheader("set-cookie") or "").partition(";")[0]
        connection.close()
        yield Server(OURS.name, port, running.pid, cookie)


@contextmanager
def theirs(home: Path, scratch: Path) -> Iterator[Server]:
    """Serve the home with the peer, which has taken it in before."""
    program = str(scratch / "programs" / PEER.name / "bin" / PEER.name)
    room = scratch / "rooms" / PEER.name
    room.mkdir(parents=True, exist_ok=True)
    if not (room / ".claude").exists():
        (room / ".claude").symlink_to(home, target_is_directory=True)
    env = {"HOME": str(room), "PATH": os.defpath, "LANG": "C.UTF-8", **PEER.env}
    if not (room / ".agentsview" / "sessions.db").exists():
        subprocess.run([program, "sync"], env=env, check=True, capture_output=True)
    words = [program, "serve", "--no-browser", "--no-sync", "--no-update-check"]
    with _running([*words, "--port", "0"], env) as running:
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
    words: Sequence[str], env: dict[str, str]
) -> Iterator[subprocess.Popen[str]]:
    running = subprocess.Popen(
        words, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    try:
        yield running
    finally:
        running.terminate()
        running.wait(20)


def report(
    asked: Sequence[Question], servers: Sequence[Server], turns: int
) -> Iterator[str]:
    """Yield the lines of the tables; every turn asks both, one after the other."""
    for question in asked:
        yield f"\n## {question.title}\n"
        yield (
            "| clients | program | requests/s | median ms | p95 ms "
            "| share of agentsview | CPU ms per request |"
        )
        yield "|---:|---|---:|---:|---:|---:|---:|"
        if question.is_known:
            for server in servers:
                timed(server, question.paths(server, 0), 1)
        number = 0
        for clients in CLIENTS:
            best: dict[str, Times] = {}
            for _ in range(turns):
                for server in servers:
                    found = timed(server, question.paths(server, number), clients)
                    other = best.get(server.name, found)
                    best[server.name] = min(found, other, key=_p95)
                number += 1
            yield from _rows(clients, best)


def _rows(clients: int, best: dict[str, Times]) -> Iterator[str]:
    for name, one in best.items():
        ratio = one.p95 / best[PEER.name].p95
        failed = f" ({one.failed} failed)" if one.failed else ""
        yield (
            f"| {clients} | {name}{failed} | {one.a_second:,.0f} "
            f"| {one.median * 1e3:.1f} | {one.p95 * 1e3:.1f} | {ratio:.2f} "
            f"| {one.cpu * 1e3:.1f} |"
        )


def _p95(times: Times) -> float:
    return times.p95


def main(words: list[str]) -> int:
    """Measure, print the report, and keep it if asked to."""
    told = "Request the same pages from Bygones and agentsview."
    parser = options("bench_web", told, count=100)
    parser.add_argument("--repeat", type=int, default=2, metavar="N", help="best of N")
    asked = parser.parse_args(words)
    asked.scratch.mkdir(parents=True, exist_ok=True)
    version = install(PEER, asked.scratch)
    with ours(asked.archive) as us, theirs(asked.home, asked.scratch) as them:
        chosen = questions(asked.archive, asked.count)
        for server in (us, them):
            timed(server, chosen[0].paths(server, -1), 1)
        lines = [
            f"# Pages · Python {platform.python_version()}, {platform.machine()}\n",
            (
                f"{asked.count} requests per series, best of {asked.repeat}; "
                f"{os.cpu_count()} cores, {PEER.name} {version}, both on 127.0.0.1."
            ),
            *report(chosen, (us, them), asked.repeat),
        ]
    tell(lines, asked.out)
    return 0


def tell(lines: Sequence[str], out: Path | None) -> None:
    """Print a report, and keep it if asked to."""
    print(*lines, sep="\n")
    if out:
        out.write_text("\n".join(lines) + "\n", "utf-8")


def options(name: str, told: str, *, count: int) -> argparse.ArgumentParser:
    """Return the options of a program that asks for pages of ours and of a peer."""
    parser = argparse.ArgumentParser(
        prog=f"python -m benchmarks.{name}", description=told
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
