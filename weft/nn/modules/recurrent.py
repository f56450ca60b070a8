"""RNN, LSTM and GRU: recurrent layers over whole sequences, stacked and in both directions."""

from __future__ import annotations

import math
from functools import partial
from typing import Any, TypeVar

import weft.nn.functional as F
import weft.nn.init as init
from weft.layers.factories import on_device
from weft.nn.modules.module import Module
from weft.nn.modules.recurrent_cells import gru_step, lstm_step, rnn_step
from weft.nn.parameter import Parameter, empty
from weft.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence
from weft.ops.overrides import overridable
from weft.ops.packet import aten
from weft.record.blocks.scan import is_loop, scan
from weft.support.errors import ShapeError, StateError, ValueProblem
from weft.tensor.tensor import Tensor
from weft.types import shape_env

States = tuple[Tensor, ...]
Steps = TypeVar("Steps", Tensor, PackedSequence)


class RNNBase(Module):
    """What the recurrent layers share. Parameters: weight_ih_l0, weight_hh_l0, bias_ih_l0, bias_hh_l0,
    with `_reverse` for the way back.

    input: [l, n, input_size], [n, l, input_size] with batch_first, [l, input_size], or a PackedSequence.
    Returns the outputs of the last layer [l, n, directions * size] and the last states [layers * directions, n, size].
    """

    _gates = 1
    _state_count = 1

    def __init__(
        self, mode: str, input_size: int, hidden_size: int, num_layers: int = 1, bias: bool = True,
        batch_first: bool = False, dropout: float = 0.0, bidirectional: bool = False, proj_size: int = 0,
        device: Any = None, dtype: Any = None,
    ) -> None:
        super().__init__()
        if isinstance(dropout, bool) or not 0 <= dropout <= 1:
            raise ValueProblem(
                "dropout should be a number in range [0, 1] representing the probability of an element being zeroed"
            )
        if hidden_size <= 0:
            raise ValueProblem("hidden_size must be greater than zero")
        if num_layers <= 0:
            raise ValueProblem("num_layers must be greater than zero")
        if not 0 <= proj_size < hidden_size:
            raise ValueProblem(
                "proj_size has to be a non-negative integer, smaller than hidden_size (zero to disable projections)"
            )
        self.mode, self.input_size, self.hidden_size, self.num_layers = mode, input_size, hidden_size, num_layers
        self.bias, self.batch_first, self.dropout, self.bidirectional, self.proj_size = (
            bias, batch_first, float(dropout), bidirectional, proj_size
        )
        size, rows = proj_size or hidden_size, self._gates * hidden_size
        for layer in range(num_layers):
            for end in self._ends():
                width = input_size if layer == 0 else size * len(self._ends())
                shapes: dict[str, tuple[int, ...]] = {"weight_ih": (rows, width), "weight_hh": (rows, size)}
                if bias:
                    shapes.update(bias_ih=(rows,), bias_hh=(rows,))
                if proj_size:
                    shapes["weight_hr"] = (proj_size, hidden_size)
                for name, shape in shapes.items():
                    self.register_parameter(
                        f"{name}_l{layer}{end}", Parameter(empty(shape, dtype=dtype, device=device))
                    )
        self.reset_parameters()

    def _ends(self) -> tuple[str, ...]:
        return ("", "_reverse") if self.bidirectional else ("",)

    @property
    def all_weights(self) -> list[list[Parameter]]:
        """The parameters of each layer (and direction): weight_ih, weight_hh, bias_ih, bias_hh, weight_hr,
        as far as there are such."""
        names = ("weight_ih", "weight_hh", "bias_ih", "bias_hh", "weight_hr")
        parameters = self._parameters
        places = [f"_l{layer}{end}" for layer in range(self.num_layers) for end in self._ends()]
        return [[p for name in names if (p := parameters.get(name + place)) is not None] for place in places]

    def reset_parameters(self) -> None:
        """Draw everything anew, uniform in +-1/sqrt(hidden_size)."""
        bound = 1.0 / math.sqrt(self.hidden_size)
        for parameter in self.parameters():
            init.uniform_(parameter, -bound, bound)

    def flatten_parameters(self) -> None:
        """Nothing to do: weft's layers compute from the parameters as they are."""

    # ---- the whole sequence
    def _run(self, input: Any, states: States | None) -> tuple[Any, States]:
        lengths = None
        packed = PackedSequence(*input) if isinstance(input, tuple) else None
        if packed is not None:
            steps, lengths = pad_packed_sequence(packed._in_order(), batch_first=False)
            if packed.sorted_indices is not None and states is not None:
                states = tuple(aten.index_select(s, 1, packed.sorted_indices) for s in states)
        else:
            if input.ndim not in (2, 3):
                raise ShapeError(f"{self.mode}: Expected input to be 2D or 3D, got {input.ndim}D instead")
            steps = (
                aten.unsqueeze(input, 1) if input.ndim == 2 else aten.transpose(input, 0, 1) if self.batch_first
                else input
            )
            self._check_ranks(input, states or ())
            if input.ndim == 2 and states is not None:
                states = tuple(aten.unsqueeze(s, 1) for s in states)
        if steps.shape[-1] != self.input_size:
            raise StateError(
                f"input.size(-1) must be equal to input_size. Expected {self.input_size}, got {steps.shape[-1]}"
            )
        if states is not None:
            self._check_states(steps, states)
        out, last = self._layers(steps, states if states is not None else self._zeros(steps), lengths)
        if packed is not None and lengths is not None:
            return self._repacked(packed, out, last, lengths)
        if input.ndim == 2:
            return aten.squeeze(out, 1), tuple(aten.squeeze(s, 1) for s in last)
        return (aten.transpose(out, 0, 1) if self.batch_first else out), last

    @staticmethod
    def _check_ranks(input: Tensor, states: States) -> None:
        for s in states:
            if s.ndim != input.ndim:
                kind = "unbatched 2-D" if input.ndim == 2 else "batched 3-D"
                raise ShapeError(f"For {kind} input, hx should also be {input.ndim}-D but got {s.ndim}-D tensor")

    def _check_states(self, steps: Tensor, states: States) -> None:
        """Initial states are as many, and as large, as the layers: nothing is broadcast. Raises ShapeError."""
        rows = self.num_layers * len(self._ends())
        sizes = (self.proj_size or self.hidden_size, self.hidden_size)[: self._state_count]
        for i, (state, size) in enumerate(zip(states, sizes, strict=True)):
            expected = (rows, steps.dims[1], size)
            which = f"hidden[{i}]" if self._state_count > 1 else "hidden"
            error = partial(ShapeError, f"Expected {which} size {expected}, got {list(state.dims)}")
            for own, wanted in zip(state.dims, expected, strict=True):
                shape_env.refuse_unequal(own, wanted, error)

    def _repacked(self, packed: PackedSequence, out: Tensor, last: States, lengths: Tensor) -> tuple[Any, States]:
        again = pack_padded_sequence(out, lengths, enforce_sorted=True)
        out_packed = PackedSequence(again.data, again.batch_sizes, packed.sorted_indices, packed.unsorted_indices)
        if packed.unsorted_indices is not None:
            last = tuple(aten.index_select(s, 1, packed.unsorted_indices) for s in last)
        return out_packed, last

    def _zeros(self, steps: Tensor) -> States:
        rows = self.num_layers * len(self._ends())
        sizes = (self.proj_size or self.hidden_size, self.hidden_size)[: self._state_count]
        with on_device(steps.device):
            return tuple([aten.zeros((rows, steps.shape[1], size), dtype=steps.dtype) for size in sizes])

    def _layers(self, steps: Tensor, states: States, lengths: Tensor | None) -> tuple[Tensor, States]:
        ends = self._ends()
        lasts: list[States] = []
        for layer in range(self.num_layers):
            outs = []
            for direction, end in enumerate(ends):
                at = layer * len(ends) + direction
                start = tuple(aten.select(s, 0, at) for s in states)
                out, last = self._scan(steps, start, f"_l{layer}{end}", bool(end), lengths)
                outs.append(out)
                lasts.append(last)
            steps = outs[0] if len(outs) == 1 else aten.cat(tuple(outs), -1)
            if self.dropout and layer < self.num_layers - 1:
                steps = F.dropout(steps, self.dropout, self.training)
        return steps, tuple(aten.stack(tuple(kind), 0) for kind in zip(*lasts, strict=True))

    def _scan(
        self, steps: Tensor, state: States, name: str, is_backwards: bool, lengths: Tensor | None
    ) -> tuple[Tensor, States]:
        """One layer in one direction. Sequences that have ended (by lengths, [n]) keep their state and give zeros."""

        def step(t: Any, gates: Tensor, state: States) -> tuple[States, Tensor]:
            return kept(self._step(gates, state, name), state, None if lengths is None else aten.gt(lengths, t))

        def kept(new: States, state: States, alive: Tensor | None = None) -> tuple[States, Tensor]:
            if alive is None:
                return new, new[0]
            is_alive = aten.unsqueeze(alive, 1)
            return (
                tuple(aten.where(is_alive, n, s) for n, s in zip(new, state, strict=True)),
                aten.where(is_alive, new[0], 0.0),
            )

        gates = aten.linear(steps, getattr(self, f"weight_ih{name}"), self._optional(f"bias_ih{name}"))
        written = getattr(gates, "__weft_written__", None)  # of a model in a file, however many steps it takes
        if written is not None:
            last, out = written("scan", step, state, gates, is_backwards)
            return out, last
        going = None if lengths is None else self._alive(lengths, gates)
        if is_loop(gates.shape[0]):
            state, out = scan(
                lambda state, row: kept(self._step(row[0], state, name), state, *row[1:]), state,
                (gates,) if going is None else (gates, going), is_backwards,
            )
            return out, state
        each, outs = aten.unbind(gates, 0), []
        alive = [None] * len(each) if going is None else aten.unbind(going, 0)
        for t in reversed(range(len(each))) if is_backwards else range(len(each)):
            state, out = kept(self._step(each[t], state, name), state, alive[t])
            outs.append(out)
        return aten.stack(tuple(reversed(outs) if is_backwards else outs), 0), state

    @staticmethod
    def _alive(lengths: Tensor, steps: Tensor) -> Tensor:
        """For each step, which sequences have not ended before it."""
        with on_device(steps.device):
            places = aten.arange(steps.shape[0])
        return aten.gt(lengths.to(steps.device), aten.unsqueeze(places, 1))

    def _optional(self, name: str) -> Tensor | None:
        return self._parameters.get(name)

    def _step(self, gates: Tensor, state: States, name: str) -> States:
        raise NotImplementedError(self.mode)

    def extra_repr(self) -> str:
        text = f"{self.input_size}, {self.hidden_size}"
        if self.proj_size:
            text += f", proj_size={self.proj_size}"
        if self.num_layers != 1:
            text += f", num_layers={self.num_layers}"
        if not self.bias:
            text += ", bias=False"
        if self.batch_first:
            text += ", batch_first=True"
        if self.dropout:
            text += f", dropout={self.dropout}"
        return f"{text}, bidirectional=True" if self.bidirectional else text


