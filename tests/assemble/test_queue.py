"""Text that a person typed while Claude worked."""

from __future__ import annotations

import pytest

from bygones.assemble.queue import find_queued_prompts, find_steering
from tests.assemble.making import nodes
from tests.build import Written, prompt, queue
from tests.forms import notification_text, queued

pytestmark = pytest.mark.req("R9")


def delivered(*records: Written) -> list[str]:
    return [node.preview for node in find_steering(nodes(records))]


def waited(*records: Written) -> set[str]:
    return set(find_queued_prompts(nodes(records)))


def test_a_text_that_was_removed_was_delivered() -> None:
    assert delivered(queue("enqueue", "Hurry"), queue("remove")) == ["Hurry"]


def test_an_operation_may_name_its_text() -> None:
    told = (queue("enqueue", "a"), queue("enqueue", "b"), queue("remove", "b"))

    assert delivered(*told) == ["b"]


@pytest.mark.parametrize("operation", ["dequeue", "popAll", "from-tomorrow"])
def test_a_text_that_was_sent_or_taken_back_was_not_delivered(operation: str) -> None:
    told = (queue("enqueue", "a"), queue(operation), queue("remove"))

    assert delivered(*told) == (["a"] if operation == "from-tomorrow" else [])


def test_a_text_that_is_recorded_elsewhere_is_not_told_again() -> None:
    told = (queue("enqueue", "a"), queue("remove"))

    assert delivered(*told, prompt("a")) == []
    assert delivered(*told, queued("a")) == []


def test_words_that_were_said_before_may_be_said_again_while_claude_works() -> None:
    told = (prompt("go on"), queue("enqueue", "go on"), queue("remove"))

    assert delivered(*told) == ["go on"]


def test_a_record_stands_for_one_text_of_several_that_are_equal() -> None:
    told = (queue("enqueue", "a"), queue("remove")) * 2

    assert delivered(*told, queued("a")) == ["a"]
    assert delivered(*told, queued("a"), queued("a")) == []


def test_news_of_a_task_is_no_persons_text() -> None:
    news = notification_text("t", "completed")

    assert delivered(queue("enqueue", news), queue("remove")) == []


def test_a_queue_that_is_empty_gives_nothing() -> None:
    assert delivered(queue("remove"), queue("dequeue"), queue("popAll")) == []


def test_a_prompt_that_waited_is_known_by_its_words() -> None:
    told = (queue("enqueue", "a"), queue("dequeue"), prompt("a", uuid="p"))

    assert waited(*told) == {"p"}


def test_words_that_waited_once_count_for_one_prompt() -> None:
    told = (queue("enqueue", "a"), prompt("a", uuid="p"), prompt("a", uuid="q"))

    assert waited(*told) == {"p"}


@pytest.mark.parametrize("operation", ["remove", "popAll"])
def test_words_that_left_the_queue_otherwise_were_typed_again(operation: str) -> None:
    told = (queue("enqueue", "a"), queue(operation), prompt("a", uuid="p"))

    assert waited(*told) == set()


def test_a_prompt_without_words_did_not_wait() -> None:
    assert waited(queue("enqueue", ""), prompt("", uuid="p")) == set()
