"""Generate sessions as Claude Code writes them, with everything that makes them hard.

Rewinds, parallel calls, late results, compactions, copies, queued prompts, agents,
missing parents, repeated ids and times. A seed gives the same session every time.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

from tests import build
from tests.build import PROJECT, SESSION, Written

__all__ = ["Lines", "cut_lines", "write_files", "write_steps"]

_MAIN = f"projects/{PROJECT}/{SESSION}.jsonl"
_AGENTS = f"projects/{PROJECT}/{SESSION}/subagents"
Lines = list[tuple[str, bytes]]
"""Files and lines that are appended to them, in order."""


def write_files(seed: int, steps: int) -> Lines:
    """Return the lines of a session and its agents, in the order of writing."""
    writer = _Writer(seed)
    for _ in range(steps):
        writer.step()
    return writer.lines


def write_steps(*names: str) -> Lines:
    """Return the lines of these actions."""
    writer = _Writer(0)
    for name in names:
        writer.step(name)
    return writer.lines


class _Writer:
    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)  # noqa: S311 (not for secrets)
        self.lines: Lines = []
        self._oddness = self.random.choice((0, 0.02, 0.1, 0.3))
        self._time = 0.0
        self._number = 0
        self._leaf: str | None = None
        self._records: list[Written] = []
        self._open_calls: list[tuple[str, str]] = []
        self._queued: list[str] = []
        self._agents: list[tuple[str, str, str | None]] = []
        self._fields: dict[str, Any] = {}
        self._model = build.MODEL

    def step(self, name: str | None = None) -> None:
        """Write what one action of the client writes, by default any."""
        odd = self.random.random() < self._oddness
        chosen = self.random.choice(_ODD_STEPS if odd else _STEPS)
        getattr(self, f"_{name or chosen}")()

    def _id(self, kind: str) -> str:
        self._number += 1
        return f"{kind}{self._number:08}-{self.random.getrandbits(32):08x}"

    def _uuid(self) -> str:
        return f"{self.random.getrandbits(32):08x}-0000-4000-8000-{self._tick():012}"

    def _tick(self) -> int:
        self._number += 1
        return self._number

    def _stamp(self) -> str:
        self._time += self.random.choice((1, 1, 7, 300))
        return build.moment(self._time)

    def _write(self, record: Written, path: str = _MAIN) -> None:
        self.lines.append((path, build.line(record) + b"\n"))

    def _add(self, record: Written, *, moves: bool = True) -> Written:
        """Write a record of the tree; the next one continues it."""
        record |= {"timestamp": self._stamp(), **self._fields}
        self._records.append(record)
        self._write(record)
        if moves:
            self._leaf = record["uuid"]
        return record

    def _place(self) -> dict[str, Any]:
        return {"uuid": self._uuid(), "parent": self._leaf}

    def _prompt(self) -> None:
        words = f"please {self.random.randrange(6)}"
        if self._queued and self.random.random() < 0.5:
            words = self._queued.pop(0)
        self._add(build.prompt(words, **self._place()))

    def _answer(self) -> None:
        message = self._id("msg_01AbCdEfGhIjKlMn")
        for _ in range(self.random.randint(1, 3)):
            usage = {"input_tokens": 3, "output_tokens": self.random.randrange(99)}
            self._add(
                build.reply(
                    f"well {self._tick()}",
                    message_id=message,
                    model=self._model,
                    usage=usage,
                    **self._place(),
                )
            )

    def _call(self) -> None:
        call = self._use_tool()
        self._result(call)

    def _use_tool(self, message: str | None = None) -> tuple[str, str]:
        id_ = self._id("toolu_01XyZ")
        tool = self.random.choice(("Bash", "Edit", "Write", "Read"))
        block = build.tool_use(
            tool,
            id=id_,
            file_path=f"/work/demo/{self.random.randrange(5)}.py",
            command="ls",
        )
        record = build.reply(
            [block],
            message_id=message or self._id("msg_01AbCdEfGhIjKlMn"),
            model=self._model,
            **self._place(),
        )
        return id_, self._add(record)["uuid"]

    def _result(self, call: tuple[str, str], outcome: Written | None = None) -> None:
        id_, parent = call
        outcome = outcome or {"filePath": "/work/demo/1.py"}
        record = build.tool_result(
            id_, f"done {id_}", outcome=outcome, uuid=self._uuid(), parent=parent
        )
        self._add(record)

    def _parallel_calls(self) -> None:
        message = self._id("msg_01AbCdEfGhIjKlMn")
        calls = [self._use_tool(message) for _ in range(self.random.randint(2, 3))]
        self.random.shuffle(calls)
        for call in calls:
            self._result(call)

    def _open_call(self) -> None:
        self._open_calls.append(self._use_tool())

    def _late_result(self) -> None:
        if self._open_calls:
            self._result(self._open_calls.pop(0))

    def _answer_again(self) -> None:
        if self._open_calls:
            self._result(self._open_calls[-1])

    def _rewind(self) -> None:
        if self._records:
            target = self.random.choice(self._records[-40:])
            self._leaf = target["parentUuid"] or target["uuid"]
            self._add(build.prompt(f"instead {self._tick()}", **self._place()))
            self._answer()

    def _retry(self) -> None:
        if self._records:
            self._leaf = self.random.choice(self._records[-5:])["parentUuid"]
            self._answer()

    def _restart(self) -> None:
        self._leaf = None
        self._prompt()
        self._answer()

    def _compaction(self) -> None:
        if self._leaf is None:
            return
        logical = self._leaf
        if self.random.random() < self._oddness:
            logical = self.random.choice(self._records)["uuid"]
        boundary = self._add(build.compact(logical, uuid=self._uuid()))
        self._leaf = boundary["uuid"]
        words = "This session is being continued from a previous conversation"
        self._add(build.prompt(words, isCompactSummary=True, **self._place()))
        if self.random.random() < 0.3:
            for record in self._records[-8:-4]:
                self._write(record)

    def _copy(self) -> None:
        if self._records:
            self._write(self.random.choice(self._records))

    def _changed_copy(self) -> None:
        if self._records:
            record = self.random.choice(self._records)
            self._write(record | {"message": {"role": "user", "content": "changed"}})

    def _replay(self) -> None:
        """Write recent records again with new ids."""
        names: dict[str, str] = {}
        for record in self._records[-self.random.randint(1, 5) :]:
            names[record["uuid"]] = self._uuid()
            parent = record["parentUuid"]
            self._write(
                record
                | {
                    "uuid": names[record["uuid"]],
                    "parentUuid": names.get(parent, parent),
                }
            )

    def _metadata(self) -> None:
        leaf = self.random.choice(self._records)["uuid"] if self._records else "gone"
        record: Written = self.random.choice(
            (
                build.snapshot(leaf),
                build.title(f"title {self._tick()}"),
                build.title(f"name {self._tick()}", custom=True),
                build.meta("tag", tag=self.random.choice(("", "red"))),
                build.meta("from-tomorrow", text="x"),
                build.meta("last-prompt", lastPrompt="p", leafUuid=self._leaf),
            )
        )
        self._write(record)

    def _odd_metadata(self) -> None:
        leaf = self.random.choice(self._records)["uuid"] if self._records else "gone"
        record: Written = self.random.choice(
            (
                build.summary(f"summary {self._tick()}", leaf),
                build.meta("last-prompt", lastPrompt="p", leafUuid=leaf),
                build.meta(
                    "last-prompt",
                    lastPrompt="p",
                    leafUuid="00000000-0000-0000-0000-000000000000",
                    explicit=True,
                ),
                build.meta("from-tomorrow", uuid=self._uuid(), parentUuid=leaf),
                build.meta(
                    "worktree-state",
                    worktreeSession={"worktreePath": "/w", "originalCwd": "/repo"},
                ),
                build.meta("relocated", relocatedCwd="/elsewhere"),
                build.meta("pr-link", prUrl="https://github.com/we/app/pull/7"),
                build.meta("agent-name", agentName="mary"),
            )
        )
        self._write(record)

    def _cost(self) -> None:
        total, start = self.random.randrange(1, 9), self.random.choice((5, None))
        self._write(build.meta("cost-state", totalCostUSD=total, startTime=start))

    def _failure(self) -> None:
        """Write an error of the API, which Claude Code writes as an answer."""
        record = build.reply(
            "API Error: overloaded", model="<synthetic>", **self._place()
        )
        self._add(record | {"isApiErrorMessage": self.random.random() < 0.5})

    def _retries(self) -> None:
        place = self._place()
        error = {"status": 529, "message": "overloaded"}
        self._add(build.system("api_error", error=error, retryAttempt=1, **place))

    def _withdrawal(self) -> None:
        """Write an answer that replaces an earlier record, or a notice that removes one."""
        if not self._records:
            return
        gone = [self.random.choice(self._records[-6:])["uuid"]]
        if self.random.random() < 0.5:
            answer = build.reply(
                f"instead {self._tick()}",
                message_id=self._id("msg_01AbCdEfGhIjKlMn"),
                **self._place(),
            )
            self._add(answer | {"supersedesUuids": gone})
        else:
            notice = build.system("model_refusal_fallback", "Refused", **self._place())
            self._add(notice | {"retractedMessageUuids": gone})

    def _named_interruption(self) -> None:
        answers = [one for one in self._records[-9:] if one["type"] == "assistant"]
        if answers:
            words = [build.text("[Request interrupted by user for tool use]")]
            record = build.prompt(words, **self._place())
            message = self.random.choice(answers)["message"]["id"]
            self._add(record | {"interruptedMessageId": message})

    def _refused_call(self) -> None:
        id_, parent = self._use_tool()
        record = build.tool_result(
            id_,
            "The user doesn't want to proceed with this tool use.",
            is_error=True,
            uuid=self._uuid(),
            parent=parent,
        )
        self._add(record | {"toolDenialKind": "user-rejected"})

    def _shell_call(self) -> None:
        """Write a shell command that changes a file, or that names a remote."""
        path = f"/work/demo/{self.random.randrange(9)}.py"
        hunks = [{"lines": ["-a", "+b"]}]
        outcome = self.random.choice(
            (
                {"bashEditDiff": {"files": [{"filePath": path, "hunks": hunks}]}},
                {"stdout": "origin\tgit@example.com:we/app.git (fetch)", "stderr": ""},
            )
        )
        self._result(self._use_tool(), outcome=outcome)

    def _typed_otherwise(self) -> None:
        """Write what is not a plain prompt: shell input, a memory, a hint, an image."""
        words, fields = self.random.choice(
            (
                ("<bash-input>ls</bash-input>", {}),
                ("<user-memory-input>use tabs</user-memory-input>", {}),
                ("Caveat: generated", {"isMeta": True}),
                ([build.image(), build.text("see")], {}),
                ([build.image()], {}),
                ("", {}),
            )
        )
        self._add(build.prompt(words, **self._place()) | fields)

    def _rich_answer(self) -> None:
        message = self._id("msg_01AbCdEfGhIjKlMn")
        tier = self.random.choice(("standard", "priority"))
        usage = {"input_tokens": 9, "output_tokens": 4, "service_tier": tier}
        usage |= {"server_tool_use": {"web_search_requests": 1}}
        for block in (build.thinking("hm"), build.text(f"so {self._tick()}")):
            self._add(
                build.reply([block], message_id=message, usage=usage, **self._place())
            )

    def _agent_progress(self) -> None:
        """Write records of an agent as older versions do: inside progress records."""
        call, parent = self._use_tool()
        agent = f"p{self._tick():06}"
        for number in range(self.random.randint(1, 3)):
            inner = build.reply(
                [build.tool_use("Read", id=self._id("toolu_01In"))],
                message_id=self._id("msg_01AbCdEfGhIjKlMn"),
                uuid=self._uuid(),
            )
            if not number:
                inner = build.prompt("look inside", uuid=self._uuid())
            inner |= {"timestamp": self._stamp(), "isSidechain": True}
            record = build.progress(
                "agent_progress",
                agentId=agent,
                message=inner,
                call=call,
                **self._place(),
            )
            self._add(record, moves=self.random.random() < 0.5)
        if self.random.random() < 0.7:
            self._result((call, parent), outcome={"agentId": agent, "content": []})

    def _nested_agent(self) -> None:
        """Let an agent start another one."""
        if not self._agents:
            return
        agent, path, leaf = self._agents[-1]
        id_, inner = self._id("toolu_01Task"), f"a{self._tick():06}"
        block = build.tool_use("Task", id=id_, prompt="deeper", subagent_type="general")
        call = build.reply(
            [block],
            message_id=self._id("msg_01AbCdEfGhIjKlMn"),
            uuid=self._uuid(),
            parent=leaf,
        )
        self._write_agent_record(call, agent, path)
        self._agents.append((inner, f"{_AGENTS}/agent-{inner}.jsonl", None))
        self._write_agent("deeper")
        if self.random.random() < 0.7:
            outcome = {"agentId": inner, "status": "completed", "content": []}
            result = build.tool_result(
                id_, "found", outcome=outcome, uuid=self._uuid(), parent=call["uuid"]
            )
            self._write_agent_record(result, agent, path)

    def _other_session(self) -> None:
        """Copy the last records into the file of another session, as a fork does."""
        fields = {"sessionId": build.session_id(8)}
        path = _MAIN.replace(SESSION, build.session_id(8))
        for record in self._records[-self.random.randint(1, 6) :]:
            self._write(record | fields, path)

    def _queue(self) -> None:
        words = f"queued {self.random.randrange(4)}"
        operation = self.random.choice(("enqueue", "enqueue", "dequeue", "remove"))
        if operation == "enqueue":
            self._queued.append(words)
        record = build.queue(operation, words if operation == "enqueue" else None)
        self._write(record | {"timestamp": self._stamp()})

    def _deliver(self) -> None:
        self._steer("deliver")

    def _combine(self) -> None:
        self._steer("combine")

    def _steer(self, fate: str | None = None) -> None:
        """Queue a text while Claude works; it is delivered, sent or taken back."""
        words = f"meanwhile {self._tick()}"
        self._operate("enqueue", words)
        self._call()
        fate = fate or self.random.choice(
            ("deliver", "attach", "send", "combine", "popAll")
        )
        if fate == "popAll":
            self._operate("popAll")
        elif fate in {"deliver", "attach"}:
            self._operate("remove", words)
            if fate == "attach":
                place = self._place()
                self._add(build.attachment("queued_command", prompt=words, **place))
        else:
            self._operate("dequeue")
            words += " and then rest" if fate == "combine" else ""
            self._add(build.prompt(words, **self._place()))
        self._answer()

    def _operate(self, operation: str, words: str | None = None) -> None:
        self._write(build.queue(operation, words) | {"timestamp": self._stamp()})

    def _pop_all(self) -> None:
        self._write(build.queue("popAll") | {"timestamp": self._stamp()})

    def _notice(self) -> None:
        place = self._place()
        record: Written = self.random.choice(
            (
                build.system("turn_duration", durationMs=1234, **place),
                build.system("informational", "note", **place),
                build.attachment("queued_command", prompt="also", **place),
                build.attachment("todo_reminder", **place),
                build.progress("bash_progress", output="...", **place),
            )
        )
        self._add(record, moves=self.random.random() < 0.7)

    def _command(self) -> None:
        name = self.random.choice(("/model", "/compact", "/cost"))
        words = f"<command-name>{name}</command-name>"
        self._add(build.prompt(words, **self._place()))
        if self.random.random() < 0.5:
            words = "<local-command-stdout>out</local-command-stdout>"
            self._add(build.prompt(words, **self._place()))

    def _interruption(self) -> None:
        self._add(build.prompt("[Request interrupted by user]", **self._place()))

    def _change(self) -> None:
        self._fields = {
            "version": self.random.choice(("2.1.200", "2.0.1", "1.0.50")),
            "gitBranch": self.random.choice(("main", "dev")),
        }
        self._model = self.random.choice((build.MODEL, "claude-opus-4-1-20250805"))

    def _late_answer(self) -> None:
        """Answer a prompt hours later, as in a file of version 1.0 left open."""
        fields = self._fields
        self._fields = fields | {"version": "1.0.44"}
        for wait in self.random.choices((0, 8000), k=4):
            self._prompt()
            self._time += wait
            self._answer()
        self._fields = fields

    def _foreign(self) -> None:
        self._add(
            build.prompt("elsewhere", **self._place())
            | {"sessionId": build.session_id(7)}
        )

    def _ghost(self) -> None:
        self._leaf = self._uuid()
        self._prompt()

    def _late_parent(self) -> None:
        leaf, parent = self._leaf, self._uuid()
        self._leaf = parent
        self._answer()
        rest = self._leaf
        record = build.prompt("late", uuid=parent, parent=leaf)
        self._add(record, moves=False)
        self._leaf = rest

    def _go_back_in_time(self) -> None:
        self._time = max(self._time - self.random.choice((1, 50, 500)), 0)

    def _reuse_ids(self) -> None:
        self._number = max(self._number - 30, 0)
        self._result((f"toolu_{self.random.randrange(3)}", self._leaf or ""))
        block = build.tool_use("Bash", id=f"toolu_{self.random.randrange(3)}")
        self._add(build.reply([block], message_id="msg_again", **self._place()))

    def _sidechain(self) -> None:
        leaf = self._leaf
        self._leaf = None
        fields = {"isSidechain": True}
        self._add(build.prompt("inner work", **self._place()) | fields)
        self._records.pop()
        self._add(build.reply(f"inner {self._tick()}", **self._place()) | fields)
        self._records.pop()
        self._leaf = leaf

    def _agent(self) -> None:
        """Start an agent with a file of its own; it may end at once or later."""
        agent, id_ = f"a{self._tick():06}", self._id("toolu_01Task")
        prompt = f"look {self.random.randrange(3)}"
        block = build.tool_use("Task", id=id_, prompt=prompt, subagent_type="general")
        record = build.reply(
            [block], message_id=self._id("msg_01AbCdEfGhIjKlMn"), **self._place()
        )
        parent = self._add(record)["uuid"]
        path = f"{_AGENTS}/agent-{agent}.jsonl"
        if self.random.random() < 0.5:
            meta = {"agentType": "general", "toolUseId": id_}
            self.lines.append((path.replace(".jsonl", ".meta.json"), build.line(meta)))
        self._agents.append((agent, path, None))
        self._write_agent(prompt)
        if self.random.random() < 0.7:
            self._continue_agent()
            outcome = {"agentId": agent, "status": "completed", "content": []}
            self._result((id_, parent), outcome=outcome)
        else:
            self._open_calls.append((id_, parent))

    def _write_agent(self, prompt: str) -> None:
        agent, path, _ = self._agents[-1]
        record = build.prompt(prompt, uuid=self._uuid(), parent=None)
        self._write_agent_record(record, agent, path)

    def _continue_agent(self) -> None:
        if self._agents:
            agent, path, leaf = self.random.choice(self._agents[-3:])
            record = build.reply(
                f"found {self._tick()}",
                message_id=self._id("msg_01AbCdEfGhIjKlMn"),
                uuid=self._uuid(),
                parent=leaf,
            )
            self._write_agent_record(record, agent, path)

    def _write_agent_record(self, record: Written, agent: str, path: str) -> None:
        record |= {
            "timestamp": self._stamp(),
            "isSidechain": True,
            "agentId": agent,
        }
        self._write(record, path)
        self._agents = [
            (name, place, record["uuid"] if name == agent else leaf)
            for name, place, leaf in self._agents
        ]

    def _notification(self) -> None:
        if self._agents:
            agent, _, _ = self.random.choice(self._agents)
            words = (
                f"<task-notification><task-id>{agent}</task-id>"
                "<status>completed</status></task-notification>"
            )
            self._add(build.prompt(words, **self._place()))


_STEPS = (
    *("prompt", "answer", "call") * 4,
    *("parallel_calls", "notice", "metadata", "agent") * 2,
    *("open_call", "late_result", "queue", "command", "compaction"),
    *("interruption", "continue_agent", "rewind"),
    *("cost", "retries", "shell_call", "typed_otherwise", "rich_answer"),
    *("refused_call", "agent_progress"),
)
_ODD_STEPS = (
    *("rewind", "retry", "restart", "copy", "changed_copy", "replay", "odd_metadata"),
    *("change", "foreign", "ghost", "late_parent", "go_back_in_time", "reuse_ids"),
    *("sidechain", "notification", "pop_all", "answer_again", "late_result"),
    *("continue_agent", "compaction", "failure", "withdrawal", "named_interruption"),
    *("nested_agent", "other_session", "late_answer"),
)


def cut_lines(lines: Lines, seed: int) -> Iterator[Lines]:
    """Yield the lines in parts of one or a few, sometimes cut inside a line."""
    cut = random.Random(seed)  # noqa: S311 (not for secrets)
    start = 0
    rest: Lines = []
    while start < len(lines):
        stop = start + cut.choice((1, 1, 2, 5, 30))
        part = [*rest, *lines[start:stop]]
        rest = []
        path, raw = part[-1]
        if cut.random() < 0.2 and stop < len(lines):
            at = cut.randrange(len(raw))
            part[-1], rest = (path, raw[:at]), [(path, raw[at:])]
        yield part
        start = stop
    if rest:
        yield rest
