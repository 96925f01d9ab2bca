"""Runs Claude Code with a home and a working directory of its own.

The client sees nothing of the caller's environment except PATH. It gets a dummy key and
the address of the stub; every other address is behind a proxy that does not exist.
"""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.client.messages_api import Json

_KEY = "sk-ant-" + "x" * 20
_UNREACHABLE = "http://127.0.0.1:9"
_POLL_SECONDS = 0.1
_MENU_MARKS = " │↓↑\N{HEAVY RIGHT-POINTING ANGLE QUOTATION MARK ORNAMENT}"
_COLUMNS, _ROWS = "150", "60"


class ScreenTimeout(Exception):
    """The terminal did not show in time what a scenario waits for."""


class ClaudeCode:
    """One installation of Claude Code, in print mode or in a terminal."""

    def __init__(self, folder: Path, program: Path, port: int) -> None:
        self.home, self.work = folder / "home", folder / "work"
        self._folder, self._program, self._port = folder, program, port
        self.environ: dict[str, str | None] = {}
        """Additions to the environment; None removes a variable."""
        self.home.mkdir(parents=True, exist_ok=True)
        self.work.mkdir(exist_ok=True)
        if not (self.home / ".claude.json").exists():
            self._skip_onboarding()

    def _skip_onboarding(self) -> None:
        project = {
            "hasTrustDialogAccepted": True,
            "hasCompletedProjectOnboarding": True,
        }
        state = {
            "hasCompletedOnboarding": True,
            "bypassPermissionsModeAccepted": True,
            "theme": "dark",
            "numStartups": 5,
            "customApiKeyResponses": {"approved": [_KEY[-20:]], "rejected": []},
            "projects": {str(self.work): project},
        }
        (self.home / ".claude.json").write_text(json.dumps(state))

    def trust(self, directory: Path) -> None:
        """Accept the dialog about a directory in advance."""
        path = self.home / ".claude.json"
        state = json.loads(path.read_text())
        state["projects"].setdefault(str(directory), {})["hasTrustDialogAccepted"] = (
            True
        )
        path.write_text(json.dumps(state))

    def environment(self) -> dict[str, str]:
        environ = {
            "PATH": os.environ["PATH"],
            "HOME": str(self.home),
            "SHELL": "/bin/bash",
            "TERM": "xterm-256color",
            "LANG": "C.UTF-8",
            "TZ": "UTC",
            "IS_SANDBOX": "1",
            "ANTHROPIC_API_KEY": _KEY,
            "ANTHROPIC_BASE_URL": f"http://127.0.0.1:{self._port}",
            "HTTPS_PROXY": _UNREACHABLE,
            "NO_PROXY": "127.0.0.1",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "DISABLE_AUTOUPDATER": "1",
            "DISABLE_ERROR_REPORTING": "1",
            "DISABLE_TELEMETRY": "1",
            **self.environ,
        }
        return {name: value for name, value in environ.items() if value is not None}

    def record(self, action: str, **details: object) -> None:
        """Write down what was done, for a person who reads the recording."""
        line = json.dumps({"at": time.time(), "action": action, **details})
        with (self._folder / "actions.jsonl").open("a", encoding="utf-8") as log:
            log.write(f"{line}\n")

    def ask(self, prompt: str, *options: str, cwd: Path | None = None) -> Json:
        """Run a prompt in print mode and return the result that the client prints."""
        done = subprocess.run(
            [str(self._program), "-p", prompt, "--output-format", "json", *options],
            cwd=cwd or self.work,
            env=self.environment(),
            check=False,
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
            timeout=120,
        )
        lines = done.stdout.strip().splitlines() or ["{}"]
        result: Json = json.loads(lines[-1])
        self.record("ask", prompt=prompt, options=options, stderr=done.stderr)
        return result

    def ask_and_kill(self, prompt: str, path: Path, *options: str) -> None:
        """Run a prompt in print mode, and kill the client when a file appears."""
        with subprocess.Popen(
            [str(self._program), "-p", prompt, *options],
            cwd=self.work,
            env=self.environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        ) as process:
            end = time.monotonic() + 30
            while not path.exists() and time.monotonic() < end:
                time.sleep(_POLL_SECONDS)
            # The record of the call is written a moment after it starts.
            time.sleep(0.5)
            process.kill()
        self.record("kill", prompt=prompt)

    @contextmanager
    def terminal(
        self, *options: str, ready: str = "shift+tab", cwd: Path | None = None
    ) -> Iterator[Terminal]:
        """Run the client in a terminal, and leave it with /exit."""
        command = [str(self._program), *options]
        environ = [f"{name}={value}" for name, value in self.environment().items()]
        terminal = Terminal(self)
        terminal.start(shlex.join(["env", "-i", *environ, *command]), cwd or self.work)
        self.record("open", options=options)
        try:
            terminal.wait_for(ready)
            yield terminal
            terminal.type("/exit")
            terminal.wait_until_closed()
        finally:
            terminal.stop()


