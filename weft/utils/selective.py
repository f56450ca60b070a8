"""Selective checkpointing: which operators of a checkpointed region keep their results,
and which run again in backward.

Two dispatch modes share a table: the one of the first run puts results there, the one of the second run takes them out
instead of computing.
"""

from __future__ import annotations

import enum
from collections import Counter
from collections.abc import Callable
from typing import Any, NamedTuple

from weft.layers.dispatch_modes import WeftDispatchMode
from weft.ops.packet import InplaceOverload, Overload, Packet
from weft.support import pytree
from weft.support.errors import ArgumentError, StateError, ValueProblem
from weft.tensor.tensor import Tensor


class CheckpointPolicy(enum.Enum):
    """What becomes of an operator's result. weft keeps what is *_SAVE or *_CPU_OFFLOAD;
    MUST and PREFER mean the same."""

    MUST_SAVE = 0
    PREFER_SAVE = 1
    MUST_RECOMPUTE = 2
    PREFER_RECOMPUTE = 3
    MUST_CPU_OFFLOAD = 4
    PREFER_CPU_OFFLOAD = 5


_RECOMPUTED = (CheckpointPolicy.MUST_RECOMPUTE, CheckpointPolicy.PREFER_RECOMPUTE)


class SelectiveCheckpointContext(NamedTuple):
    """What a policy is told beside the operator: that this is the first run, and the operator's result."""

    is_recompute: bool
    op_output: Any


Policy = Callable[..., Any]
Key = tuple[Any, int]  # an operator, and how often the region called it before


class _Kept(NamedTuple):
    """A result without history, and its version when it was made."""

    tensor: Tensor
    version: int


class _FirstRun(WeftDispatchMode):
    def __init__(self, policy: Policy, table: dict[Key, Any]) -> None:
        self.policy, self.table = policy, table
        self.calls: Counter[Any] = Counter()

    def __weft_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        key = (func, self.calls[func])
        self.calls[func] += 1
        wish = self.policy(SelectiveCheckpointContext(False, out), func, *args, **(kwargs or {}))
        keeps = wish if isinstance(wish, bool) else wish not in _RECOMPUTED
        # what a write or a view gives is another tensor's
        if keeps and not isinstance(func, InplaceOverload) and not getattr(func, "is_view", False):
            self.table[key] = pytree.map_leaves(
                lambda v: _Kept(v.detach(), v._version) if isinstance(v, Tensor) else v, out
            )
        return out


class _SecondRun(WeftDispatchMode):
    def __init__(self, table: dict[Key, Any], allows_writes: bool) -> None:
        self.table, self.allows_writes = table, allows_writes
        self.calls: Counter[Any] = Counter()

    def __enter__(self) -> Any:
        self.calls.clear()
        return super().__enter__()

    def __weft_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        key = (func, self.calls[func])
        self.calls[func] += 1
        if key not in self.table:
            return func(*args, **(kwargs or {}))
        return _shown(self.table.pop(key), func, self.allows_writes)


def _shown(cached: Any, func: Any, allows_writes: bool) -> Any:
    if isinstance(cached, _Kept):
        if not allows_writes and cached.tensor._version != cached.version:
            raise StateError(
                f"checkpoint: the result of {func} was kept and has been mutated since; clone it before the in-place "
                "operator, do not keep it, or pass allow_cache_entry_mutation=True"
            )
        return cached.tensor
    if isinstance(cached, (tuple, list)):
        return tuple([_shown(v, func, allows_writes) for v in cached])
    return cached


def create_selective_checkpoint_contexts(
    policy_fn_or_list: Any, allow_cache_entry_mutation: bool = False
) -> tuple[Any, Any]:
    """The two contexts that `checkpoint(..., context_fn=...)` asks for: operators of a list, or those that a policy
    names, are not run again.

    policy_fn_or_list: overloads such as `weft.ops.aten.mm.default`, or a function policy(ctx, op, *args, **kwargs)
    that gives a CheckpointPolicy (or whether to keep). Views and in-place operators always run again.
    allow_cache_entry_mutation: do not look whether a kept result was written.
    Raises ValueProblem and ArgumentError for anything else.
    """
    policy = policy_fn_or_list
    if isinstance(policy, list):
        for op in policy:
            _check_overload(op)
        listed = frozenset(policy)
        policy = lambda ctx, op, *args, **kwargs: op in listed  # noqa: E731
    elif not callable(policy):
        raise ArgumentError(
            f"policy_fn_or_list must be either a function or a list of ops, got {type(policy).__name__}"
        )
    table: dict[Key, Any] = {}
    return _FirstRun(policy, table), _SecondRun(table, allow_cache_entry_mutation)


def _check_overload(op: Any) -> None:
    if not isinstance(op, Overload):
        way_out = (
            ". Please update the OpOverloadPacket to a specific OpOverload, such as its .default"
            if isinstance(op, Packet) else ""
        )
        raise ValueProblem(
            f"Expected op in `op_list` to be an OpOverload but got: {op!r} of type {type(op).__name__}{way_out}"
        )
