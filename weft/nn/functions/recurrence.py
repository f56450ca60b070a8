"""Recurrent layers as functions of their parameters: `weft.lstm`, `gru`, `rnn_tanh`, `rnn_relu`, and their cells.

Arguments stand in PyTorch's order. params: the parameters of each layer and direction in turn, weight_ih, weight_hh,
and with has_biases bias_ih, bias_hh (and weight_hr of an LSTM with projections).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from weft.nn.modules.module import Module
from weft.nn.modules.recurrent import GRU, LSTM, RNN, RNNBase
from weft.nn.modules.recurrent_cells import gru_step, lstm_step, rnn_step
from weft.ops.packet import aten
from weft.support.errors import ArgumentError
from weft.tensor.tensor import Tensor

__all__ = ["gru", "gru_cell", "lstm", "lstm_cell", "rnn_relu", "rnn_relu_cell", "rnn_tanh", "rnn_tanh_cell"]


def lstm(
    input: Tensor, hx: Sequence[Tensor], params: Sequence[Tensor], has_biases: bool, num_layers: int, dropout: float,
    train: bool, bidirectional: bool, batch_first: bool,
) -> tuple[Tensor, Tensor, Tensor]:
    """Outputs, last hidden and last cell states of a stack of LSTM layers; hx: hidden and cell states,
    [layers * directions, n, size].
    """
    layer = _layer(LSTM, params, has_biases, num_layers, dropout, train, bidirectional, batch_first)
    out, (hidden, cell) = layer(input, (hx[0], hx[1]))
    return out, hidden, cell


def gru(
    input: Tensor, hx: Tensor, params: Sequence[Tensor], has_biases: bool, num_layers: int, dropout: float,
    train: bool, bidirectional: bool, batch_first: bool,
) -> tuple[Tensor, Tensor]:
    """Outputs and last states of a stack of GRU layers."""
    return _layer(GRU, params, has_biases, num_layers, dropout, train, bidirectional, batch_first)(input, hx)


def rnn_tanh(
    input: Tensor, hx: Tensor, params: Sequence[Tensor], has_biases: bool, num_layers: int, dropout: float,
    train: bool, bidirectional: bool, batch_first: bool,
) -> tuple[Tensor, Tensor]:
    """Outputs and last states of a stack of Elman's layers with tanh."""
    layer = _layer(RNN, params, has_biases, num_layers, dropout, train, bidirectional, batch_first, "tanh")
    return layer(input, hx)


def rnn_relu(
    input: Tensor, hx: Tensor, params: Sequence[Tensor], has_biases: bool, num_layers: int, dropout: float,
    train: bool, bidirectional: bool, batch_first: bool,
) -> tuple[Tensor, Tensor]:
    """Outputs and last states of a stack of Elman's layers with relu."""
    layer = _layer(RNN, params, has_biases, num_layers, dropout, train, bidirectional, batch_first, "relu")
    return layer(input, hx)


def lstm_cell(
    input: Tensor, hx: Sequence[Tensor], w_ih: Tensor, w_hh: Tensor, b_ih: Tensor | None = None,
    b_hh: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """New hidden and cell states, [n, size]."""
    return lstm_step(aten.linear(input, w_ih, b_ih), hx[0], hx[1], w_hh, b_hh)


def gru_cell(
    input: Tensor, hx: Tensor, w_ih: Tensor, w_hh: Tensor, b_ih: Tensor | None = None, b_hh: Tensor | None = None
) -> Tensor:
    """New states of a GRU, [n, size]."""
    return gru_step(aten.linear(input, w_ih, b_ih), hx, w_hh, b_hh)


def rnn_tanh_cell(
    input: Tensor, hx: Tensor, w_ih: Tensor, w_hh: Tensor, b_ih: Tensor | None = None, b_hh: Tensor | None = None
) -> Tensor:
    """New states of Elman's network with tanh, [n, size]."""
    return rnn_step(aten.linear(input, w_ih, b_ih), hx, w_hh, b_hh, "tanh")


def rnn_relu_cell(
    input: Tensor, hx: Tensor, w_ih: Tensor, w_hh: Tensor, b_ih: Tensor | None = None, b_hh: Tensor | None = None
) -> Tensor:
    """New states of Elman's network with relu, [n, size]."""
    return rnn_step(aten.linear(input, w_ih, b_ih), hx, w_hh, b_hh, "relu")


def _layer(
    cls: type[RNNBase], params: Sequence[Tensor], has_biases: bool, num_layers: int, dropout: float, train: bool,
    bidirectional: bool, batch_first: bool, nonlinearity: str = "",
) -> RNNBase:
    """A layer of a class that computes with these parameters. Raises ArgumentError for another number of them."""
    ends = ("", "_reverse") if bidirectional else ("",)
    places = [f"_l{layer}{end}" for layer in range(num_layers) for end in ends]
    names = ["weight_ih", "weight_hh", *(["bias_ih", "bias_hh"] if has_biases else [])]
    if cls is LSTM and len(params) == len(places) * (len(names) + 1):
        names.append("weight_hr")
    if not places or len(params) != len(places) * len(names):
        wanted = len(places) * len(names)
        raise ArgumentError(f"{num_layers} layers in {len(ends)} directions have {wanted} params, not {len(params)}")
    layer = cls.__new__(cls)
    Module.__init__(layer)
    held: dict[str, Any] = dict(zip((f"{n}{p}" for p in places for n in names), params, strict=True))
    layer._parameters.update(held)
    layer.mode = f"RNN_{nonlinearity.upper()}" if nonlinearity else cls.__name__
    if isinstance(layer, RNN):
        layer.nonlinearity = nonlinearity
    layer.input_size, layer.hidden_size = params[0].shape[1], params[0].shape[0] // cls._gates
    layer.proj_size = held["weight_hr_l0"].shape[0] if "weight_hr" in names else 0
    layer.num_layers, layer.bias, layer.batch_first = num_layers, has_biases, batch_first
    layer.dropout, layer.bidirectional = dropout, bidirectional
    return layer.train(train)