class RNN(RNNBase):
    """Elman's network: h' = act(W_ih x + b_ih + W_hh h + b_hh)."""

    def __init__(
        self, input_size: int, hidden_size: int, num_layers: int = 1, nonlinearity: str = "tanh", bias: bool = True,
        batch_first: bool = False, dropout: float = 0.0, bidirectional: bool = False, device: Any = None,
        dtype: Any = None,
    ) -> None:
        if nonlinearity not in ("tanh", "relu"):
            raise ValueProblem(f"Unknown nonlinearity '{nonlinearity}'. Select from 'tanh' or 'relu'.")
        super().__init__(
            f"RNN_{nonlinearity.upper()}", input_size, hidden_size, num_layers, bias, batch_first, dropout,
            bidirectional, 0, device, dtype)
        self.nonlinearity = nonlinearity

    @overridable
    def forward(self, input: Steps, hx: Tensor | None = None) -> tuple[Steps, Tensor]:
        out, (hidden,) = self._run(input, None if hx is None else (hx,))
        return out, hidden

    def _step(self, gates: Tensor, state: States, name: str) -> States:
        return (rnn_step(
            gates, state[0], getattr(self, f"weight_hh{name}"), self._optional(f"bias_hh{name}"), self.nonlinearity
        ),)


class LSTM(RNNBase):
    """Long short-term memory; states are (h, c). Source: Hochreiter and Schmidhuber (1997);
    projections: Sak et al. (arXiv:1402.1128)."""

    _gates = 4
    _state_count = 2

    def __init__(
        self, input_size: int, hidden_size: int, num_layers: int = 1, bias: bool = True, batch_first: bool = False,
        dropout: float = 0.0, bidirectional: bool = False, proj_size: int = 0, device: Any = None, dtype: Any = None,
    ) -> None:
        super().__init__(
            "LSTM", input_size, hidden_size, num_layers, bias, batch_first,
            dropout, bidirectional, proj_size, device, dtype,
        )

    @overridable
    def forward(
        self, input: Steps, hx: tuple[Tensor, Tensor] | None = None
    ) -> tuple[Steps, tuple[Tensor, Tensor]]:
        out, (hidden, cell) = self._run(input, None if hx is None else tuple(hx))
        return out, (hidden, cell)

    def _step(self, gates: Tensor, state: States, name: str) -> States:
        return lstm_step(
            gates, state[0], state[1], getattr(self, f"weight_hh{name}"), self._optional(f"bias_hh{name}"),
            self._optional(f"weight_hr{name}"))


class GRU(RNNBase):
    """Gated recurrent units. Source: Cho et al. (arXiv:1406.1078), with the reset gate applied after
    the matrix product."""

    _gates = 3

    def __init__(
        self, input_size: int, hidden_size: int, num_layers: int = 1, bias: bool = True, batch_first: bool = False,
        dropout: float = 0.0, bidirectional: bool = False, device: Any = None, dtype: Any = None,
    ) -> None:
        super().__init__(
            "GRU", input_size, hidden_size, num_layers, bias, batch_first, dropout, bidirectional, 0, device, dtype
        )

    @overridable
    def forward(self, input: Steps, hx: Tensor | None = None) -> tuple[Steps, Tensor]:
        out, (hidden,) = self._run(input, None if hx is None else (hx,))
        return out, hidden

    def _step(self, gates: Tensor, state: States, name: str) -> States:
        return (gru_step(gates, state[0], getattr(self, f"weight_hh{name}"), self._optional(f"bias_hh{name}")),)
