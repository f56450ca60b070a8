"""What calls of custom Functions give, as far as a program has to know beforehand: learned from calls, and held against
those that follow."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from weft.autograd.function_context import FunctionCtx
from weft.runtime.storage import root_of
from weft.tensor.dense import is_dense
from weft.tensor.tensor import Tensor
from weft.types.dtype import DType

Sizes = tuple[tuple[int, ...], ...]
_MOST_EXAMPLES = 4


@dataclass(eq=False)
class ForwardFacts:
    """The outputs of a forward. is_single: whether it gave a tensor, no tuple. without_grad: outputs that have no
    gradient; settings: what it asked of its context. examples: sizes of its tensor arguments and of its outputs."""

    is_single: bool
    dtypes: tuple[DType, ...]
    without_grad: tuple[int, ...]
    settings: tuple[bool, bool]
    examples: list[tuple[Sizes, Sizes]] = field(default_factory=list)

    def takes(self, other: ForwardFacts) -> bool:
        """Learn the sizes of another call. False if it is a call of another kind, or nothing is to be learned."""
        mine, its = (
            (f.is_single, f.dtypes, f.without_grad, f.settings, *[tuple(map(len, s)) for s in f.examples[0]])
            for f in (self, other)
        )
        if mine != its or len(self.examples) >= _MOST_EXAMPLES or other.examples[0] in self.examples:
            return False
        self.examples += other.examples
        return True

    def tells(self, other: ForwardFacts) -> bool:
        """Whether the sizes of the outputs follow from those of the arguments, in a call of the same kind too."""
        args, outputs = other.examples[0]
        return all([self.dims_of(i, args) == dims for i, dims in enumerate(outputs)])

    def dims_of(self, output: int, args: Sequence[tuple[Any, ...]]) -> tuple[Any, ...] | None:
        """The dims of an output in terms of those of the tensor arguments; None where the examples do not tell."""
        sizes = []
        for at, size in enumerate(self.examples[0][1][output]):
            places = [
                (arg, dim) for arg, dims in enumerate(args) for dim in range(len(dims))
                if all(arguments[arg][dim] == outputs[output][at] for arguments, outputs in self.examples)
            ]
            is_fixed = all(outputs[output][at] == size for _, outputs in self.examples)
            if not places and not is_fixed:
                return None
            same = [p for p in places if p[1] == at] or places
            sizes.append(args[same[0][0]][same[0][1]] if same else size)
        return tuple(sizes)


def facts_of(ctx: FunctionCtx, args: Sequence[Any], output: Any) -> ForwardFacts | None:
    """What is to be known of a call; None where its outputs are no new tensors."""
    outputs = output if isinstance(output, tuple) else (output,)
    tensors = [a for a in args if isinstance(a, Tensor)]
    if ctx._dirty or not all([isinstance(o, Tensor) and is_dense(o) for o in outputs]):
        return None
    roots = [id(root_of(t._data)) for t in (*tensors, *outputs) if is_dense(t)]
    if len(roots) < len(tensors) + len(outputs):
        return None
    if len({*roots[: len(tensors)]} & {*roots[len(tensors) :]}) or len({*roots[len(tensors) :]}) < len(outputs):
        return None
    without = tuple([i for i, o in enumerate(outputs) if any([o is t for t in ctx._without_grad])])
    sizes = tuple([tuple(t.shape) for t in tensors]), tuple([tuple(o.shape) for o in outputs])
    return ForwardFacts(
        not isinstance(output, tuple), tuple([o.dtype for o in outputs]), without,
        (ctx._materialize, ctx._materialize_non_diff_grads), [sizes],
    )


class _Local(threading.local):
    seen: list[tuple[Any, ForwardFacts | None]] | None = None


_local = _Local()


@contextmanager
def watched() -> Iterator[list[tuple[Any, ForwardFacts | None]]]:
    """Within the block: the Functions whose forward this thread calls, with what each call gave."""
    before, _local.seen = _local.seen, []
    try:
        yield _local.seen
    finally:
        _local.seen = before


def versions_of_views(args: Sequence[Any]) -> list[int]:
    """How often what the views among some arguments show has been written, while calls are watched."""
    return [] if _local.seen is None else [a._version for a in args if isinstance(a, Tensor) and a._view is not None]


def note(function: Any, ctx: FunctionCtx, args: Sequence[Any], output: Any, before: list[int]) -> None:
    """A forward has run. before: `versions_of_views` of before; one that writes a view that it is given writes what is
    seen elsewhere too."""
    if _local.seen is not None:
        facts = facts_of(ctx, args, output) if versions_of_views(args) == before else None
        _local.seen.append((function, facts))
