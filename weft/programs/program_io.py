"""What a captured program takes and gives: where each graph parameter comes from at a call, and what happens to each
result.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any

import numpy as np

from weft.guards.slots import Slot
from weft.ops.geometry import Geometry
from weft.record.gradients import GradSlot
from weft.record.numbers.lifted import NumberInput
from weft.record.state import StateSlot
from weft.tensor.tensor import Tensor
from weft.types.dims import Dim


@dataclass(frozen=True)
class ArgumentSource:
    """A tensor argument: its place among the leaves, its dims in the graph, and how its bytes are ordered (strides:
    symbols, where it has gaps).

    expanded: dims in which it shows one element again and again, and the program takes that one.
    counter: the id of the storage that counted the versions in the capture, if the function writes it.
    """

    leaf: int
    dims: tuple[Dim, ...]
    permutation: tuple[int, ...] | None
    strides: tuple[Dim, ...] | None
    written: bool
    counter: int | None = None
    expanded: tuple[int, ...] = ()


@dataclass(frozen=True, eq=False)
class StateSource:
    """A storage that the function reaches from outside its arguments."""

    slot: StateSlot


@dataclass(frozen=True, eq=False)
class NumberSource:
    """A lifted float."""

    number: NumberInput


@dataclass(frozen=True, eq=False)
class GradBuffer:
    """The memory that receives `.grad` of a leaf (`has` gives the flag of an optional present gradient).

    leaf: its place among the call's leaves, where it is an argument; then `tensor` is the one of the capture only.
    is_later: whether a gradient with other memory comes before it.
    """

    slot: GradSlot
    tensor: Tensor
    leaf: int | None = None
    is_later: bool = False


@dataclass(frozen=True, eq=False)
class GradFlag:
    """Whether a leaf has a gradient already."""

    slot: GradSlot
    tensor: Tensor
    leaf: int | None = None


Source = ArgumentSource | StateSource | NumberSource | GradBuffer | GradFlag


@dataclass(frozen=True, eq=False)
class Shown:
    """How a view shows the memory of its base: geometry in elements of its own dtype."""

    geometry: Geometry
    dtype: np.dtype[Any]


@dataclass(frozen=True, eq=False)
class ReturnFresh:
    """A returned tensor: result `position`, or a view of it."""

    position: int
    shown: Shown | None


@dataclass(frozen=True, eq=False)
class ReturnState:
    """A returned tensor that aliases state: the tensor itself, or a view of its storage."""

    tensor: Tensor | None
    slot: StateSlot | None
    shown: Shown | None


@dataclass(frozen=True, eq=False)
class ReturnArgument:
    """A returned argument, or a view of one."""

    leaf: int
    shown: Shown | None


@dataclass(frozen=True, eq=False)
class ReturnGrad:
    """The returned `.grad` of a leaf as the call leaves it, or a view of it; `leaf` as in GradBuffer."""

    tensor: Tensor
    leaf: int | None
    shown: Shown | None


@dataclass(frozen=True, eq=False)
class ReturnView:
    """A returned view of the tensor that return number `root` gives: made anew by its view operators,
    so that autograd knows what it is.

    creation: of a view that a custom Function gave, whose history is not that of view operators: how it was made
    (`ViewOf.creation`). It is made without history, and the program's is put on it. earlier: the same of one that
    was made before its base was told to require a gradient: it has no history."""

    root: int
    path: tuple[tuple[Any, tuple[Any, ...], int], ...]
    is_recorded: bool  # whether it was made with grad mode on
    creation: str | None = None
    earlier: str | None = None


@dataclass(frozen=True, eq=False)
class ReturnConstant:
    """A leaf that is no tensor."""

    value: Any


@dataclass(frozen=True, eq=False)
class ReturnNumber:
    """A symbolic number: computed from the call's symbols, or result `position`."""

    position: int | None
    dim: Dim | None


@dataclass(frozen=True, eq=False)
class ReturnContainer:
    """A container among the arguments, or in a place of Python's state as it is before the program writes, that the
    caller gets back: child `path[0]` of the tree of arguments (of what the place holds), of that child `path[1]`, and
    so on."""

    path: tuple[int, ...]
    slot: Slot | None


@dataclass(frozen=True, eq=False)
class EarlierGradient:
    """The `.grad` that a leaf had when the call began, where a result or another `.grad` is that tensor. number: among
    those that the program gives."""

    tensor: Tensor
    leaf: int | None
    number: int


Return = (
    ReturnFresh | ReturnState | ReturnArgument | ReturnGrad | EarlierGradient | ReturnView | ReturnConstant
    | ReturnNumber | ReturnContainer
)


@dataclass(frozen=True, eq=False)
class GradEffect:
    """What becomes of a leaf's `.grad`: None, an object, or the buffer of parameter `param`."""

    slot: GradSlot
    tensor: Tensor
    value: Tensor | EarlierGradient | ReturnArgument | None
    param: int | None
    leaf: int | None = None


@dataclass(frozen=True, eq=False)
class NumberWrite:
    """A number attribute that the function changed: how to set it, and its new value. place: what it goes by, as where
    it is an input (NumberInput)."""

    set: Callable[[Any], None]
    position: int | None
    dim: Dim | None
    place: Hashable = None
