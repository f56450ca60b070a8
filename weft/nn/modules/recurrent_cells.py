"""One step of recurrent networks: the formulas, and RNNCell, LSTMCell and GRUCell."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import weft.nn.init as init
from weft.layers.factories import on_device
from weft.nn.modules.module import Module
from weft.nn.parameter import Parameter, empty
from weft.ops.overrides import overridable
from weft.ops.packet import aten
from weft.support.errors import ShapeError, ValueProblem
from weft.tensor.tensor import Tensor
from weft.types import shape_env


def rnn_step(gates: Tensor, hidden: Tensor, weight: Tensor, bias: Tensor | None, activation: str) -> Tensor:
    """act(gates + hidden @ weight.T + bias); gates: the input's part, [n, hidden]."""
    total = gates + aten.linear(hidden, weight, bias)
    return aten.tanh(total) if activation == "tanh" else aten.relu(total)


def lstm_step(
    gates: Tensor, hidden: Tensor, cell: Tensor, weight: Tensor, bias: Tensor | None, projection: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """New hidden and cell state; gates [n, 4 * hidden] in the order input, forget, cell, output."""
    i, f, g, o = aten.chunk(gates + aten.linear(hidden, weight, bias), 4, -1)
    cell = aten.sigmoid(f) * cell + aten.sigmoid(i) * aten.tanh(g)
    hidden = aten.sigmoid(o) * aten.tanh(cell)
    return (hidden if projection is None else aten.linear(hidden, projection)), cell


def gru_step(gates: Tensor, hidden: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """New hidden state; gates [n, 3 * hidden] in the order reset, update, new."""
    r, z, n = aten.chunk(gates, 3, -1)
    hr, hz, hn = aten.chunk(aten.linear(hidden, weight, bias), 3, -1)
    new = aten.tanh(n + aten.sigmoid(r + hr) * hn)
    update = aten.sigmoid(z + hz)
    return new + update * (hidden - new)


class RNNCellBase(Module):
    _gates = 1

    def __init__(
        self, input_size: int, hidden_size: int, bias: bool = True, device: Any = None, dtype: Any = None
    ) -> None:
        super().__init__()
        self.input_size, self.hidden_size, self.bias = input_size, hidden_size, bias
        rows = self._gates * hidden_size
        self.weight_ih = Parameter(empty((rows, input_size), dtype=dtype, device=device))
        self.weight_hh = Parameter(empty((rows, hidden_size), dtype=dtype, device=device))
        for name in ("bias_ih", "bias_hh"):
            self.register_parameter(name, Parameter(empty((rows,), dtype=dtype, device=device)) if bias else None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw everything anew, uniform in +-1/sqrt(hidden_size)."""
        bound = 1.0 / math.sqrt(self.hidden_size) if self.hidden_size > 0 else 0.0
        for parameter in self.parameters():
            init.uniform_(parameter, -bound, bound)

    def _prepared(self, input: Tensor, states: tuple[Tensor | None, ...]) -> tuple[Tensor, bool, tuple[Tensor, ...]]:
        """The input's part of the gates, whether there was no batch dim, and the states with one."""
        if input.ndim not in (1, 2):
            raise ShapeError(f"{type(self).__name__}: Expected input to be 1D or 2D, got {input.ndim}D instead")
        is_single = input.ndim == 1
        batch = aten.unsqueeze(input, 0) if is_single else input
        shape = (batch.shape[0], self.hidden_size)
        with on_device(input.device):
            ready = tuple([
                aten.zeros(shape, dtype=input.dtype) if s is None else aten.unsqueeze(s, 0) if is_single else s
                for s in states
            ])
        self._check(batch, ready)
        return aten.linear(batch, self.weight_ih, self.bias_ih), is_single, ready

    def _check(self, batch: Tensor, states: tuple[Tensor, ...]) -> None:
        """Sizes must be equal: nothing is broadcast. Raises ShapeError."""
        (rows, width), size = batch.dims, self.hidden_size
        shape_env.refuse_unequal(width, self.input_size, lambda: ShapeError(
            f"input has inconsistent input_size: got {width} expected {self.input_size}"
        ))
        for i, state in enumerate(states):
            own_rows, own_size = state.dims
            text = f"Input batch size {rows} doesn't match hidden{i} batch size {own_rows}"
            shape_env.refuse_unequal(own_rows, rows, partial(ShapeError, text))
            text = f"hidden{i} has inconsistent hidden_size: got {own_size}, expected {size}"
            shape_env.refuse_unequal(own_size, size, partial(ShapeError, text))

    def extra_repr(self) -> str:
        return f"{self.input_size}, {self.hidden_size}{'' if self.bias else ', bias=False'}"


class RNNCell(RNNCellBase):
    """h' = act(W_ih x + b_ih + W_hh h + b_hh). input: [n, input_size] or [input_size]."""

    def __init__(
        self, input_size: int, hidden_size: int, bias: bool = True, nonlinearity: str = "tanh", device: Any = None,
        dtype: Any = None,
    ) -> None:
        if nonlinearity not in ("tanh", "relu"):
            raise ValueProblem(f"Unknown nonlinearity: {nonlinearity}")
        super().__init__(input_size, hidden_size, bias, device, dtype)
        self.nonlinearity = nonlinearity

    def extra_repr(self) -> str:
        return super().extra_repr() + ("" if self.nonlinearity == "tanh" else f", nonlinearity={self.nonlinearity}")

    @overridable
    def forward(self, input: Tensor, hx: Tensor | None = None) -> Tensor:
        gates, is_single, (hidden,) = self._prepared(input, (hx,))
        new = rnn_step(gates, hidden, self.weight_hh, self.bias_hh, self.nonlinearity)
        return aten.squeeze(new, 0) if is_single else new


class LSTMCell(RNNCellBase):
    """(h', c') of a long short-term memory. input: [n, input_size] or [input_size]; hx: (h, c)."""

    _gates = 4

    @overridable
    def forward(self, input: Tensor, hx: tuple[Tensor, Tensor] | None = None) -> tuple[Tensor, Tensor]:
        gates, is_single, (hidden, cell) = self._prepared(input, (None, None) if hx is None else tuple(hx))
        hidden, cell = lstm_step(gates, hidden, cell, self.weight_hh, self.bias_hh)
        return (aten.squeeze(hidden, 0), aten.squeeze(cell, 0)) if is_single else (hidden, cell)


class GRUCell(RNNCellBase):
    """h' of a gated recurrent unit. input: [n, input_size] or [input_size]."""

    _gates = 3

    @overridable
    def forward(self, input: Tensor, hx: Tensor | None = None) -> Tensor:
        gates, is_single, (hidden,) = self._prepared(input, (hx,))
        new = gru_step(gates, hidden, self.weight_hh, self.bias_hh)
        return aten.squeeze(new, 0) if is_single else new


