"""What an operator sees of a hub: log, metrics, and whether it can answer."""

from __future__ import annotations

import errno
import os
import re
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from threading import Lock
from time import monotonic
from typing import Any, BinaryIO

import msgspec
from msgspec import Struct

from bygones.errors import BygonesError

_BUCKETS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
"""Upper bounds of request durations, in seconds."""
_PREFIX = "bygones_hub_"
METRICS_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class Metrics:
    """Counts requests, and prints them in the text format of Prometheus."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._requests: Counter[tuple[str, str, int]] = Counter()
        self._buckets: Counter[float] = Counter()
        self._seconds = 0.0
        self._values: Counter[str] = Counter()

    def observe(self, method: str, route: str, status: int, seconds: float) -> None:
        """Count a request. ``route`` names its kind, never a session."""
        with self._lock:
            self._requests[method, route, status] += 1
            self._seconds += seconds
            for bound in _BUCKETS:
                if seconds <= bound:
                    self._buckets[bound] += 1

    def add(self, name: str, amount: int = 1) -> None:
        """Add to a counter."""
        with self._lock:
            self._values[name] += amount

    def render(self, gauges: dict[str, float]) -> str:
        """Return all metrics; ``gauges`` are current values."""
        with self._lock:
            lines = list(self._lines(gauges))
        return "\n".join(lines) + "\n"

    def _lines(self, gauges: dict[str, float]) -> Iterator[str]:
        yield f"# TYPE {_PREFIX}requests_total counter"
        for (method, route, status), count in sorted(self._requests.items()):
            labels = f'method="{method}",route="{route}",status="{status}"'
            yield f"{_PREFIX}requests_total{{{labels}}} {count}"
        yield f"# TYPE {_PREFIX}request_seconds histogram"
        total = self._requests.total()
        for bound in _BUCKETS:
            count = self._buckets[bound]
            yield f'{_PREFIX}request_seconds_bucket{{le="{bound}"}} {count}'
        yield f'{_PREFIX}request_seconds_bucket{{le="+Inf"}} {total}'
        yield f"{_PREFIX}request_seconds_sum {self._seconds:.6f}"
        yield f"{_PREFIX}request_seconds_count {total}"
        for name, value in sorted(self._values.items()):
            yield f"# TYPE {_PREFIX}{name} counter"
            yield f"{_PREFIX}{name} {value}"
        for name, amount in sorted(gauges.items()):
            yield f"# TYPE {_PREFIX}{name} gauge"
            yield f"{_PREFIX}{name} {amount:g}"


_TOKEN = re.compile(rb"byg_[A-Za-z0-9_-]{8,}")


class LogEntry(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A line of the log: who did what, and with which result."""

    at: datetime
    event: str
    """``request``, ``tool`` for a tool of an agent, or ``sign-in``."""
    person: str = ""
    token: str = ""
    """The id of the token, by which it can be revoked."""
    client: str = ""
    method: str = ""
    path: str = ""
    query: str = ""
    status: int = 0
    ms: float = 0
    tool: str = ""
    arguments: Any = None


class AccessLog:
    """Writes one JSON object per line, to a private file or a stream.

    A file that was renamed is created again, so that it can be rotated. If an entry
    cannot be written, such as on a full disk, it is counted and the request continues;
    ``on_warning`` receives one sentence until an entry is written again.
    """

    def __init__(
        self,
        path: Path | None = None,
        stream: BinaryIO | None = None,
        *,
        metrics: Metrics | None = None,
        on_warning: Callable[[str], None] = lambda _warning: None,
    ) -> None:
        self._path = path
        self._stream = stream
        self._metrics = metrics or Metrics()
        self._on_warning = on_warning
        self._is_failing = False
        self._is_line_cut = False
        self._lock = Lock()
        if path is not None:
            os.close(self._open(path))  # fails now, and not with the first request

    @staticmethod
    def _open(path: Path) -> int:
        return os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)

    def write(self, **fields: Any) -> None:  # noqa: ANN401 (fields of an entry)
        """Write an entry with the current time."""
        if self._path is None and self._stream is None:
            return
        now = datetime.now(UTC)  # noqa: TID251 (an interface reads the clock)
        encoded = msgspec.json.encode(LogEntry(at=now, **fields))
        # A token may be pasted into an address or a query.
        line = _TOKEN.sub(rb"byg_[redacted]", encoded) + b"\n"
        with self._lock:
            try:
                self._write_line(line)
            except OSError as error:
                self._report(error)
            else:
                self._is_failing = False

    def _write_line(self, line: bytes) -> None:
        if self._stream is not None:
            self._stream.write(line)
            self._stream.flush()
        if self._path is not None:
            descriptor = self._open(self._path)
            try:
                content = b"\n" + line if self._is_line_cut else line
                written = os.write(descriptor, content)
            finally:
                os.close(descriptor)
            # A disk that is almost full takes a part of a line.
            self._is_line_cut = written < len(content)
            if self._is_line_cut:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def _report(self, error: OSError) -> None:
        self._metrics.add("log_entries_lost_total")
        if self._is_failing:
            return
        self._is_failing = True
        where = "the log" if self._path is None else f"the log {self._path}"
        reason = (error.strerror or str(error)).lower()
        # Standard error may be on the same full disk.
        with suppress(OSError):
            self._on_warning(
                f"warning: {where} cannot be written ({reason}); requests continue"
                " without it"
            )


_CHECK_SECONDS = 2.0
"""For how long the result of a check is used."""


class Readiness:
    """Whether a hub can answer: checks are run again after some seconds.

    A check returns why the hub is not ready, or nothing.
    """

    def __init__(self, *checks: Callable[[], str]) -> None:
        self._checks = checks
        self._lock = Lock()
        self._result: tuple[float, str] | None = None

    def reason(self) -> str:
        """Return why the hub is not ready; nothing if it is."""
        with self._lock:
            if self._result is None or monotonic() - self._result[0] > _CHECK_SECONDS:
                self._result = (monotonic(), self._run())
            return self._result[1]

    def _run(self) -> str:
        for check in self._checks:
            try:
                if reason := check():
                    return reason
            except BygonesError as error:
                return str(error)
            except OSError as error:
                return error.strerror or type(error).__name__
        return ""


class RateLimiter:
    """Limits requests per minute by key, such as a person; short bursts are allowed."""

    def __init__(self, per_minute: int, clock: Callable[[], float] = monotonic) -> None:
        self._per_second = per_minute / 60
        self._burst = max(per_minute / 2, 1.0)
        self._clock = clock
        self._levels: dict[str, tuple[float, float]] = {}
        """By key: how many requests are left, and when that was computed."""

    def wait_seconds(self, key: str) -> float:
        """Count a request; return how long to wait if it is one too many, or zero."""
        if not self._per_second:
            return 0.0
        now = self._clock()
        left, since = self._levels.get(key, (self._burst, now))
        left = min(left + (now - since) * self._per_second, self._burst)
        if left < 1:
            self._levels[key] = (left, now)
            return (1 - left) / self._per_second
        if len(self._levels) >= _MAX_KEYS:
            self._levels.clear()
        self._levels[key] = (left - 1, now)
        return 0.0


_MAX_KEYS = 100_000
