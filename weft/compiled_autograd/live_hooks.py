"""The hooks of a backward call's nodes, each as it is when its turn comes: code that runs on the way may add hooks and
remove them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import Any

from weft.autograd.accumulate import AccumulateGrad
from weft.autograd.node import Node, RemovableHandle

# Where a node has hooks; those on a tensor that it made by the tensor's number. Behind a leaf's gradient it only
# matters whether there are any. (A node that stands for many may be cut where a hook is added, and has other edges
# then.)
BEFORE, AFTER, RETAINED, LEAF, EDGES = "before", "after", "retained", "leaf", "edges"
Stage = str | int


class LiveHooks:
    """What a schedule was written with: for each stage of a node that had hooks, which, and the number of its step."""

    def __init__(self) -> None:
        # those of a stage, with the number of the step that it begins with
        self.known: dict[tuple[Node, Stage], tuple[int, tuple[Any, ...]]] = {}
        self.changes = RemovableHandle.changes  # that have been looked at
        self.done = 0  # steps that have been run: what hooks they were written with is settled

    def at(self, node: Node, stage: Stage, live: Collection[Any], step: int) -> tuple[Any, ...]:
        """The hooks of a stage that begins with a step."""
        key = (node, stage)
        if step < self.done:
            return self.known.get(key, (0, ()))[1]
        found = tuple(live)
        if found:
            self.known[key] = (step, found)
        else:
            self.known.pop(key, None)
        return found

    def have_changed(self) -> bool:
        """Whether any hook anywhere was added or removed since this was last asked."""
        if self.changes == RemovableHandle.changes:
            return False
        self.changes = RemovableHandle.changes
        return True

    def differ(self, nodes: Iterable[Node], done: int) -> bool:
        """Whether nodes have other hooks than they had, at stages that begin behind so many steps."""
        for node in nodes:
            for stage, live in _stages(node):
                step, known = self.known.get((node, stage), (done, ()))
                if step >= done and known != tuple(live):
                    return True
        return False


def calls_hooks(node: AccumulateGrad) -> bool:
    """Whether hooks follow when a leaf has its gradient."""
    variable = node.variable
    state = None if variable is None else variable._autograd
    return bool(state is not None and state.post_accumulate)


def _stages(node: Node) -> Iterator[tuple[Stage, Collection[Any]]]:
    for index, registered in (node.tensor_hooks or {}).items():
        yield index, registered.values()
    yield RETAINED, (node.retain_hooks or {}).items()
    yield BEFORE, (node.pre_hooks or {}).values()
    yield AFTER, (node.post_hooks or {}).values()
    if node.stands_for_many:
        yield EDGES, node.edges
    if type(node) is AccumulateGrad:
        yield LEAF, (True,) if calls_hooks(node) else ()
