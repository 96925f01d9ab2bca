"""What the records of a session say about repositories."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain

from bygones.assemble.agents import AgentRecords
from bygones.model.nodes import DirectoryFacts, RecordNode, RemoteFacts
from bygones.model.projects import ClueKind, RepositoryClue


def find_repository_clues(
    nodes: Iterable[RecordNode], agents: Iterable[AgentRecords]
) -> tuple[RepositoryClue, ...]:
    """Return what a session and its agents say about repositories.

    `infer_repositories` decides from the clues of all sessions.
    """
    both = chain(nodes, *(agent.nodes for agent in agents))
    return tuple(dict.fromkeys(clue for node in both for clue in _clues_of(node)))


def _clues_of(node: RecordNode) -> Iterator[RepositoryClue]:
    output = node.result.git_output if node.result else None
    if output is not None and node.cwd:
        for name in output.remotes:
            yield RepositoryClue(node.cwd, ClueKind.REMOTE, name)
        # Without a branch the directory itself is not in a repository.
        if output.root_commit and (output.root or node.git_branch):
            directory = output.root or node.cwd
            yield RepositoryClue(directory, ClueKind.ROOT_COMMIT, output.root_commit)
    match node.extra:
        case RemoteFacts(name=name):
            yield RepositoryClue("", ClueKind.REMOTE, name)
        case DirectoryFacts(path=path, worktree=worktree) if worktree:
            yield RepositoryClue(worktree, ClueKind.WORKTREE, path)
        case _:
            pass
