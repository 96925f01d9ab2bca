"""trim_outcome drops what is never shown, and nothing else."""

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


def test_read_outcome_keeps_line_counts_but_no_content() -> None:
    file = FileText(file_path="/a", content="all of it", base64="x", num_lines=3)

    trimmed = trim_outcome(ReadOutcome(type="text", file=file), ())

    expected = FileText(file_path="/a", num_lines=3)
    assert trimmed == ReadOutcome(type="text", file=expected)


def test_edit_outcome_with_patch_drops_the_original_file() -> None:
    patch = (PatchHunk(lines=("-a", "+b")),)
    whole = EditOutcome(file_path="/a", original_file="a\n", structured_patch=patch)

    assert trim_outcome(whole, ()) == EditOutcome(
        file_path="/a", structured_patch=patch
    )


def test_edit_outcome_without_patch_is_kept() -> None:
    whole = EditOutcome(file_path="/a", original_file="a\n", content="b\n")

    assert trim_outcome(whole, ()) == whole


def test_bash_output_is_dropped_only_if_the_result_has_content() -> None:
    printed = BashOutcome(stdout="out", stderr="err", return_code_interpretation="odd")
    empty: list[tuple[Block, ...]] = [
        (),
        (ToolResultBlock(content=None),),
        (ToolResultBlock(content=" \n"),),
        (ToolResultBlock(content=(TextBlock(text=""),)),),
    ]
    with_content: list[tuple[Block, ...]] = [
        (ToolResultBlock(content="out"),),
        (ToolResultBlock(content=(ImageBlock(),)),),
    ]

    assert [trim_outcome(printed, blocks) for blocks in empty] == [printed] * len(empty)
    for blocks in with_content:
        expected = BashOutcome(return_code_interpretation="odd")
        assert trim_outcome(printed, blocks) == expected


def test_search_outcome_keeps_counts_but_no_content() -> None:
    outcome = FileSearchOutcome(content="a:1", num_lines=1, filenames=("a",))

    assert trim_outcome(outcome, ()) == FileSearchOutcome(num_lines=1, filenames=("a",))


def test_other_outcomes_are_unchanged() -> None:
    other = TextOutcome("x")

    assert trim_outcome(other, ()) is other
    assert trim_outcome(None, ()) is None
