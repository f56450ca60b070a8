"""RNN, GRU and LSTM: one step after the other, in one direction or both."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import weft
from weft.nn import functional as F
from weft.onnx.registry import operator
from weft.support.errors import Unsupported
from weft.tensor.tensor import Tensor

Activation = Callable[[Tensor], Tensor]
_PLAIN: dict[str, Activation] = {
    "relu": lambda x: F.relu(x), "tanh": lambda x: weft.tanh(x), "sigmoid": lambda x: weft.sigmoid(x),
    "softsign": lambda x: F.softsign(x), "softplus": lambda x: F.softplus(x),
}  # fmt: skip
_SCALED: dict[str, tuple[float, float, Callable[[Tensor, float, float], Tensor]]] = {
    "affine": (1.0, 0.0, lambda x, a, b: a * x + b),
    "leakyrelu": (0.01, 0.0, lambda x, a, b: F.leaky_relu(x, a)),
    "thresholdedrelu": (1.0, 0.0, lambda x, a, b: weft.where(x > a, x, weft.zeros_like(x))),
    "scaledtanh": (1.0, 1.0, lambda x, a, b: a * weft.tanh(b * x)),
    "hardsigmoid": (0.2, 0.5, lambda x, a, b: weft.clamp(a * x + b, 0, 1)),
    "elu": (1.0, 0.0, lambda x, a, b: F.elu(x, a)),
}


def _activations(
    names: Sequence[str], alphas: list[float] | None, betas: list[float] | None, clip: float | None
) -> list[Activation]:
    left, right = list(alphas or ()), list(betas or ())
    functions = [_activation(name.lower(), left, right) for name in names]
    return functions if clip is None else [_clipped(f, clip) for f in functions]


def _clipped(function: Activation, clip: float) -> Activation:
    return lambda x: function(weft.clamp(x, -clip, clip))


def _activation(name: str, alphas: list[float], betas: list[float]) -> Activation:
    if name in _PLAIN:
        return _PLAIN[name]
    if name not in _SCALED:
        raise Unsupported(f"onnx: there is no activation {name!r}")
    alpha, beta, function = _SCALED[name]
    alpha = alphas.pop(0) if alphas else alpha
    beta = betas.pop(0) if betas else beta
    return lambda x: function(x, alpha, beta)


class _Weights:
    """The matrices of one direction. Names are ONNX's: W for the input, R for the state, B for both biases."""

    def __init__(self, w: Tensor, r: Tensor, b: Tensor | None, gates: int, hidden: int) -> None:
        self.w, self.r, self.hidden = w, r, hidden
        self.wb = None if b is None else b[: gates * hidden]
        self.rb = None if b is None else b[gates * hidden :]

    def of_input(self, x: Tensor) -> Tensor:
        """What the input contributes to every gate."""
        return F.linear(x, self.w, self.wb)

    def of_state(self, h: Tensor) -> Tensor:
        """What the state contributes to every gate."""
        return F.linear(h, self.r, self.rb)


Step = Callable[[_Weights, list[Activation], Tensor, tuple[Tensor, ...], Any], tuple[Tensor, ...]]


def _run(
    x: Tensor, weights: Tensor, recurrence: Tensor, bias: Tensor | None, lengths: Tensor | None,
    states: Sequence[Tensor | None], step: Step, gates: int, hidden: int, direction: str, layout: int,
    functions: list[Activation], extra: Tensor | None = None,
) -> tuple[Tensor, ...]:
    """Y, Y_h and the other states' ends."""
    x = x.transpose(0, 1) if layout else x
    batch = x.shape[1]
    per = len(functions) // (2 if direction == "bidirectional" else 1)
    ways = {"forward": [False], "reverse": [True], "bidirectional": [False, True]}[direction]
    results = []
    for i, backwards in enumerate(ways):
        own = _Weights(weights[i], recurrence[i], None if bias is None else bias[i], gates, hidden)
        first = tuple(
            weft.zeros((batch, hidden), dtype=x.dtype) if s is None else (s[:, i] if layout else s[i]) for s in states
        )
        results.append(_direction(
            x, own, lengths, first, step, functions[i * per : (i + 1) * per], backwards,
            None if extra is None else extra[i],
        ))  # fmt: skip
    y = weft.stack([r[0] for r in results], 1)
    ends = [weft.stack([r[1][k] for r in results], 1 if layout else 0) for k in range(len(states))]
    return (y.permute([2, 0, 1, 3]) if layout else y, *ends)


