"""Prompts, and other texts in user records."""

from __future__ import annotations

from tests.build import (
    SESSION,
    Home,
    image,
    prompt,
    queue,
    reply,
    system,
    text,
    thread,
    tool_result,
    tool_use,
)
from tests.forms import api_error, caveat, command, command_text, printed, queued

_REMINDER = "<system-reminder>Mind the gap.</system-reminder>"


def commands(home: Home) -> None:
    """Every form of a command, with its output and its expansion."""
    records = thread(
        caveat(uuid="c1"),
        command("/model", "opus", uuid="k1"),
        printed("Set model to opus", uuid="o1"),
        command("/review", "the parser", uuid="k2"),
        prompt([text("Review the parser.")], uuid="m1", isMeta=True),
        reply("It is fine.", uuid="a1"),
        system("local_command", command_text("/status"), uuid="k3"),
        system(
            "local_command",
            "<local-command-stdout>All is well</local-command-stdout>",
            uuid="o2",
        ),
        prompt("<command-message>init is running…</command-message>", uuid="k4"),
        reply("Initialized.", uuid="a2"),
        prompt("<bash-input>ls</bash-input>", uuid="b1"),
        prompt("<bash-stdout>a.py</bash-stdout><bash-stderr></bash-stderr>", uuid="b2"),
        prompt("<user-memory-input>Use tabs</user-memory-input>", uuid="m2"),
        prompt("/notacommand but typed", uuid="p1"),
        reply("I see.", uuid="a3"),
    )
    home.session(SESSION, records)


def machine_texts(home: Home) -> None:
    """Texts around a prompt, and user records that were not typed."""
    opened = "<ide_opened_file>The user opened a.py</ide_opened_file>"
    records = thread(
        prompt(f"{opened}\nWhat is this?\n{_REMINDER}", uuid="p1"),
        reply("A file.", uuid="a1"),
        prompt(_REMINDER, uuid="m1", isMeta=True),
        prompt("Stop hook feedback:\nrun the tests", uuid="m2", isMeta=True),
        reply("I run them.", uuid="a2"),
        prompt(
            '<teammate-message teammate_id="lead">Hurry</teammate-message>',
            uuid="t1",
        ),
        reply("I hurry.", uuid="a3"),
        prompt("Wake up", uuid="m3", origin={"kind": "auto-continuation"}),
        reply("I am awake.", uuid="a4"),
        prompt("A peer says so", uuid="t2", origin={"kind": "peer", "name": "b"}),
        reply("So be it.", uuid="a5"),
        prompt([text(opened), text("And this?")], uuid="p2", origin={"kind": "human"}),
        reply("Another file.", uuid="a6"),
    )
    home.session(SESSION, records)


def queue_text(home: Home) -> None:
    """Queued texts: delivered, withdrawn, sent and attached."""
    records = thread(
        prompt("Work", uuid="p1"),
        reply([tool_use("Bash", command="sleep")], uuid="a1"),
        queue("enqueue", "Delivered at once"),
        queue("enqueue", "Taken back"),
        queue("remove", "Delivered at once"),
        queue("popAll"),
        queue("enqueue", "Sent as a prompt"),
        queue("enqueue", "Also attached"),
        queue("remove", "Also attached"),
        queued("Also attached", uuid="x1"),
        tool_result("toolu_1", "slept", uuid="r1"),
        reply("Done.", uuid="a2"),
        queue("dequeue"),
        prompt("Sent as a prompt", uuid="p2"),
        reply("Done too.", uuid="a3"),
        queue("enqueue", "Never sent"),
    )
    home.session(SESSION, records)


def images(home: Home) -> None:
    """A prompt that is only an image, one with an image, and an image as a result."""
    records = thread(
        prompt([image()], uuid="p1", imagePasteIds=[1]),
        reply("A picture.", uuid="a1"),
        prompt([text("[Image #2] What is it?"), image("iVBORw0KGgoAAAA=")], uuid="p2"),
        prompt("[Image: source: /tmp/2.png]", uuid="m1", isMeta=True),
        reply([tool_use("Read", file_path="/work/demo/a.png")], uuid="a2"),
        tool_result("toolu_1", [image()], uuid="r1"),
        reply("A dot.", uuid="a3"),
    )
    home.session(SESSION, records)


def api_errors(home: Home) -> None:
    """Retries are notices; the final error is shown, and costs nothing."""
    records = thread(
        prompt("Hello", uuid="p1"),
        system("api_error", error={"status": 529}, retryAttempt=1, uuid="n1"),
        system("api_error", error={}, retryAttempt=2, uuid="n2"),
        reply("Hello.", uuid="a1"),
        prompt("Go on", uuid="p2"),
        api_error("API Error: rate limit", uuid="e1", error="rate_limit"),
        prompt("Go on now", uuid="p3"),
        reply("Gladly.", uuid="a2"),
    )
    home.session(SESSION, records)


def empty_prompts(home: Home) -> None:
    """Prompts without text, and replies without a prompt."""
    records = thread(
        reply("Unasked.", uuid="a0"),
        prompt("", uuid="p1"),
        prompt([], uuid="p2"),
        reply([text("")], uuid="a1"),
        reply([], uuid="a2"),
    )
    home.session(SESSION, records)


def unknown_notices(home: Home) -> None:
    """The text of an unknown kind of notice is shown; without text it is hidden."""
    records = thread(
        prompt("Go", uuid="p1"),
        system("from_tomorrow", "Something broke.", uuid="n1", level="error"),
        system("from_tomorrow", uuid="n2"),
        reply("Done.", uuid="a1"),
    )
    home.session(SESSION, records)
