"""Calls whose settings change: the default dtype, grad mode, autocast, anomaly mode and the like are others around each
forward, around the backward of its result, and around parts of the body. The truth is eager mode under the same ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np

import weft
from tests.symbols_left import symbols_left
from weft.autograd.graph import saved_tensors_hooks
from weft.utils.checkpoint import checkpoint

F = weft.nn.functional
Array = np.ndarray[Any, Any]
Body = Callable[[weft.Tensor, weft.Tensor], weft.Tensor]


# ---------------------------------------------------------------- settings
Block = Callable[[], AbstractContextManager[Any]]


def _switched(get: Callable[[], Any], put: Callable[[Any], Any], value: Any) -> Block:
    @contextmanager
    def block() -> Iterator[None]:
        before = get()
        put(value)
        try:
            yield
        finally:
            put(before)

    return block


def _default(dtype: weft.dtype) -> Block:
    return _switched(weft.get_default_dtype, weft.set_default_dtype, dtype)


class Watching(weft.overrides.WeftFunctionMode):
    """A function mode that changes nothing."""

    def __weft_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return func(*args, **(kwargs or {}))


SETTINGS: dict[str, Block] = {
    "none": nullcontext, "float32": _default(weft.float32), "float64": _default(weft.float64),
    "half": _default(weft.bfloat16), "autocast": lambda: weft.autocast("cpu", dtype=weft.bfloat16),
    "no autocast": lambda: weft.autocast("cpu", enabled=False), "anomaly": weft.autograd.detect_anomaly,
    "deterministic": _switched(
        weft.are_deterministic_algorithms_enabled, weft.use_deterministic_algorithms, True
    ),
    "threads": _switched(weft.get_num_threads, weft.set_num_threads, 2), "mode": Watching,
    "saved": lambda: saved_tensors_hooks(lambda t: t, lambda t: t), "no grad": weft.no_grad,
    "grad": weft.enable_grad, "inference": weft.inference_mode,
}
AROUND_BACKWARD = [name for name in SETTINGS if name not in ("no grad", "inference")]


# ---------------------------------------------------------------- bodies
class Asking(weft.autograd.Function):
    """A product whose backward asks for a setting."""

    @staticmethod
    def forward(ctx: Any, x: weft.Tensor, w: weft.Tensor) -> weft.Tensor:
        ctx.save_for_backward(x, w)
        return x @ w

    @staticmethod
    def backward(ctx: Any, g: weft.Tensor) -> tuple[weft.Tensor, weft.Tensor]:
        x, w = ctx.saved_tensors
        factor = 2 if weft.is_autocast_enabled("cpu") else 1
        return g.to(w.dtype) @ w.t() * factor, x.t() @ g.to(x.dtype)


def in_full(x: weft.Tensor, w: weft.Tensor) -> weft.Tensor:
    with weft.autocast("cpu", enabled=False):
        return (x @ w).tanh() @ w.t()


def in_part(x: weft.Tensor, w: weft.Tensor) -> weft.Tensor:
    with weft.autocast("cpu", dtype=weft.bfloat16):
        y = x @ w
    return y.to(x.dtype).sin() * x.sum()


def factories(x: weft.Tensor, w: weft.Tensor) -> weft.Tensor:
    n, i = x.shape[0], weft.arange(x.shape[1])
    parts = weft.arange(0.0, n)[:, None], weft.linspace(0, 1, 3), i / 3, i.sin(), weft.full((3,), 1 / 3), weft.eye(3)[0]
    return sum((p.to(x.dtype) * x).sin() for p in parts) * w.sum()  # type: ignore[return-value]


def asking(x: weft.Tensor, w: weft.Tensor) -> weft.Tensor:
    y = x * (2 if weft.is_grad_enabled() else 3) + (weft.get_default_dtype() is weft.float32) * w.sum()
    return y * (0.5 if weft.is_autocast_enabled("cpu") else 1) + weft.is_anomaly_enabled() * x


def normalized(x: weft.Tensor, w: weft.Tensor) -> weft.Tensor:
    y = F.layer_norm(F.softplus(x @ w).to(x.dtype), (3,))
    return y * F.cross_entropy((x @ w).to(x.dtype), weft.arange(x.shape[0]) % 3)


def hooked(x: weft.Tensor, w: weft.Tensor) -> weft.Tensor:
    y = (x @ w).to(x.dtype)
    if y.requires_grad:
        y.register_hook(lambda g: g * (2 if weft.is_autocast_enabled("cpu") else 1))
    return y.sin()


def scanned(x: weft.Tensor, w: weft.Tensor) -> weft.Tensor:
    steps = weft.arange(1.0, 3.0)
    return weft.scan(lambda c, t: ((c * w[0]).sin() * t.to(x.dtype), c.sum()), x, steps)[0]


def chosen(x: weft.Tensor, w: weft.Tensor) -> weft.Tensor:
    return weft.cond(
        x.sum() > -100, lambda v: (v @ w).to(x.dtype).sin() * (weft.arange(3) / 3).to(x.dtype),
        lambda v: v * w.sum(), (x,),
    )


def mapped(x: weft.Tensor, w: weft.Tensor) -> weft.Tensor:
    return weft.func.vmap(weft.func.grad(lambda v: (v @ w).to(x.dtype).sin().sum()))(x)


def viewed(x: weft.Tensor, w: weft.Tensor) -> weft.Tensor:
    return x[:, 1:]


def viewed_for_inference(x: weft.Tensor, w: weft.Tensor) -> weft.Tensor:
    with weft.inference_mode():
        return x.t()[:2]


BODIES: dict[str, Body] = {
    f.__name__: f
    for f in (
        in_full, in_part, factories, asking, normalized, hooked, scanned, chosen, mapped, viewed, viewed_for_inference
    )
} | {
    "function": lambda x, w: Asking.apply(x, w).to(x.dtype),
    "checkpoint": lambda x, w: checkpoint(lambda v: (v @ w).to(x.dtype).tanh(), x, use_reentrant=False),
    "checkpoint of settings": lambda x, w: checkpoint(factories, x, w, use_reentrant=False),
}
ONCE = ("function", "hooked")  # asked of gradients of first order alone, behind the block of autocast


# ---------------------------------------------------------------- programs
@dataclass(frozen=True)
class Program:
    """calls: for each the number of rows, and what holds around its forward and its backward. orders: of gradients."""

    body: str
    dtype: str
    calls: tuple[tuple[int, str, str], ...]
    orders: int

    @property
    def closeness(self) -> float:
        """By how much two modes may differ."""
        names = {name for _, *around in self.calls for name in around}
        if self.dtype == "float32":
            loose = "half" in names or self.body == "normalized"
            return 6e-2 if "autocast" in names or self.body == "in_part" else 2e-3 if loose else 1e-4
        return 2e-2 if "half" in names and self.reads_default else 1e-4 if self.reads_default else 1e-9

    @property
    def is_view(self) -> bool:
        """Whether the result is a view of an argument, and no number is computed."""
        return self.body in ("viewed", "viewed_for_inference")

    @property
    def reads_default(self) -> bool:
        return self.body in ("factories", "checkpoint of settings", "scanned", "chosen")


def draw(rng: np.random.Generator) -> Program:
    """One program of four calls."""
    body = str(rng.choice(list(BODIES)))
    after = [name for name in AROUND_BACKWARD if body not in ONCE or name != "autocast"]
    calls = [
        (int(rng.integers(1, 5)), str(rng.choice(list(SETTINGS))), str(rng.choice(after))) for _ in range(4)
    ]
    # (second derivatives of a normalization in half precision are noise)
    is_noise = body == "normalized" and any("autocast" in around for _, *around in calls)
    orders = 1 if body in ONCE or is_noise else int(rng.integers(1, 3))
    return Program(body, str(rng.choice(["float32", "float64"])), tuple(calls), orders)


def facts(t: weft.Tensor) -> tuple[bool, ...]:
    """What its modes make of a tensor."""
    return t.is_inference(), t.requires_grad, t.is_leaf, t._is_view()


def run(program: Program, wrap: Callable[[Body], Body], walk: Block = nullcontext) -> list[list[Any]]:
    """What each call gives: its result, gradients of each order, the settings afterwards, symbols that are left.
    walk: a block around each backward call."""
    body, outcomes = BODIES[program.body], []
    function = wrap(lambda x, w: body(x, w))
    dtype = getattr(weft, program.dtype)
    w = weft.linspace(-0.5, 0.6, 9, dtype=dtype).reshape(3, 3).requires_grad_()
    for rows, around, after in program.calls:
        x = weft.linspace(-1, 1.5, 3 * rows, dtype=dtype).reshape(rows, 3).requires_grad_()
        with SETTINGS[around]():
            y = function(x, w)
        grads: list[weft.Tensor] = []
        if y.requires_grad and not program.is_view:
            with SETTINGS[after](), walk():
                grads += weft.autograd.grad(y.square().sum(), (x, w), create_graph=program.orders > 1)
                if program.orders > 1:
                    loss = sum(g.square().sum() for g in grads)
                    grads += weft.autograd.grad(loss, (x, w), allow_unused=True, materialize_grads=True)
        now = weft.get_default_dtype(), weft.is_grad_enabled(), weft.is_autocast_enabled("cpu"), *facts(x), *facts(y)
        outcomes.append([*[t.detach().numpy() for t in (y, *grads)], now, symbols_left(x, w, y)])
    return outcomes


def difference(outcomes: list[list[Any]], expected: list[list[Any]], closeness: float) -> str | None:
    """What differs, or None."""
    for call, (ours, theirs) in enumerate(zip(outcomes, expected, strict=True)):
        if len(ours) != len(theirs):
            return f"call {call}: {len(ours)} things, expected {len(theirs)}"
        for i, (a, b) in enumerate(zip(ours, theirs, strict=True)):
            if not isinstance(b, np.ndarray):
                if a != b:
                    return f"call {call}, {i}: {a}, expected {b}"
            elif a.dtype != b.dtype or a.shape != b.shape or not np.allclose(
                a, b, closeness, closeness * max(1e-3, float(np.abs(b).max(initial=0))), equal_nan=True
            ):
                return f"call {call}, {i}: {a}, expected {b}"
    return None
