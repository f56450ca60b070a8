"""What a capture found, before it is a program."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from weft import guards
from weft.compile.program.bound_state import BoundState
from weft.compile.program.container_identity import IdentityGuard
from weft.ir.graph import Operand
from weft.programs.argument_histories import HistoryChanges
from weft.programs.arguments import leaf_of
from weft.programs.joint_record import JointRecord
from weft.programs.program_io import EarlierGradient, GradEffect, NumberWrite, Return, Source
from weft.record.capture import Capture
from weft.record.numbers.random_state import RandomState
from weft.support import pytree
from weft.tensor.tensor import Tensor


@dataclass(eq=False)
class Outcome:
    """One run of a function under a capture: what it was given, and what it did.

    leaves, facts: of the call's arguments, and what the program depends on about each; attributes: what users have put
    on tensors among them, by their ids. sources: of the graph's
    parameters; results, writes: of the graph. returns: for each leaf of the function's result (of structure `spec`)
    what becomes of it; carriers: the tensors that have its history. named: ids of the tensors that guards know; apart:
    arguments whose memory other tensors may have or not; met: the tensors from outside that the function came upon.
    gradients: which of `returns` are the `.grad` of which others.
    """

    capture: Capture
    leaves: list[Any]
    bound: BoundState
    facts: list[Any] = field(default_factory=list)
    attributes: dict[int, dict[str, Any]] = field(default_factory=dict)
    stand_ins: list[Any] = field(default_factory=list)
    sources: list[Source | None] = field(default_factory=list)
    results: list[Operand] = field(default_factory=list)
    writes: list[tuple[int, int]] = field(default_factory=list)
    returns: list[tuple[Return, int]] = field(default_factory=list)
    carriers: list[Any] = field(default_factory=list)
    spec: pytree.TreeSpec = pytree.LEAF
    joint: tuple[JointRecord, int, list[int]] | None = None
    grad_effects: list[GradEffect] = field(default_factory=list)
    number_writes: list[NumberWrite] = field(default_factory=list)
    random: list[RandomState] = field(default_factory=list)
    late: list[tuple[str, int]] = field(default_factory=list)
    is_inference: bool = False  # whether the caller is in inference mode
    leaves_grad: bool | None = None  # grad mode as the function leaves it, if it changes it
    assigned: list[guards.ObjectWrite] = field(default_factory=list)
    spent: list[int] = field(default_factory=list)
    raised: dict[int, tuple[Any, int]] = field(default_factory=dict)
    made_leaves: list[int] = field(default_factory=list)
    retained: list[int] = field(default_factory=list)
    gradients: list[tuple[int, int]] = field(default_factory=list)
    changes: HistoryChanges = field(default_factory=HistoryChanges)
    checks: Any = None
    # the same after each call of Python
    after_calls: list[tuple[Any, Callable[[], bool]]] = field(default_factory=list)
    named: set[int] = field(default_factory=set)
    apart: set[int] = field(default_factory=set)
    met: list[Tensor] = field(default_factory=list)
    containers: list[list[Any]] = field(default_factory=list)  # of the call, and which of them are one object
    pattern: tuple[int, ...] = ()
    identity: IdentityGuard | None = None
    earlier: dict[int, EarlierGradient] = field(default_factory=dict)  # those that the program gives, by id

    def leaf_of(self, tensor: Tensor) -> int | None:
        """Which argument a tensor is; None if the function reaches it otherwise."""
        return leaf_of(tensor, self.leaves)

    def earlier_gradient(self, tensor: Tensor) -> EarlierGradient | None:
        """Whose `.grad` a tensor from outside was when the call began, for another call finds another one there."""
        gradients = self.capture.leaf_gradients
        owner = gradients.earlier.get(id(tensor))
        if owner is not None and id(tensor) not in self.earlier:
            real = gradients.real(owner[1])
            self.earlier[id(tensor)] = EarlierGradient(real, self.leaf_of(real), len(self.earlier))
        return self.earlier.get(id(tensor))

    def result(self, operand: Operand) -> int:
        """The position of a new result."""
        self.results.append(operand)
        return len(self.results) - 1

    def put_source(self, at: int, source: Source) -> None:
        """Say where a parameter comes from."""
        self.sources.extend([None] * (at + 1 - len(self.sources)))
        self.sources[at] = source
