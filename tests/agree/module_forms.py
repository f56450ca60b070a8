"""Modules in forms of forms: compiled, scripted, traced, copied, pickled, saved, called by others. Each is trained for
four calls, and has the values, gradients, flags and buffers of the plain one."""

from __future__ import annotations

import copy
import io
import pickle
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import weft
from weft import nn

CALLS, WIDTH = 4, 3


class Residual(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a, self.b, self.scale = nn.Linear(WIDTH, 4), nn.Linear(4, WIDTH), 1.5

    def forward(self, x: weft.Tensor) -> weft.Tensor:
        return self.b(weft.tanh(self.a(x))) * self.scale + x


class Normalized(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a, self.norm = nn.Linear(WIDTH, WIDTH), nn.BatchNorm1d(WIDTH)
        self.settings: dict[str, float] = {"gain": 1.0}

    def forward(self, x: weft.Tensor) -> weft.Tensor:
        y = self.norm(self.a(x)).sin()
        if self.training:
            y = y * 2
        return y * self.settings["gain"]


class Counting(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.w = nn.Parameter(weft.randn(WIDTH))
        self.register_buffer("seen", weft.zeros(1))

    def forward(self, x: weft.Tensor) -> weft.Tensor:
        self.seen.add_(x.detach().sum())
        return (x * self.w + self.seen).sin()


class Tied(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)
        self.b.weight = self.a.weight

    def forward(self, x: weft.Tensor) -> weft.Tensor:
        return self.b(self.a(x).relu()) - x


def _layers() -> nn.Module:
    return nn.Sequential(nn.Linear(WIDTH, 5), nn.GELU(), nn.LayerNorm(5), nn.Linear(5, WIDTH))


MODELS: list[Callable[[], nn.Module]] = [Residual, Normalized, Counting, Tied, _layers]


class Holder(nn.Module):
    def __init__(self, inner: Any) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, x: weft.Tensor) -> weft.Tensor:
        return self.inner(x)


class Listed(nn.Module):
    def __init__(self, inner: Any) -> None:
        super().__init__()
        self.parts = nn.ModuleList([inner])

    def forward(self, x: weft.Tensor) -> weft.Tensor:
        for part in self.parts:
            x = part(x)
        return x


class Checkpointed(Holder):
    def forward(self, x: Any) -> Any:
        return weft.utils.checkpoint.checkpoint(self.inner, x, use_reentrant=False)


class Stateless(Holder):
    def forward(self, x: Any) -> Any:
        return weft.func.functional_call(self.inner, dict(self.inner.named_parameters()), (x,))


class Captured(Holder):
    def forward(self, x: Any) -> Any:
        with weft.compiled_autograd.enable():
            return self.inner(x)


def _example() -> weft.Tensor:
    return weft.randn(4, WIDTH, dtype=weft.float64)


def _with_state_kept(form: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """A form that calls the module once; buffers are as before."""

    def make(module: Any) -> Any:
        state = copy.deepcopy(module.state_dict())
        result = form(module)
        module.load_state_dict(state)
        return result

    return make


def _of_forward(**options: Any) -> Callable[[Any], Any]:
    def make(module: Any) -> Any:
        module.forward = weft.compile(module.forward, **options)
        return module

    return make


def _hooked(module: Any) -> Any:
    holder = Holder(module)
    holder.register_forward_hook(_unchanged)
    return holder


def _unchanged(module: Any, args: tuple[weft.Tensor], result: weft.Tensor) -> weft.Tensor:
    return result * 1.0


def _called(module: Any) -> Any:
    module(_example())
    return module


def _own_state(module: Any) -> Any:
    module.load_state_dict(copy.deepcopy(module.state_dict()))
    return module


def _saved(module: Any) -> Any:
    file = io.BytesIO()
    weft.jit.save(module if isinstance(module, weft.jit.ScriptModule) else weft.jit.script(module), file)
    file.seek(0)
    return weft.jit.load(file)


FORMS: dict[str, Callable[[Any], Any]] = {
    "compile": weft.compile, "interpret": lambda m: weft.compile(m, backend="interpret"),
    "split": lambda m: weft.compile(m, split=True), "forward": _of_forward(), "split forward": _of_forward(split=True),
    "script": weft.jit.script, "trace": _with_state_kept(lambda m: weft.jit.trace(m, (_example(),), check_trace=False)),
    "held": Holder, "listed": Listed, "sequential": nn.Sequential, "parallel": nn.DataParallel, "captured": Captured,
    "deepcopy": copy.deepcopy, "copy": copy.copy, "pickle": lambda m: pickle.loads(pickle.dumps(m)), "saved": _saved,
    "checkpoint": Checkpointed, "stateless": Stateless, "hooked": _hooked, "called": _with_state_kept(_called),
    "state": _own_state, "flags": lambda m: m.eval().train(), "converted": lambda m: m.to(weft.float64).double(),
}  # fmt: skip


BY_REFERENCE = {  # forms that go by the module itself, as it is at each call
    "compile", "interpret", "split", "forward", "split forward", "held", "listed", "sequential", "parallel", "captured",
    "checkpoint", "stateless", "hooked", "state", "flags",
}  # fmt: skip


@dataclass
class Forms:
    """A model, the forms from the inside out, and for each call the flag set before it and the batch. changes: whether
    the module's numbers and buffers are others at each call."""

    model: int
    forms: list[str]
    calls: list[tuple[bool | None, int]]
    seed: int
    changes: bool = False


def draw(rng: np.random.Generator) -> Forms:
    forms = [list(FORMS)[i] for i in rng.integers(0, len(FORMS), rng.integers(1, 4))]
    # a trace has one branch; a method that is an attribute is the original's, also of a copy
    is_steady = {"trace", "flags"} & set(forms) or ("copy" in forms and {"forward", "split forward"} & set(forms))
    flags = [None] if is_steady else [None, None, True, False]
    calls = [(flags[rng.integers(len(flags))], int(rng.integers(3, 7))) for _ in range(CALLS)]
    changes = set(forms) <= BY_REFERENCE and bool(rng.random() < 0.7)
    return Forms(int(rng.integers(len(MODELS))), forms, calls, int(rng.integers(1 << 31)), changes)


def run(drawn: Forms, forms: list[str]) -> list[Any]:
    """What can be seen after each call of the model in these forms."""
    weft.manual_seed(drawn.seed)
    rng = np.random.default_rng(drawn.seed)
    original: Any = MODELS[drawn.model]().double()
    module = original
    for name in forms:
        module = FORMS[name](module)
    optimizer = weft.optim.SGD(module.parameters(), lr=0.05, momentum=0.9)
    seen = []
    for flag, batch in drawn.calls:
        module = module if flag is None else module.train(flag)
        if drawn.changes:
            _change(original, rng)
        x = weft.tensor(rng.standard_normal((batch, WIDTH)), requires_grad=True)
        optimizer.zero_grad()
        y = module(x)
        y.square().sum().backward()
        gradients = [None if p.grad is None else p.grad.clone() for p in module.parameters()]
        optimizer.step()
        buffers = [b.clone() for b in module.buffers()]
        seen.append([y.detach(), x.grad, *gradients, *buffers, module.training])
    return seen


def _change(module: Any, rng: np.random.Generator) -> None:
    """Other numbers, items and buffers, as users set them between two calls."""
    if hasattr(module, "scale"):
        module.scale = float(rng.integers(1, 4)) / 2
    if hasattr(module, "settings"):
        module.settings["gain"] = float(rng.integers(1, 4))
    if hasattr(module, "seen"):
        module.seen = weft.full((1,), float(rng.random()), dtype=weft.float64)


def difference(seen: list[Any], expected: list[Any]) -> str | None:
    """The first call that shows something else."""
    for number, (one, other) in enumerate(zip(seen, expected, strict=True)):
        if len(one) != len(other):
            return f"call {number}: {len(one)} values, not {len(other)}"
        for at, (value, wanted) in enumerate(zip(one, other, strict=True)):
            if type(value) is not type(wanted) or not _agree(value, wanted):
                return f"call {number}, value {at}: {value} and not {wanted}"
    return None


def _agree(value: Any, wanted: Any) -> bool:
    if not isinstance(wanted, weft.Tensor):
        return bool(value == wanted)
    return value.shape == wanted.shape and bool(weft.allclose(value, wanted, rtol=1e-7, atol=1e-8))
