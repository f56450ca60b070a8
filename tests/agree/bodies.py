"""Bodies of the programs of constructs.py, and the model that they read and write: bodies that draw, count, keep, write
and choose. A body is a function of a vector and a model, and gives a vector of the same size.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import weft
from tests.agree.layers import LAYERS
from weft.ops.overrides import disabled_weft_function

PRODUCTS = ("mul", "__mul__")
BY_NAME: dict[str, Callable[..., weft.Tensor]] = {"sin": weft.sin, "tanh": weft.tanh, "neg": weft.neg}


class Model(weft.nn.Module):
    """What the bodies read and write: a parameter, a buffer, Python numbers, flags and containers, a generator.

    device: where its tensors lie. is_reference: constructs that only say how a body runs are left out.
    """

    def __init__(self, device: str = "cpu", is_reference: bool = False) -> None:
        super().__init__()
        self.w = weft.nn.Parameter(weft.tensor(0.7, dtype=weft.float64, device=device))
        self.mean = weft.zeros((), dtype=weft.float64, device=device)
        self.register_buffer("kept", weft.ones((), dtype=weft.float64, device=device))
        self.generator = weft.Generator(device).manual_seed(3) if device == "lazy" else weft.Generator().manual_seed(3)
        self.device, self.is_reference = device, is_reference
        self.scale, self.flag, self.count, self.rules = 0.5, True, 0, 0
        self.word, self.parts = "sin", [4]
        self.seen: list[Any] = []
        self.named: dict[str, Any] = {}
        self.kind = type("Ruled", (weft.Tensor,), {"__weft_function__": disabled_weft_function})

    def lengths(self, n: int) -> list[int]:
        """Two lengths that make n, as Python computes them."""
        first = max(n - 2, 1)
        return [first, n - first]

    def change(self, index: int, size: int) -> None:
        """What is another one at each call, for an argument of so many elements: a name, and a list of lengths."""
        first = index % size + 1
        self.word, self.parts = [*BY_NAME][index % len(BY_NAME)], [first, size - first]

    def change_rule(self) -> None:
        """The class of tensors that `ruled` makes has a rule of its own from now on, which goes by the number of now:
        one that reads the class (super()), then one that reads nothing.
        """
        scale, self.rules = self.scale, self.rules + 1

        def scaled(cls: Any, func: Any, out: Any) -> Any:
            return (out.as_subclass(weft.Tensor) * scale).as_subclass(cls) if func.__name__ in PRODUCTS else out

        def rule(cls: Any, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            around = super(self.kind, cls)
            return scaled(cls, func, getattr(around, "__weft_function__")(func, types, args, kwargs))  # noqa: B009

        def own_rule(cls: Any, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            with weft.overrides.DisableWeftFunctionSubclass():
                return scaled(cls, func, func(*args, **(kwargs or {})))

        self.kind.__weft_function__ = classmethod(rule if self.rules % 3 == 1 else own_rule)

    def latest(self) -> Any:
        """What a body kept last."""
        return self.seen[-1] + self.named.get("last", 0.0)

    def example(self) -> weft.Tensor:
        """A vector to trace a body with; it has a gradient as the arguments have, for a body may ask."""
        return weft.linspace(-0.8, 0.9, 4, dtype=weft.float64, device=self.device).requires_grad_()


# ---------------------------------------------------------------- bodies


def plain(x: weft.Tensor, m: Model) -> weft.Tensor:
    return (x * m.w).sin() + x * m.scale


def branching(x: weft.Tensor, m: Model) -> weft.Tensor:
    return (x * m.w).exp() * 0.3 if m.flag else x * m.w - 1


def draws(x: weft.Tensor, m: Model) -> weft.Tensor:
    kept = weft.bernoulli(weft.full_like(x, 0.6))
    return x * m.w * kept + weft.rand_like(x) * 0.1 + weft.nn.functional.dropout(x, 0.3) * 0.2


def own_draws(x: weft.Tensor, m: Model) -> weft.Tensor:
    noise = weft.rand(x.shape, generator=m.generator, dtype=x.dtype, device=x.device)
    return x * m.w + noise * x + weft.bernoulli(weft.full_like(x, 0.5), generator=m.generator)


def sizes(x: weft.Tensor, m: Model) -> weft.Tensor:
    positive = weft.nonzero(x.detach() > 0).shape[0]
    return x * m.w * (positive * 0.5) + 2.0 / (x.shape[0] + 1)


def selecting(x: weft.Tensor, m: Model) -> weft.Tensor:
    part = x[x.detach() > 0]
    return x * m.w + part.sum() / max(part.shape[0], 1)


def writing(x: weft.Tensor, m: Model) -> weft.Tensor:
    y = x.clone()
    y[1:] = x[1:] * m.w
    y.mul_(1.5)
    y.view(-1)[:1].add_(m.scale)
    return y


def statistic(x: weft.Tensor, m: Model) -> weft.Tensor:
    m.mean.mul_(0.9).add_(x.detach().mean() * 0.1)
    m.kept = m.kept * 0.5 + x.detach().sum()
    return x * m.w - m.mean + m.kept * 0.1


def keeping(x: weft.Tensor, m: Model) -> weft.Tensor:
    m.seen.append(x.detach().sum())
    del m.seen[:-2]
    m.named["last"] = m.seen[0] * 0.5
    m.count += 1
    return x * m.w + m.latest() * 0.1 + m.count * 0.01


def named(x: weft.Tensor, m: Model) -> weft.Tensor:
    return BY_NAME[m.word](x * m.w)


def parted(x: weft.Tensor, m: Model) -> weft.Tensor:
    return weft.cat([piece * m.w * (i + 1) for i, piece in enumerate(x.split(m.parts))])


def indefinite(x: weft.Tensor, m: Model) -> weft.Tensor:
    return weft.where(x > 0.2, (x.abs() + 1e-300).log() * m.w, x / (x.abs() + m.scale))


@dataclass(frozen=True)
class Leaf:
    """A body, and what it does besides computing: "numbers" (draws), "state" (writes what is older than the call),
    "sizes" (sizes that only the run knows), "asks" (Python chooses by such a size), "python" (reads Python values that
    change), "lists" (of lengths, which change with the size), "guards" (each size is a program of its own), "misfit"
    (has a branch that does not fit its operand)."""

    body: Callable[[weft.Tensor, Model], weft.Tensor]
    does: frozenset[str] = frozenset()


def _leaf(body: Callable[[weft.Tensor, Model], weft.Tensor], does: str = "") -> Leaf:
    return Leaf(body, frozenset(does.split()))


LEAVES = {
    leaf.body.__name__: leaf
    for leaf in (
        _leaf(plain, "python"), _leaf(branching, "python"), _leaf(draws, "numbers"), _leaf(own_draws, "numbers state"),
        _leaf(sizes, "sizes"), _leaf(selecting, "sizes asks"), _leaf(writing, "python"), _leaf(statistic, "state"),
        _leaf(keeping, "state"), _leaf(named, "python"), _leaf(parted, "lists"), _leaf(indefinite, "python"),
        *(_leaf(layer.body, layer.does) for layer in LAYERS.values()),
    )
}