class Terminal:
    """A terminal in tmux."""

    def __init__(self, client: ClaudeCode) -> None:
        self._client = client
        self._socket = f"bygones-{uuid.uuid4().hex[:12]}"

    def start(self, command: str, cwd: Path) -> None:
        size = ["-x", _COLUMNS, "-y", _ROWS]
        self._tmux(
            "-f", "/dev/null", "new-session", "-d", *size, "-c", str(cwd), command
        )

    def stop(self) -> None:
        self._tmux("kill-server")

    def _tmux(self, *arguments: str) -> str:
        command = ["tmux", "-L", self._socket, *arguments]
        done = subprocess.run(command, check=False, capture_output=True, text=True)
        return done.stdout

    def screen(self) -> str:
        return self._tmux("capture-pane", "-p")

    def wait_for(self, text: str, seconds: float = 30) -> None:
        end = time.monotonic() + seconds
        while text not in self.screen():
            if time.monotonic() > end:
                raise ScreenTimeout(f"{text!r} is not on the screen:\n{self.screen()}")
            time.sleep(_POLL_SECONDS)

    def wait_until_closed(self) -> None:
        end = time.monotonic() + 10
        while self._tmux("list-sessions") and time.monotonic() < end:
            time.sleep(_POLL_SECONDS)

    def press(self, *keys: str, pause: float = 0.3) -> None:
        for key in keys:
            self._tmux("send-keys", key)
            time.sleep(pause)
        self._client.record("press", keys=keys)

    def type(self, text: str) -> None:
        """Type a line and press Enter; a pause keeps them from being one paste."""
        self._tmux("send-keys", "-l", text)
        time.sleep(0.4)
        self._tmux("send-keys", "Enter")
        self._client.record("type", text=text)

    def say(self, prompt: str, answer: str) -> None:
        """Type a prompt and wait for a text that only its answer contains."""
        self.type(prompt)
        self.wait_for(answer)
        # The record of the answer is written after it is shown.
        time.sleep(0.4)

    def rewind(self, prompts_back: int, choice: str) -> None:
        """Rewind to before a prompt with one of the choices of the menu."""
        self.press("Escape", "Escape", pause=0.25)
        self.wait_for("Restore the code and/or conversation")
        self.press(*["Up"] * prompts_back, pause=0.2)
        self.press("Enter", pause=0.8)
        self.press(self._find_choice(choice), pause=1.5)
        self._client.record("rewind", prompts_back=prompts_back, choice=choice)

    def _find_choice(self, choice: str) -> str:
        screen = self.screen()
        for line in screen.splitlines():
            number, _, label = line.strip(_MENU_MARKS).partition(". ")
            if number.isdigit() and label.strip().lower() == choice.lower():
                return number
        raise ScreenTimeout(f"there is no choice {choice!r}:\n{screen}")

    def pause(self, seconds: float) -> None:
        """Wait for something that does not show on the screen."""
        time.sleep(seconds)

    def clear_input(self) -> None:
        """Delete the prompt that a rewind puts back into the input line."""
        self.press("C-u")