def _direction(
    x: Tensor, own: _Weights, lengths: Tensor | None, state: tuple[Tensor, ...], step: Step,
    functions: list[Activation], backwards: bool, extra: Tensor | None,
) -> tuple[Tensor, tuple[Tensor, ...]]:
    count = int(x.shape[0])
    whole = own.of_input(x)
    outputs: list[Any] = [None] * count
    for t in reversed(range(count)) if backwards else range(count):
        following = step(own, functions, whole[t], state, extra)
        if lengths is not None:  # behind its end a sequence gives zeros and keeps its state
            inside = (lengths > t)[:, None]
            following = tuple(weft.where(inside, n, s) for n, s in zip(following, state, strict=True))
            outputs[t] = weft.where(inside, following[0], weft.zeros_like(following[0]))
        else:
            outputs[t] = following[0]
        state = following
    return weft.stack(outputs), state


@operator("RNN")
def rnn(
    x: Tensor, w: Tensor, r: Tensor, b: Tensor | None = None, lengths: Tensor | None = None,
    initial_h: Tensor | None = None, *, activation_alpha: list[float] | None = None,
    activation_beta: list[float] | None = None, activations: list[str] | None = None, clip: float | None = None,
    direction: str = "forward", hidden_size: int | None = None, layout: int = 0, output_sequence: int = 0,
) -> Any:
    names = activations or ["Tanh"] * (2 if direction == "bidirectional" else 1)

    def step(own: _Weights, f: list[Activation], now: Tensor, state: tuple[Tensor, ...], _: Any) -> tuple[Tensor, ...]:
        return (f[0](now + own.of_state(state[0])),)

    functions = _activations(names, activation_alpha, activation_beta, clip)
    return _run(x, w, r, b, lengths, [initial_h], step, 1, int(r.shape[2]), direction, layout, functions)


@operator("GRU")
def gru(
    x: Tensor, w: Tensor, r: Tensor, b: Tensor | None = None, lengths: Tensor | None = None,
    initial_h: Tensor | None = None, *, activation_alpha: list[float] | None = None,
    activation_beta: list[float] | None = None, activations: list[str] | None = None, clip: float | None = None,
    direction: str = "forward", hidden_size: int | None = None, layout: int = 0, linear_before_reset: int = 0,
    output_sequence: int = 0,
) -> Any:
    names = activations or ["Sigmoid", "Tanh"] * (2 if direction == "bidirectional" else 1)
    n = int(r.shape[2])

    def step(own: _Weights, f: list[Activation], now: Tensor, state: tuple[Tensor, ...], _: Any) -> tuple[Tensor, ...]:
        (h,) = state
        gates = now[:, : 2 * n] + F.linear(h, own.r[: 2 * n], None if own.rb is None else own.rb[: 2 * n])
        z, reset = f[0](gates[:, :n]), f[0](gates[:, n:])
        bias = None if own.rb is None else own.rb[2 * n :]
        if linear_before_reset:
            inner = reset * F.linear(h, own.r[2 * n :], bias)
        else:
            inner = F.linear(reset * h, own.r[2 * n :], bias)
        new = f[1](now[:, 2 * n :] + inner)
        return ((1 - z) * new + z * h,)

    functions = _activations(names, activation_alpha, activation_beta, clip)
    return _run(x, w, r, b, lengths, [initial_h], step, 3, n, direction, layout, functions)


@operator("LSTM")
def lstm(
    x: Tensor, w: Tensor, r: Tensor, b: Tensor | None = None, lengths: Tensor | None = None,
    initial_h: Tensor | None = None, initial_c: Tensor | None = None, peepholes: Tensor | None = None, *,
    activation_alpha: list[float] | None = None, activation_beta: list[float] | None = None,
    activations: list[str] | None = None, clip: float | None = None, direction: str = "forward",
    hidden_size: int | None = None, input_forget: int = 0, layout: int = 0, output_sequence: int = 0,
) -> Any:
    names = activations or ["Sigmoid", "Tanh", "Tanh"] * (2 if direction == "bidirectional" else 1)
    n = int(r.shape[2])

    def step(
        own: _Weights, f: list[Activation], now: Tensor, state: tuple[Tensor, ...], p: Tensor | None
    ) -> tuple[Tensor, ...]:
        h, c = state
        gates = now + own.of_state(h)
        i, o, forget, new = (gates[:, k * n : (k + 1) * n] for k in range(4))
        if p is not None:
            i, forget = i + p[:n] * c, forget + p[2 * n :] * c
        i = f[0](i)
        forget = 1 - i if input_forget else f[0](forget)
        c = forget * c + i * f[1](new)
        o = f[0](o if p is None else o + p[n : 2 * n] * c)
        return o * f[2](c), c

    functions = _activations(names, activation_alpha, activation_beta, clip)
    return _run(
        x, w, r, b, lengths, [initial_h, initial_c], step, 4, n, direction, layout, functions, peepholes
    )
