"""Exported models whose sizes differ from call to call: recurrent layers, packed sequences, attention, grids."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import onnx
import pytest
from onnx.reference import ReferenceEvaluator

import weft
import weft.jit
import weft.onnx
from weft import Tensor, nn


class Recurrent(nn.Module):
    def __init__(self, kind: Any, **options: Any) -> None:
        super().__init__()
        self.layer = kind(3, 4, batch_first=True, **options)

    def forward(self, x):
        return self.layer(x)


class Packed(nn.Module):
    def __init__(self, kind: Any) -> None:
        super().__init__()
        self.layer = kind(3, 4)

    def forward(self, x, lengths):
        packed = nn.utils.rnn.pack_padded_sequence(x, lengths, enforce_sorted=False)
        out, state = self.layer(packed)
        padded, again = nn.utils.rnn.pad_packed_sequence(out)
        return padded, again, state


class Causal(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.places = nn.Embedding(20, 8)
        self.layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)

    def forward(self, x):
        n = x.size(1)
        mask = weft.triu(weft.full((n, n), float("-inf")), 1)
        return self.layer(x + self.places(weft.arange(n)), mask)


def centres(x: Tensor):
    ys, xs = weft.meshgrid(weft.arange(x.size(0)) + 0.5, weft.arange(x.size(1)) * 2.0, indexing="ij")
    return weft.stack([xs, ys], -1).reshape(-1, 2)


def flat(value: Any) -> list[Any]:
    """The arrays of a result."""
    if isinstance(value, (tuple, list)):
        return [leaf for v in value for leaf in flat(v)]
    return [value.detach().numpy() if isinstance(value, Tensor) else np.asarray(value)]


def check(model: Any, axes: Any, *calls: Any) -> Any:
    """The first call is the example; the evaluator and weft give for all of them what the model gives."""
    file = io.BytesIO()
    weft.onnx.export(model, calls[0], file, dynamic_axes=axes)
    written = onnx.load_from_string(file.getvalue())
    onnx.checker.check_model(written, full_check=True)
    names = [i.name for i in written.graph.input]
    for call in calls:
        expected = flat(model(*call))
        found = flat(ReferenceEvaluator(written).run(None, {n: t.numpy() for n, t in zip(names, call, strict=True)}))
        read = flat(weft.onnx.load(written)(*call))
        for a, b, c in zip(expected, found, read, strict=True):
            assert a.shape == b.shape == c.shape and a.dtype == b.dtype == c.dtype
            np.testing.assert_allclose(b, a, rtol=1e-4, atol=1e-5)
            np.testing.assert_allclose(c, a, rtol=1e-4, atol=1e-5)
    return written


@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU, nn.RNN])
@pytest.mark.parametrize("scripted", [False, True])
def test_recurrent_layers_take_any_number_of_steps(kind, scripted):
    model = Recurrent(kind, bidirectional=True, num_layers=2)
    model = weft.jit.script(model) if scripted else model
    check(model, {"x": {0: "batch", 1: "time"}}, (weft.randn(2, 3, 3),), (weft.randn(4, 6, 3),), (weft.randn(1, 1, 3),))


@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU])
def test_packed_sequences_have_the_lengths_of_the_call(kind):
    calls = [(weft.randn(max(lengths) + 1, 3, 3), weft.tensor(lengths)) for lengths in ([5, 3, 2], [1, 4, 4])]
    check(Packed(kind), {"x": [0]}, *calls)


@pytest.mark.parametrize("scripted", [False, True])
def test_attention_takes_any_batch_and_length(scripted):
    model = weft.jit.script(Causal().eval()) if scripted else Causal().eval()
    check(model, {"x": {0: "batch", 1: "time"}}, (weft.randn(2, 3, 8),), (weft.randn(4, 6, 8),))


def test_sizes_that_python_computes_with():
    check(weft.jit.script(centres), {"x": {0: "h", 1: "w"}}, (weft.randn(2, 3),), (weft.randn(5, 1),))
    check(lambda x: x.reshape(x.shape[0] // 2, 2, -1).flip(0), {"x": [0]}, (weft.randn(4, 3),), (weft.randn(6, 3),))


def test_only_the_axes_that_are_named_are_dynamic():
    written = check(lambda x: (x @ weft.ones(3, 5)).relu().sum(1), {"x": {0: "n"}}, (weft.randn(4, 3),))
    dims = written.graph.output[0].type.tensor_type.shape.dim
    assert not dims[0].HasField("dim_value")
    with pytest.raises(weft.WeftError, match="unbind of a dynamic size"):
        weft.onnx.export(lambda x: x.unbind(0)[0], weft.randn(4, 3), io.BytesIO(), dynamic_axes={"x": [0]})
    weft.onnx.export(lambda x: x.unbind(1)[0], weft.randn(4, 3), io.BytesIO(), dynamic_axes={"x": [0]})
