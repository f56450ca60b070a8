"""The level of forward_ad.dual_level(): autograd stands above it, so gradients of dual tensors carry tangents
(forward over reverse).

What is computed with dual tensors has two histories: one of the dual tensors themselves, and below it those of values
and tangents, which unpack_dual gives out. A plain tensor that a tangent is written into becomes a dual one
until the level ends.
"""

from __future__ import annotations

import weakref
from typing import Any

import weft.autograd.record as record
from weft.autograd.views import check_inplace, follow, path_from_base, rebase
from weft.layers import walk
from weft.layers.transforms.dual import Dual, DualLevel
from weft.ops.op import Op
from weft.ops.packet import aten
from weft.support.errors import StateError
from weft.tensor.backend import tensors_in
from weft.tensor.dense import payload_of
from weft.tensor.history import AutogradState
from weft.tensor.modes import modes
from weft.tensor.tensor import Tensor, tensor_around


class ForwardADLevel(DualLevel):
    """Pushes tangents forward, below autograd. Only what has a tangent is one of its tensors."""

    name = "forward_ad"
    records_history = True

    def __init__(self) -> None:
        super().__init__(wraps_all=False)
        self.is_quiet = False  # nothing is recorded for dual tensors; for values and tangents, below, it still is
        self.adopted: list[weakref.ref[Tensor]] = []

    def __exit__(self, *error: Any) -> None:
        super().__exit__(*error)
        for reference in self.adopted:
            tensor = reference()
            if tensor is not None and self.owns(tensor):
                tensor._data = tensor._data.value._data

    def dual(self, tensor: Tensor, tangent: Tensor) -> Tensor:
        """A tensor with this tangent, whose gradient is that of `tensor`."""
        dual = self.make(self.lower(tensor), tangent)
        node = record.prepare(aten.alias.default.op, (tensor,)) if modes.grad and tensor.requires_grad else None
        return dual if node is None else record.finish(node, dual)

    # ---- operators
    def intercept(self, op: Op, args: tuple[Any, ...]) -> Any:
        """Value and tangent of the operator, and the node of the dual result."""
        if op.opens_above_autograd or not (op.is_differentiable and self.records(args)):
            return super().intercept(op, args)
        node = record.prepare(op, args)
        out = super().intercept(op, args)
        if node is None or not any(self.owns(t) for t in (out if isinstance(out, (tuple, list)) else (out,))):
            return out
        return record.finish(node, out)

    def records(self, args: tuple[Any, ...]) -> bool:
        """Whether a dual tensor is among the arguments, and one of them wants a gradient."""
        if not modes.grad or self.is_quiet:
            return False
        tensors = tensors_in(args)
        return any(self.owns(t) for t in tensors) and any(t.requires_grad for t in tensors)

    # ---- writes
    def intercept_inplace(self, op: Op, args: tuple[Any, ...]) -> Any:
        """Value and tangent are written below; the history of the dual tensor takes the functional form."""
        target: Tensor = args[0]
        if op.opens_above_autograd and any(self.owns(t) for t in tensors_in(args)):
            return walk.copy_into(target, walk.walk(op, (aten.clone(target), *args[1:])))
        carries = op.is_differentiable and target.dtype.is_differentiable
        gains = carries and not self.owns(target) and any(self.tangent_of(t) is not None for t in tensors_in(args))
        wants = (
            carries and modes.grad and not self.is_quiet and (self.owns(target) or gains)
            and any(t.requires_grad for t in tensors_in(args))
        )
        if wants or gains:
            walk.check_result(op, args, target)
            check_inplace(target, wants)
        if gains:
            self._adopt(target)
        if not self.owns(target):
            self.down(walk.inplace, op, self.lower(args))
            return target
        if not wants:
            return super().intercept_inplace(op, args)
        node = record.prepare(op, args, clone_self=True) or walk.blocking_node(op)
        super().intercept_inplace(op, args)
        rebase(target, node)
        record.save_results(node, (target,))
        return target

    def _adopt(self, target: Tensor) -> None:
        """Make a plain tensor (and what it is a view of) one of this level, without a tangent yet."""
        base = target if target._view is None else target._view.base
        path = () if base is target else path_from_base(target)
        if not self.owns(base):
            value = tensor_around(base._data)
            value._storage = base.storage()
            edge = None if base._node is None else record.gradient_edge(base)
            if edge is not None:
                value._autograd = AutogradState(False, *edge)
            self._become(base, value)
        if target is not base:
            self._become(target, self.down(follow, base._data.value, path))

    def _become(self, tensor: Tensor, value: Tensor) -> None:
        if not payload_of(tensor).has_bytes:
            raise StateError(
                "a tangent is written into a tensor of another transform, or one without bytes; "
                "make it a dual tensor first (forward_ad.make_dual) or use the out-of-place operator"
            )
        tensor.storage()
        tensor._data = Dual(self, value, None)
        self.adopted.append(weakref.ref(tensor))
