"""Recurrent layers in programs: packed sequences as arguments, as results, traced, stored."""

from __future__ import annotations

import io

import pytest

import weft
import weft.jit
from weft import Tensor, nn
from weft.nn.utils.rnn import PackedSequence, pack_padded_sequence, pack_sequence, pad_packed_sequence


class Direct(nn.Module):
    def __init__(self, kind) -> None:
        super().__init__()
        self.rnn = kind(3, 2)

    def forward(self, steps: PackedSequence) -> tuple[PackedSequence, Tensor]:
        return self.rnn(steps)


class DirectLSTM(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.rnn = nn.LSTM(3, 2)

    def forward(self, steps: PackedSequence) -> tuple[PackedSequence, tuple[Tensor, Tensor]]:
        return self.rnn(steps)


class Whole(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.rnn = nn.LSTM(3, 2)

    def forward(self, x: Tensor, lengths: Tensor):
        packed = pack_padded_sequence(x, lengths, enforce_sorted=False)
        out, (hidden, _) = self.rnn(packed)
        padded, counts = pad_packed_sequence(out)
        return padded, counts, hidden


class Made(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.rnn = nn.GRU(3, 2)

    def forward(self, data: Tensor, sizes: Tensor):
        out, hidden = self.rnn(PackedSequence(data, sizes, None, None))
        return out.data, hidden


def flat(held):
    if isinstance(held, Tensor):
        return [held]
    return [] if held is None else [t for part in held for t in flat(part)]


def stored(program):
    buffer = io.BytesIO()
    weft.jit.save(program, buffer)
    buffer.seek(0)
    return weft.jit.load(buffer)


def same(a, b) -> bool:
    return len(flat(a)) == len(flat(b)) and all(map(weft.equal, flat(a), flat(b)))


X, LENGTHS = weft.arange(5 * 3 * 3).reshape(5, 3, 3) / 10, weft.tensor([3, 5, 2])
PACKED = pack_sequence([X[:, 0], X[:3, 1]])


@pytest.mark.parametrize(
    "model,args",
    [
        (Direct(nn.GRU), (PACKED,)), (Direct(nn.RNN), (PACKED,)), (DirectLSTM(), (PACKED,)), (Whole(), (X, LENGTHS)),
        (Made(), (PACKED.data, PACKED.batch_sizes)),
    ],
)  # fmt: skip
def test_a_scripted_layer_takes_and_gives_packed_sequences(model, args) -> None:
    program, expected = weft.jit.script(model), model(*args)
    assert same(program(*args), expected) and same(stored(program)(*args), expected)
    assert type(program(*args)[0]) is type(expected[0])


def test_a_scripted_layer_is_called_with_packed_sequences() -> None:
    layer = nn.LSTM(3, 2)
    program = weft.jit.script(layer)
    assert same(program(PACKED), layer(PACKED)) and same(program(X), layer(X))


def test_a_trace_serves_other_lengths() -> None:
    model = Whole()
    traced = weft.jit.trace(model, (X, LENGTHS))
    other = (X[:4] * 2, weft.tensor([4, 1, 3]))
    assert same(traced(*other), model(*other)) and same(stored(traced)(*other), model(*other))


def test_gradients_flow_through_packed_sequences() -> None:
    model = Whole()
    program = weft.jit.script(model)
    grads = []
    for run in (model, program):
        model.zero_grad()
        x = X.clone().requires_grad_()
        run(x, LENGTHS)[0].sum().backward()
        grads.append([x.grad.clone(), *(p.grad.clone() for p in model.parameters())])
    assert same(*grads)
