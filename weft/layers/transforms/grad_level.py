"""The level of grad, vjp and jacrev: its tensors carry a graph of their own, over values of the level below."""

from __future__ import annotations

from typing import Any

import weft.autograd.record as record
from weft.autograd.engine import install, run_backward
from weft.autograd.evaluator import Evaluator
from weft.autograd.views import check_inplace, rebase
from weft.layers import walk
from weft.layers.transforms.level import Level, Wrapper, same_form
from weft.ops.op import Op
from weft.ops.packet import aten
from weft.support.errors import StateError
from weft.tensor.backend import tensors_in
from weft.tensor.modes import modes, set_grad_enabled
from weft.tensor.tensor import Tensor, tensor_around
from weft.tensor.views import view_of


class GradTracking(Wrapper):
    """A value with history at one level."""

    __slots__ = ()
    word = "GradTrackingTensor"


class GradLevel(Level):
    """Records what runs on its tensors. Every result is one of its tensors; one that is not was made outside
    and may not be written."""

    name = "grad"
    records_history = True

    def __init__(self) -> None:
        super().__init__()
        self.is_quiet = False  # while its own backward runs: nobody differentiates that at this level

    # ---- wrapping
    def lift(self, value: Any) -> Any:
        """Tensors as tensors of this level, without history."""
        if isinstance(value, Tensor):
            return value if self.owns(value) else self.wrap(value)
        if type(value) in (tuple, list):
            return tuple([self.lift(v) for v in value])
        return value

    def wrap(self, value: Tensor) -> Tensor:
        """A tensor of this level around a value."""
        out = tensor_around(GradTracking(self, value))
        out._storage = value._storage
        return out

    def leaf(self, value: Tensor) -> Tensor:
        """A tensor of this level that gradients are asked for. Raises DTypeError."""
        return self.wrap(value).requires_grad_()

    # ---- operators
    def intercept(self, op: Op, args: tuple[Any, ...]) -> Any:
        """Record the operator if its arguments have history here, and compute it below."""
        if op.opens_above_autograd:
            return walk.opened(op, args)
        records, values = self._looked_at(args)
        node = record.prepare(op, self.lift(args)) if records and op.is_differentiable else None
        previous = modes.grad
        modes.grad = previous and self.grad_outside
        try:
            out = self.down(walk.walk, op, values)
        finally:
            modes.grad = previous
        wrapped = self._wrapped(op, args, out)
        return wrapped if node is None else record.finish(node, wrapped)

    def _looked_at(self, args: tuple[Any, ...]) -> tuple[bool, tuple[Any, ...]]:
        """Whether some tensor of this level wants a gradient (and the level records), and what the level below sees;
        in one pass, being on every path."""
        silent = not modes.grad or self.is_quiet
        records = False
        values: list[Any] = []
        for a in args:
            data = a._data if isinstance(a, Tensor) else None
            if type(data) is GradTracking and data.level is self:
                values.append(data.value)
                if not silent and not records and (a._autograd is not None or a._view is not None):
                    records = a.requires_grad
            elif type(a) in (tuple, list):
                values.append(self.lower(a))
                records = records or (not silent and self.records(a))
            else:
                values.append(a)
        return records, tuple(values)

    def records(self, args: tuple[Any, ...]) -> bool:
        """Whether some tensor of this level among the arguments wants a gradient."""
        if not modes.grad or self.is_quiet:
            return False
        return any(self.owns(t) and t.requires_grad for t in tensors_in(args))

    def _wrapped(self, op: Op, args: tuple[Any, ...], out: Any) -> Any:
        if type(out) is Tensor and op.view is None:
            return self.wrap(out)
        if isinstance(out, (tuple, list)):
            return same_form(out, [self._wrapped_one(op, args, o, i) for i, o in enumerate(out)])
        return self._wrapped_one(op, args, out, 0)

    def _wrapped_one(self, op: Op, args: tuple[Any, ...], out: Any, index: int) -> Any:
        if not isinstance(out, Tensor):
            return out
        tensor = self.wrap(out)
        if op.view is None:
            return tensor
        source = self.lift(args[0])
        storage = source.storage()
        if out._storage is not storage:
            return tensor  # strides could not express it
        view = view_of(source, storage, tensor._data, op, tuple(args[1:]), index)
        return view

    def intercept_inplace(self, op: Op, args: tuple[Any, ...]) -> Any:
        """The write happens below; the history of the written tensor here takes the functional form."""
        target: Tensor = args[0]
        if not self.owns(target):
            raise captured_write(op)
        wants = target.dtype.is_differentiable and self.records(args)
        check_inplace(target, wants)
        target.storage()
        if not wants:
            self._write(op, args)
            return target
        if op.opens_above_autograd:
            return walk.copy_into(target, walk.opened(op, (aten.clone(target), *args[1:])))
        node = record.prepare(op, self.lift(args), clone_self=True) or walk.blocking_node(op)
        self._write(op, args)
        rebase(target, node)
        record.save_results(node, (target,))
        return target

    def _write(self, op: Op, args: tuple[Any, ...]) -> None:
        with set_grad_enabled(modes.grad and self.grad_outside):
            self.down(walk.inplace, op, self.lower(args))

    # ---- gradients
    def gradients(
        self, outputs: list[Tensor], inputs: list[Tensor], seeds: list[Any], keep: bool = False
    ) -> list[Tensor]:
        """Gradients of outputs with respect to leaves of this level, as values of the level below;
        zeros where nothing flows.

        `keep`: the graph will be asked again. The level must be the top of the stack.
        A compiler that is installed does not take part: it sees what the formulas call, at the bottom.
        """
        # histories of views, while it records
        pairs = [
            (o, s) for o, s in zip(outputs, seeds, strict=True) if self.owns(o) and record.gradient_edge(o) is not None
        ]
        gradients: tuple[Any, ...] = (None,) * len(inputs)
        if pairs:
            with install(Evaluator()):
                previous, self.is_quiet = self.is_quiet, True
                try:
                    gradients = run_backward(
                        [o for o, _ in pairs], [self.lift(s) for _, s in pairs], keep, modes.grad, inputs, False
                    )
                finally:
                    self.is_quiet = previous
        return [self.lower(aten.zeros_like(t) if g is None else g) for g, t in zip(gradients, inputs, strict=True)]


def captured_write(op: Op) -> StateError:
    """The refusal of an in-place operator on a tensor that the function did not get as an argument."""
    return StateError(
        "During a grad (vjp, jvp, grad, etc) transform, the function provided attempted to call in-place operation "
        f"({op.name}_) that would mutate a captured Tensor. This is not supported; please rewrite the function being "
        "transformed to explicitly accept the mutated Tensor(s) as inputs."
    )
