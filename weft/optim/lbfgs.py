"""LBFGS: the limited-memory quasi-Newton method, with an optional strong Wolfe line search.
The closure is called several times per step."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from weft.ops.packet import aten
from weft.optim.checks import check_at_least_zero
from weft.optim.line_search import strong_wolfe
from weft.optim.optimizer import Optimizer, Params
from weft.optim.updates import dense
from weft.support.errors import StateError, ValueProblem
from weft.tensor.capture import refuse_in_capture
from weft.tensor.modes import enable_grad, no_grad
from weft.tensor.tensor import Tensor


class LBFGS(Optimizer):
    """Directions from the last `history_size` steps. One parameter group only.
    Source: Nocedal and Wright, Numerical Optimization, 7.2."""

    def __init__(
        self, params: Params, lr: float = 1, max_iter: int = 20, max_eval: int | None = None,
        tolerance_grad: float = 1e-7, tolerance_change: float = 1e-9, history_size: int = 100,
        line_search_fn: str | None = None,
    ) -> None:
        check_at_least_zero(lr=lr)
        if line_search_fn not in (None, "strong_wolfe"):
            raise ValueProblem("only 'strong_wolfe' is supported")
        super().__init__(params, {
            "lr": lr, "max_iter": max_iter, "max_eval": max_iter * 5 // 4 if max_eval is None else max_eval,
            "tolerance_grad": tolerance_grad, "tolerance_change": tolerance_change, "history_size": history_size,
            "line_search_fn": line_search_fn,
        })
        if len(self.param_groups) != 1:
            raise ValueProblem("LBFGS doesn't support per-parameter options (parameter groups)")

    @property
    def _params(self) -> list[Tensor]:
        params: list[Tensor] = self.param_groups[0]["params"]
        return params

    def _gradient(self) -> Tensor:
        """All gradients in one row; complex ones as pairs of real numbers."""
        return aten.cat(tuple(
            aten.reshape(_as_real(aten.zeros_like(p) if p.grad is None else dense(p.grad)), (-1,))
            for p in self._params
        ), 0)

    def _move(self, t: float, direction: Tensor) -> None:
        at = 0
        for p in map(_as_real, self._params):
            size = int(p.numel())
            p.add_(aten.view(aten.narrow(direction, 0, at, size), tuple(p.dims)), alpha=t)
            at += size

    def _put(self, values: list[Tensor]) -> None:
        for p, value in zip(self._params, values, strict=True):
            p.copy_(value)

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Up to max_iter iterations. `closure` clears the gradients, computes the loss, calls backward
        and returns the loss."""
        refuse_in_capture(
            "LBFGS decides in Python on the values of losses; call its step outside weft.compile"
        )
        if closure is None:
            raise StateError("LBFGS needs a closure that computes the loss anew")
        args, _ = self._before_step((self, closure), {})
        with no_grad():
            loss = self._iterate(enable_grad()(args[1]))
        self._after_step(args, {})
        return loss

    def _iterate(self, closure: Callable[[], Any]) -> Any:
        group, state = self.param_groups[0], self.state[self._params[0]]
        state.setdefault("func_evals", 0)
        state.setdefault("n_iter", 0)
        first = closure()
        loss, evaluations = float(first), 1
        state["func_evals"] += 1
        gradient = self._gradient()
        if float(aten.max(aten.abs(gradient))) <= group["tolerance_grad"]:
            return first
        for iteration in range(1, group["max_iter"] + 1):
            state["n_iter"] += 1
            direction = _direction(state, gradient, group["history_size"])
            previous_gradient, previous_loss = gradient.clone(), loss
            lr = float(group["lr"])
            t = lr / max(1.0, float(aten.sum(aten.abs(gradient)))) if state["n_iter"] == 1 else lr
            slope = float(aten.dot(gradient, direction))
            state.update(d=direction, t=t, prev_flat_grad=previous_gradient, prev_loss=previous_loss)
            if slope > -group["tolerance_change"]:
                break
            calls = 0
            if group["line_search_fn"] == "strong_wolfe":
                start = [p.clone() for p in self._params]
                loss, gradient, t, calls = strong_wolfe(
                    functools.partial(self._try, closure, start, direction=direction),
                    t, direction, loss, gradient, slope, group["max_eval"] - evaluations)
                self._move(t, direction)
            else:
                self._move(t, direction)
                if iteration != group["max_iter"]:
                    loss = float(closure())
                    gradient, calls = self._gradient(), 1
            state["t"] = t
            evaluations += calls
            state["func_evals"] += calls
            if evaluations >= group["max_eval"] or float(aten.max(aten.abs(gradient))) <= group["tolerance_grad"]:
                break
            change = group["tolerance_change"]
            if float(aten.max(aten.abs(direction * t))) <= change or abs(loss - previous_loss) < change:
                break
        return first

    def _try(
        self, closure: Callable[[], Any], start: list[Tensor], t: float, direction: Tensor
    ) -> tuple[float, Tensor]:
        """Loss and gradient at a point of the line; the parameters are put back."""
        self._move(t, direction)
        loss, gradient = float(closure()), self._gradient()
        self._put(start)
        return loss, gradient


def _as_real(x: Tensor) -> Tensor:
    return aten.view_as_real(x) if x.dtype.is_complex else x


def _direction(state: dict[str, Any], gradient: Tensor, history: int) -> Tensor:
    """The two-loop recursion over the remembered steps; the first direction is downhill."""
    if state["n_iter"] == 1:
        state.update(old_dirs=[], old_stps=[], ro=[], H_diag=1)
        return -gradient
    change, step = gradient - state["prev_flat_grad"], state["d"] * state["t"]
    curvature = float(aten.dot(change, step))
    if curvature > 1e-10:
        if len(state["old_dirs"]) == history:
            for name in ("old_dirs", "old_stps", "ro"):
                state[name].pop(0)
        state["old_dirs"].append(change)
        state["old_stps"].append(step)
        state["ro"].append(1.0 / curvature)
        state["H_diag"] = curvature / float(aten.dot(change, change))
    q = -gradient
    weights: list[float] = [0.0] * len(state["ro"])
    for i in range(len(weights) - 1, -1, -1):
        weights[i] = float(aten.dot(state["old_stps"][i], q)) * state["ro"][i]
        q.add_(state["old_dirs"][i], alpha=-weights[i])
    d = q * state["H_diag"]
    for i, weight in enumerate(weights):
        back = float(aten.dot(state["old_dirs"][i], d)) * state["ro"][i]
        d.add_(state["old_stps"][i], alpha=weight - back)
    return d
