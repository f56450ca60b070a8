"""gradcheck and gradgradcheck: gradients by backward against central differences.

Complex tensors count as pairs of real numbers: the gradient of a real loss L with respect to z is dL/dRe z + i dL/dIm
z, so both sides are real Jacobians. The fast mode compares one random projection u' J v instead of every entry.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from weft.autograd.api import grad
from weft.autograd.function import Function
from weft.autograd.gradient_numbers import (
    Array,
    as_tuple,
    differentiable,
    flat,
    flat_or_zero,
    numbers_of,
    random_like,
    seed_of,
)
from weft.support.errors import StateError, ValueProblem
from weft.support.warn import warn
from weft.tensor.tensor import Tensor


class GradcheckError(RuntimeError):
    """What gradcheck found wrong."""


def gradcheck(
    func: Callable[..., Any], inputs: Any, *, eps: float = 1e-6, atol: float = 1e-5, rtol: float = 1e-3,
    raise_exception: bool = True, nondet_tol: float = 0.0, check_undefined_grad: bool = True,
    check_grad_dtypes: bool = False, check_batched_grad: bool = False, check_batched_forward_grad: bool = False,
    check_forward_ad: bool = False, check_backward_ad: bool = True, fast_mode: bool = False,
    masked: bool | None = None,
) -> bool:
    """Whether backward's gradients of `func` agree with central differences of step `eps`,
    within atol + rtol * |numerical|.

    Args:
        func: takes the inputs, returns a tensor or a tuple of tensors.
        inputs: a tensor or a tuple; those of float64 or complex128 that require grad are checked.
        nondet_tol: how much two runs of backward may differ.
        check_undefined_grad: whether outputs without a gradient must count as zero gradients.
        check_batched_grad: whether gradients of a batch (by vmap) must be those of its members.
        check_batched_forward_grad: whether its tangents must.
        check_forward_ad: whether tangents through dual tensors are checked too.
        check_backward_ad: whether gradients are.
        fast_mode: compare one random projection per pair of input and output.

    Raises GradcheckError (or returns False without raise_exception), ValueProblem when no input requires grad.
    """
    if not (check_forward_ad or check_backward_ad):
        raise ValueProblem("Expected at least one of check_forward_ad or check_backward_ad to be True")
    operands = inputs if isinstance(inputs, tuple) else tuple(inputs) if isinstance(inputs, list) else (inputs,)
    check = _Check(func, operands, eps, atol, rtol, nondet_tol, check_grad_dtypes, fast_mode)
    try:
        if check_backward_ad:
            check.run(check_undefined_grad, check_batched_grad)
        if check_forward_ad:
            check.run_forward(check_batched_forward_grad)
    except GradcheckError:
        if raise_exception:
            raise
        return False
    return True


def gradgradcheck(
    func: Callable[..., Any], inputs: Any, grad_outputs: Any = None, *, eps: float = 1e-6, atol: float = 1e-5,
    rtol: float = 1e-3, gen_non_contig_grad_outputs: bool = False, raise_exception: bool = True,
    nondet_tol: float = 0.0, check_undefined_grad: bool = True, check_grad_dtypes: bool = False,
    check_batched_grad: bool = False, check_fwd_over_rev: bool = False, check_rev_over_rev: bool = True,
    fast_mode: bool = False, masked: bool | None = None,
) -> bool:
    """gradcheck of the gradient function of `func`, at `grad_outputs` (random when not given), which are inputs too.

    check_rev_over_rev: whether its gradients are checked; check_fwd_over_rev: whether its tangents are.
    The rest is gradcheck's.
    """
    points = inputs if isinstance(inputs, tuple) else tuple(inputs) if isinstance(inputs, list) else (inputs,)
    outputs = differentiable(as_tuple(func(*points)))
    if grad_outputs is None:
        seeds = tuple(random_like(o, gen_non_contig_grad_outputs) for o in outputs)
    else:
        seeds = as_tuple(grad_outputs)
    count = len(seeds)

    def gradients(*args: Any) -> tuple[Any, ...]:
        points, directions = args[: len(args) - count], args[len(args) - count :]
        wanted = tuple(p for p in points if isinstance(p, Tensor) and p.requires_grad)
        per_input = grad(
            differentiable(as_tuple(func(*points))), wanted, directions, create_graph=True, allow_unused=True
        )
        return tuple(g for g in per_input if g is not None)

    return gradcheck(
        gradients, (*points, *seeds), eps=eps, atol=atol, rtol=rtol, raise_exception=raise_exception,
        nondet_tol=nondet_tol, check_undefined_grad=check_undefined_grad, check_grad_dtypes=check_grad_dtypes,
        check_batched_grad=check_batched_grad, fast_mode=fast_mode, check_forward_ad=check_fwd_over_rev,
        check_backward_ad=check_rev_over_rev,
    )


class _Undefined(Function):
    """An output whose gradient goes nowhere."""

    @staticmethod
    def forward(ctx: Any, out: Tensor) -> Tensor:
        return out.clone()

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return None


class _Check:
    """One call of gradcheck."""

    def __init__(
        self, func: Callable[..., Any], inputs: tuple[Any, ...], eps: float, atol: float, rtol: float,
        nondet_tol: float, dtypes: bool, fast: bool,
    ) -> None:
        self.func, self.inputs = func, inputs
        self.eps, self.atol, self.rtol, self.nondet_tol, self.dtypes, self.fast = (
            eps, atol, rtol, nondet_tol, dtypes, fast
        )
        self.places: list[int] = []
        self.random = np.random.default_rng(0)
        self.checked = [t for t in inputs if isinstance(t, Tensor) and t.requires_grad]

    def run(self, undefined: bool, batched: bool) -> None:
        self._look_at_inputs()
        first = self.outputs()
        outputs = differentiable(first)
        self.places = [k for k, o in enumerate(first) if any(o is d for d in outputs)]
        if not outputs:
            self._without_outputs()
            return
        for tensor in self.checked:
            tensor.retain_grad()
        for i, out in enumerate(outputs):
            for j, tensor in enumerate(self.checked):
                (self._projected if self.fast else self._whole)(i, out, j, tensor)
        if undefined:
            self._undefined(outputs)
        if batched:
            self._batched(outputs)

    def run_forward(self, batched: bool) -> None:
        """Tangents instead of gradients."""
        self._look_at_inputs()
        self.places = [k for k, o in enumerate(self.outputs()) if isinstance(o, Tensor) and o.dtype.is_differentiable]
        for i in range(len(self.places)):
            for j, tensor in enumerate(self.checked):
                self._pushed(i, j, tensor)
                if batched:
                    self._pushed_batch(i, j, tensor)

    def _pushed(self, i: int, j: int, tensor: Tensor) -> None:
        from weft.autograd.forward_check import pushed  # it stands on the transforms, which stand on this package

        numbers = numbers_of(tensor)
        size = flat(self.outputs()[self.places[i]]).size
        directions = [self.random.standard_normal(numbers.size)] if self.fast else list(np.eye(numbers.size))
        numerical = [self._along(numbers, d.reshape(numbers.shape), self._value(i)) for d in directions]
        tangents = [pushed(self.func, self.inputs, tensor, seed_of(d, tensor), self.places[i]) for d in directions]
        analytical = [np.zeros(size) if t is None else flat(t) for t in tangents]
        self._compare(i, j, np.asarray(numerical), np.asarray(analytical), "Jacobian computed with forward mode")

    def _pushed_batch(self, i: int, j: int, tensor: Tensor) -> None:
        """A batch of tangents must give what its members give one by one."""
        from weft.autograd.forward_check import pushed, pushed_batch  # idem

        directions = [random_like(tensor).detach() * k for k in (1, -2)]
        batch = pushed_batch(self.func, self.inputs, tensor, directions, self.places[i])
        for k, direction in enumerate(directions):
            alone = pushed(self.func, self.inputs, tensor, direction, self.places[i])
            if not np.allclose(flat_or_zero(batch[k]), flat_or_zero(alone), self.rtol, self.atol):
                raise GradcheckError(
                    f"For output {i} and input {j}: the tangents of a batch differ from those of its members"
                )

    def outputs(self) -> tuple[Any, ...]:
        return as_tuple(self.func(*self.inputs))

    def _look_at_inputs(self) -> None:
        if not self.checked:
            raise ValueProblem(
                "gradcheck expects at least one input tensor to require gradient, but none of the them have "
                "requires_grad=True."
            )
        for i, tensor in enumerate(self.checked):
            if tensor.dtype.itemsize < (16 if tensor.dtype.is_complex else 8):
                warn(
                    f"Input #{i} requires gradient and is not a double precision floating point or complex. "
                    "This check will likely fail if all the "
                    "inputs are not of double precision floating point or complex.",
                )
            if tensor.numel() and any(s == 0 and d > 1 for s, d in zip(tensor.stride(), tensor.shape, strict=False)):
                raise StateError(
                    f"The {i}th input has a dimension with stride 0. gradcheck only supports inputs that are "
                    "non-overlapping to be able to compute the numerical gradients correctly. "
                    "You should call .contiguous on the input before passing it to gradcheck."
                )

    def _without_outputs(self) -> None:
        """A function whose outputs require no grad must not depend on the inputs."""
        self.places = [k for k, o in enumerate(self.outputs()) if isinstance(o, Tensor) and o.dtype.is_differentiable]
        for i in range(len(self.places)):
            for tensor in self.checked:
                columns = self._columns(tensor, self._value(i))
                if any(np.any(c) for c in columns):
                    raise GradcheckError("Numerical gradient for function expected to be zero")

    # ---- numerical
    def _columns(self, tensor: Tensor, value: Callable[[], Array]) -> list[Array]:
        """dOut/dx for each real number x of the tensor."""
        numbers = numbers_of(tensor)
        columns = []
        for index in np.ndindex(numbers.shape):
            columns.append(self._difference(numbers, index, value))
        return columns

    def _difference(self, numbers: Array, index: Any, value: Callable[[], Array]) -> Array:
        before = numbers[index]
        numbers[index] = before + self.eps
        above = value()
        numbers[index] = before - self.eps
        below = value()
        numbers[index] = before
        return (above - below) / (2 * self.eps)

    def _value(self, i: int) -> Callable[[], Array]:
        first = self.outputs()[self.places[i]]

        def value() -> Array:
            out = self.outputs()[self.places[i]]
            if out.shape != first.shape or out.dtype is not first.dtype:
                raise GradcheckError(
                    "Expected func to return outputs with the same shape and dtype when inputs are perturbed within "
                    f"epsilon, but output {i} is {list(first.shape)} {first.dtype} once and {list(out.shape)} "
                    f"{out.dtype} another time"
                )
            return flat(out)

        return value

    # ---- by backward
    def _row(self, i: int, tensor: Tensor, seed: Array) -> Array:
        """The gradient for one direction of output i, as real numbers; computed twice."""
        rows = []
        for _ in range(2):
            out = differentiable(self.outputs())[i]
            (gradient,) = grad((out,), (tensor,), (seed_of(seed, out),), allow_unused=True)
            if gradient is not None and self.dtypes and gradient.dtype is not tensor.dtype:
                raise GradcheckError(f"Expected {tensor.dtype} as dtype of the gradient, got {gradient.dtype}")
            rows.append(np.zeros(numbers_of(tensor).size) if gradient is None else flat(gradient))
        if rows[0].size and float(np.max(np.abs(rows[0] - rows[1]))) > self.nondet_tol:
            raise GradcheckError(
                "Backward is not reentrant, i.e., running backward with same input and grad_output multiple times "
                "gives different values, although analytical gradient matches numerical gradient. "
                f"The tolerance for nondeterminism was {self.nondet_tol}."
            )
        return rows[0]

    # ---- comparing
    def _whole(self, i: int, out: Tensor, j: int, tensor: Tensor) -> None:
        columns = self._columns(tensor, self._value(i))
        size = flat(out).size
        numerical = np.stack(columns) if columns else np.zeros((0, size))
        analytical = np.zeros_like(numerical)
        for k in range(size):
            seed = np.zeros(size)
            seed[k] = 1.0
            analytical[:, k] = self._row(i, tensor, seed)
        self._compare(i, j, numerical, analytical)

    def _projected(self, i: int, out: Tensor, j: int, tensor: Tensor) -> None:
        size = flat(out).size
        v = self.random.standard_normal(size)
        numbers = numbers_of(tensor)
        u: Array = np.asarray(self.random.standard_normal(numbers.shape))
        u = u / (np.linalg.norm(u) or 1.0)
        numerical = np.dot(self._along(numbers, u, self._value(i)), v)
        analytical = np.dot(self._row(i, tensor, v), u.reshape(-1))
        self._compare(i, j, np.asarray(numerical), np.asarray(analytical))

    def _along(self, numbers: Array, direction: Array, value: Callable[[], Array]) -> Array:
        before = numbers.copy()
        numbers[...] = before + self.eps * direction
        above = value()
        numbers[...] = before - self.eps * direction
        below = value()
        numbers[...] = before
        return (above - below) / (2 * self.eps)

    def _compare(self, i: int, j: int, numerical: Array, analytical: Array, what: str = "Jacobian") -> None:
        if np.allclose(analytical, numerical, self.rtol, self.atol, equal_nan=True):
            return
        raise GradcheckError(
            f"{what} mismatch for output {i} with respect to input {j},\nnumerical:{numerical}\n"
            f"analytical:{analytical}\n"
        )

    # ---- missing gradients, batches of gradients
    def _undefined(self, outputs: tuple[Tensor, ...]) -> None:
        """Outputs that receive no gradient, all of them or one, must count as if they received zeros."""
        many = [(k,) for k in range(len(outputs))] if len(outputs) > 1 else []
        for missing in [tuple(range(len(outputs))), *many]:
            outs = [_Undefined.apply(o) if k in missing else o for k, o in enumerate(differentiable(self.outputs()))]
            zeros = [o.detach() * 0 for o in outs]
            try:
                gradients = grad(outs, self.checked, zeros, allow_unused=True)
            except (RuntimeError, TypeError, AttributeError) as error:
                raise GradcheckError(
                    "Expected backward function to handle undefined output grads: it gets None for an output that "
                    "receives no gradient after ctx.set_materialize_grads(False)"
                ) from error
            if any(g is not None and np.any(flat(g)) for g in gradients):
                raise GradcheckError(
                    "Expected all input grads to be undefined or zero when all output grads are undefined or zero"
                )

    def _batched(self, outputs: tuple[Tensor, ...]) -> None:
        """A batch of gradients must give what its members give one by one."""
        from weft.ops.packet import aten  # one function

        for i in range(len(outputs)):
            out = differentiable(self.outputs())[i]
            seeds = [random_like(out) for _ in range(2)]
            single = [grad((out,), self.checked, (s,), retain_graph=True, allow_unused=True) for s in seeds]
            batch = grad(
                (out,), self.checked, (aten.stack(tuple(seeds)),), retain_graph=True, allow_unused=True,
                is_grads_batched=True,
            )
            for j, rows in enumerate(batch):
                for k in range(2):
                    if rows is not None and not np.allclose(flat(rows[k]), flat(single[k][j]), self.rtol, self.atol):
                        raise GradcheckError(
                            f"For output {i} and input {j}: the gradients of a batch differ from those of its members"
                        )
