"""Outcomes lose what nobody is shown, and nothing else."""

from __future__ import annotations

from bygones.model.outcomes import (
    BashOutcome,
    EditOutcome,
    FileSearchOutcome,
    FileText,
    PatchHunk,
    ReadOutcome,
    TextOutcome,
)
from bygones.model.records import Block, ImageBlock, TextBlock, ToolResultBlock
from bygones.redact.session import trim_outcome


def test_a_file_that_was_read_is_told_by_its_lines() -> None:
    file = FileText(file_path="/a", content="all of it", base64="x", num_lines=3)

    found = trim_outcome(ReadOutcome(type="text", file=file), ())

    told = FileText(file_path="/a", num_lines=3)
    assert found == ReadOutcome(type="text", file=told)


def test_a_patch_stands_for_the_file_that_it_changed() -> None:
    patch = (PatchHunk(lines=("-a", "+b")),)
    whole = EditOutcome(file_path="/a", original_file="a\n", structured_patch=patch)

    assert trim_outcome(whole, ()) == EditOutcome(
        file_path="/a", structured_patch=patch
    )


def test_without_a_patch_the_file_is_kept_to_make_one() -> None:
    whole = EditOutcome(file_path="/a", original_file="a\n", content="b\n")

    assert trim_outcome(whole, ()) == whole


def test_what_a_command_printed_is_kept_where_no_result_says_it() -> None:
    printed = BashOutcome(stdout="out", stderr="err", return_code_interpretation="odd")
    silent: list[tuple[Block, ...]] = [
        (),
        (ToolResultBlock(content=None),),
        (ToolResultBlock(content=" \n"),),
        (ToolResultBlock(content=(TextBlock(text=""),)),),
    ]
    telling: list[tuple[Block, ...]] = [
        (ToolResultBlock(content="out"),),
        (ToolResultBlock(content=(ImageBlock(),)),),
    ]

    assert [trim_outcome(printed, blocks) for blocks in silent] == [printed] * len(
        silent
    )
    for blocks in telling:
        told = BashOutcome(return_code_interpretation="odd")
        assert trim_outcome(printed, blocks) == told


def test_what_a_search_found_is_told_by_its_counts() -> None:
    found = FileSearchOutcome(content="a:1", num_lines=1, filenames=("a",))

    assert trim_outcome(found, ()) == FileSearchOutcome(num_lines=1, filenames=("a",))


def test_any_other_outcome_stays() -> None:
    other = TextOutcome("x")

    assert trim_outcome(other, ()) is other
    assert trim_outcome(None, ()) is None
