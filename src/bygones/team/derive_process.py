"""Derive uploads in another process, with limited memory and time.

Uploads are untrusted: some bytes may need far more memory or time to derive than others
of the same size. The process says which sessions it is going to derive. If it dies or
takes too long, they are derived one by one, and the one that fails is set aside.

A hub has two of these processes, so that a long session of one person does not delay
those of others. The first leaves sessions that are long, or fail, to the second.
"""

from __future__ import annotations

import os
import selectors
import sys
from collections.abc import Sequence
from contextlib import closing, suppress
from subprocess import PIPE, Popen
from threading import Thread
from time import monotonic, sleep
from typing import IO

import msgspec
from msgspec import Struct
from msgspec.structs import replace

with suppress(ImportError):  # on Windows
    import resource

from bygones.errors import BygonesError
from bygones.team.access import open_hub_stores, open_store
from bygones.team.worker import (
    MAX_QUICK_BYTES,
    DeriveSelection,
    FailedFamilies,
    derive_pending,
)

__all__ = ["DeriveLimits", "DeriveProcess", "HubDerivation"]

_MAX_RESTARTS = 1_000
"""Deaths of the process in one derivation, after which it is tried again later."""
_PARENT_CHECK_SECONDS = 0.5
_BACKGROUND_NICENESS = 10


class DeriveLimits(Struct, frozen=True, kw_only=True):
    """What deriving the sessions of one group may take."""

    memory_bytes: int = 4 * 1024**3
    seconds: float = 600.0
    max_bytes: int | None = None
    """Of sessions, with everything that is derived together with them."""


class _Start(Struct, frozen=True):
    """What the process needs to know; sent to it as its first line."""

    store: str
    raw: str
    memory_bytes: int
    is_background: bool


class _Order(Struct, frozen=True):
    """A request to derive what is pending."""

    failed: dict[int, dict[int, int]]
    """Sources to skip, with the revisions of their families."""
    alone: tuple[int, ...]
    """Sources that must be derived one by one."""
    skipped_people: tuple[str, ...] = ()
    max_bytes: int | None = None
    given_up: tuple[int, ...] = ()
    only: dict[int, dict[int, int]] | None = None
    """The only sources to derive, with the revisions of their families."""

    def selection(self) -> DeriveSelection:
        only = None
        if self.only is not None:
            only = FailedFamilies()
            only.replace(self.only)
        return DeriveSelection(
            alone=frozenset(self.alone),
            skipped_people=frozenset(self.skipped_people),
            max_bytes=self.max_bytes,
            given_up=frozenset(self.given_up),
            only=only,
        )


class _Report(Struct, frozen=True):
    """A line from the process: what it starts to derive, or the result."""

    sessions: list[dict[int, int]] = []
    """Sources of each session that is derived next, with their revisions."""
    person: str = ""
    """Whose sessions these are."""
    written: int | None = None
    failed: dict[int, dict[int, int]] = {}
    damaged: list[int] = []
    """Sources whose bytes are missing or differ."""
    error: str = ""


class DeriveProcess:
    """Derives what is pending on a hub; starts the process when it is needed."""

    def __init__(
        self,
        store: str,
        raw: str,
        failed: FailedFamilies,
        limits: DeriveLimits,
        *,
        only: FailedFamilies | None = None,
    ) -> None:
        is_background = only is not None
        self._start = _Start(store, raw, limits.memory_bytes, is_background)
        self._failed = failed
        self._only = only
        self._limits = limits
        self._alone: set[int] = set()
        self._child: Popen[bytes] | None = None
        self.follower: DeriveProcess | None = None
        """The process that derives what this one leaves."""
        self.person = ""
        """Whose sessions are being derived."""
        self.damaged: frozenset[int] = frozenset()
        """Sources whose bytes were missing or differed the last time."""
        self._is_stopped = False

    def derive(self, skipped_people: frozenset[str] = frozenset()) -> bool:
        """Derive what is pending; return whether something was written."""
        if self._only is not None and not len(self._only):
            return False
        try:
            return self._derive(skipped_people)
        finally:
            self.person = ""

    def _derive(self, skipped_people: frozenset[str]) -> bool:
        for _ in range(_MAX_RESTARTS):
            report = self._derive_once(skipped_people)
            if report is None:
                continue
            self._failed.replace(report.failed)
            self.damaged = frozenset(report.damaged)
            if report.error:
                raise RuntimeError(report.error)
            self._alone.clear()
            return bool(report.written)
        return False

    def _make_order(self, skipped_people: frozenset[str]) -> _Order:
        follower = self.follower
        busy = {follower.person} if follower is not None and follower.person else set()
        return _Order(
            self._failed.families,
            tuple(self._alone),
            tuple(skipped_people | busy),
            self._limits.max_bytes,
            () if follower is None else (*follower.failed.families, *follower.damaged),
            None if self._only is None else self._only.families,
        )

    @property
    def failed(self) -> FailedFamilies:
        return self._failed

    def _derive_once(self, skipped_people: frozenset[str]) -> _Report | None:
        """Return the result, or set aside what the process could not derive."""
        sessions: Sequence[dict[int, int]] = ()
        try:
            child = self._running()
            if self._is_stopped:
                child.kill()
            _send(child.stdin, self._make_order(skipped_people))
            while True:
                report = self._receive(child)
                if report.written is not None or report.error:
                    return report
                sessions, self.person = report.sessions, report.person
        except (OSError, EOFError, TimeoutError, msgspec.MsgspecError):
            self.close()
        if self._is_stopped:
            raise RuntimeError("the hub stops")
        if not sessions:
            raise RuntimeError("the process that derives sessions does not start")
        if len(sessions) == 1:
            self._failed.add(sessions[0], sessions[0])
        else:
            self._alone.update(*sessions)
        return None

    def _receive(self, child: Popen[bytes]) -> _Report:
        if child.stdout is None:
            raise EOFError
        descriptor = child.stdout.fileno()
        deadline = monotonic() + self._limits.seconds
        line = b""
        with selectors.DefaultSelector() as selector:
            selector.register(descriptor, selectors.EVENT_READ)
            while not line.endswith(b"\n"):
                if not selector.select(max(deadline - monotonic(), 0)):
                    raise TimeoutError
                part = os.read(descriptor, 1 << 16)
                if not part:
                    raise EOFError
                # The process writes the next line only after the next order, or
                # after a group: several lines may have arrived together.
                line += part
        return msgspec.json.decode(line.splitlines()[-1], type=_Report)

    def _running(self) -> Popen[bytes]:
        if self._child is None:
            self._child = Popen(  # noqa: S603 (our own interpreter)
                [sys.executable, "-P", "-m", __name__, str(os.getpid())],
                stdin=PIPE,
                stdout=PIPE,
                start_new_session=True,
            )
            _send(self._child.stdin, self._start)
        return self._child

    def stop(self) -> None:
        """End what is being derived, from any thread; nothing is derived after that."""
        self._is_stopped = True
        child = self._child
        if child is not None:
            child.kill()

    def close(self) -> None:
        """End the process."""
        child, self._child = self._child, None
        if child is None:
            return
        child.kill()
        child.wait()
        for pipe in (child.stdin, child.stdout):
            if pipe is not None:
                with suppress(OSError):
                    pipe.close()


