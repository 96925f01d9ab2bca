"""Prompts that were typed while Claude worked."""

from __future__ import annotations

import pytest

from bygones.assemble.queue import find_queued_prompts, find_steering
from tests.assemble.helpers import nodes
from tests.build import Written, prompt, queue
from tests.forms import notification_text, queued

pytestmark = pytest.mark.req("R9")


def delivered(*records: Written) -> list[str]:
    return [node.preview for node in find_steering(nodes(records))]


def waited(*records: Written) -> set[str]:
    return set(find_queued_prompts(nodes(records)))


def test_removed_text_was_delivered() -> None:
    assert delivered(queue("enqueue", "Hurry"), queue("remove")) == ["Hurry"]


def test_operation_may_name_its_text() -> None:
    actual = (queue("enqueue", "a"), queue("enqueue", "b"), queue("remove", "b"))

    assert delivered(*actual) == ["b"]


@pytest.mark.parametrize("operation", ["dequeue", "popAll", "from-tomorrow"])
def test_text_that_was_sent_or_taken_back_is_not_steering(operation: str) -> None:
    actual = (queue("enqueue", "a"), queue(operation), queue("remove"))

    assert delivered(*actual) == (["a"] if operation == "from-tomorrow" else [])


def test_text_with_a_record_of_its_own_is_not_steering() -> None:
    actual = (queue("enqueue", "a"), queue("remove"))

    assert delivered(*actual, prompt("a")) == []
    assert delivered(*actual, queued("a")) == []


def test_text_that_was_typed_before_may_be_steering_again() -> None:
    actual = (prompt("go on"), queue("enqueue", "go on"), queue("remove"))

    assert delivered(*actual) == ["go on"]


def test_record_matches_one_of_several_equal_texts() -> None:
    actual = (queue("enqueue", "a"), queue("remove")) * 2

    assert delivered(*actual, queued("a")) == ["a"]
    assert delivered(*actual, queued("a"), queued("a")) == []


def test_task_notification_is_not_typed_text() -> None:
    news = notification_text("t", "completed")

    assert delivered(queue("enqueue", news), queue("remove")) == []


def test_empty_queue_has_no_steering() -> None:
    assert delivered(queue("remove"), queue("dequeue"), queue("popAll")) == []


def test_queued_prompt_is_recognized_by_its_text() -> None:
    actual = (queue("enqueue", "a"), queue("dequeue"), prompt("a", uuid="p"))

    assert waited(*actual) == {"p"}


def test_text_queued_once_matches_one_prompt() -> None:
    actual = (queue("enqueue", "a"), prompt("a", uuid="p"), prompt("a", uuid="q"))

    assert waited(*actual) == {"p"}


@pytest.mark.parametrize("operation", ["remove", "popAll"])
def test_text_that_left_the_queue_otherwise_was_typed_again(operation: str) -> None:
    actual = (queue("enqueue", "a"), queue(operation), prompt("a", uuid="p"))

    assert waited(*actual) == set()


def test_prompt_without_text_was_not_queued() -> None:
    assert waited(queue("enqueue", ""), prompt("", uuid="p")) == set()