_QUICK_SECONDS = 10.0
"""For how long the sessions of a group may delay those of others."""


class HubDerivation:
    """The two processes of a hub: one for most sessions, one for those that take long."""

    def __init__(self, store: str, raw: str, limits: DeriveLimits) -> None:
        left, self.failed = FailedFamilies(), FailedFamilies()
        quick_limits = replace(
            limits,
            seconds=min(limits.seconds, _QUICK_SECONDS),
            max_bytes=MAX_QUICK_BYTES,
        )
        self.quick = DeriveProcess(store, raw, left, quick_limits)
        self.long = DeriveProcess(store, raw, self.failed, limits, only=left)
        self.quick.follower = self.long

    def stop(self) -> None:
        """End what is being derived, from any thread."""
        self.quick.stop()
        self.long.stop()

    def close(self) -> None:
        """End both processes."""
        self.quick.close()
        self.long.close()


def _send(pipe: IO[bytes] | None, message: Struct) -> None:
    if pipe is None:
        raise EOFError
    pipe.write(msgspec.json.encode(message) + b"\n")
    pipe.flush()


def _limit_memory(size: int) -> None:
    with suppress(NameError, ValueError, OSError):
        hard = resource.getrlimit(resource.RLIMIT_AS)[1]
        if hard != resource.RLIM_INFINITY:
            size = min(size, hard)
        resource.setrlimit(resource.RLIMIT_AS, (size, hard))


def _exit_with_parent(parent: int) -> None:
    """Exit when the hub is gone, also in the middle of a group that takes minutes.

    Otherwise it holds locks that the process of the next hub needs.
    """
    while os.getppid() == parent:
        sleep(_PARENT_CHECK_SECONDS)
    os._exit(1)


def _serve(orders: IO[bytes], reports: IO[bytes]) -> None:
    start = msgspec.json.decode(orders.readline(), type=_Start)
    _limit_memory(start.memory_bytes)
    if start.is_background:
        with suppress(AttributeError, OSError):  # on Windows
            os.nice(_BACKGROUND_NICENESS)
    failed = FailedFamilies()
    with (
        open_hub_stores(start.store, start.raw) as (_, blobs),
        closing(open_store(start.store)) as store,
    ):
        while line := orders.readline():
            order = msgspec.json.decode(line, type=_Order)
            failed.replace(order.failed)
            damaged: set[int] = set()
            error = ""
            written = 0
            try:
                written = derive_pending(
                    store,
                    blobs,
                    failed,
                    selection=order.selection(),
                    on_group=lambda person, group: _send(
                        reports, _Report(sessions=group, person=person)
                    ),
                    damaged=damaged,
                )
            except BygonesError as problem:
                error = f"{type(problem).__name__}: {problem}"
            report = _Report(
                written=written,
                failed=failed.families,
                damaged=sorted(damaged),
                error=error,
            )
            _send(reports, report)


if __name__ == "__main__":
    Thread(target=_exit_with_parent, args=(int(sys.argv[1]),), daemon=True).start()
    with suppress(KeyboardInterrupt, BrokenPipeError):
        _serve(sys.stdin.buffer, sys.stdout.buffer)
