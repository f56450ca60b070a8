"""Layers, losses and activations against PyTorch's stored fingerprints (make_torch_values.py): results, gradients,
state, parameter names."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import weft
from tests.unit.nn.reference_layers import LAYERS, compute
from weft import nn
from weft.compile.driver import CompiledFunction
from weft.nn import functional as F

STORED: dict[str, Any] = json.loads(Path(__file__).with_name("torch_values.json").read_text())["layers"]
ROUNDED_IN_TORCH = ("Hardsigmoid", "CELU")  # their gradients use constants of single precision there


@pytest.fixture
def double() -> Iterator[None]:
    weft.set_default_dtype(weft.float64)
    yield
    weft.set_default_dtype(weft.float32)


@pytest.mark.parametrize("i", [pytest.param(i, id=f"{e} {s}") for i, (e, s) in enumerate(LAYERS)])
def test_a_layer_computes_what_pytorchs_does(i: int, double: None) -> None:
    expression, specs = LAYERS[i]
    wanted, found = STORED[expression + str(specs)], compute(weft, i)
    assert list(found) == list(wanted)
    tolerance = 1e-6 if any(name in expression for name in ROUNDED_IN_TORCH) else 1e-9
    for name in wanted:
        np.testing.assert_allclose(found[name], wanted[name], rtol=tolerance, atol=tolerance, err_msg=name)


def test_default_initialisation_has_pytorchs_distributions() -> None:
    linear, conv, table, lstm = nn.Linear(400, 300), nn.Conv2d(8, 300, 5), nn.Embedding(300, 400), nn.LSTM(50, 100)
    for weight, bound in ((
        linear.weight, 1 / 20
    ), (linear.bias, 1 / 20), (conv.weight, 200**-0.5), (conv.bias, 200**-0.5), (lstm.weight_ih_l0, 0.1)):
        values = weight.detach().numpy()
        assert np.abs(values).max() <= bound
        assert abs(values.mean()) < 4 * bound / np.sqrt(3 * values.size)
        assert values.std() == pytest.approx(bound / np.sqrt(3), rel=0.1)
    assert table.weight.detach().numpy().std() == pytest.approx(1.0, rel=0.02)
    assert not np.array_equal(nn.Linear(3, 3).weight.detach().numpy(), nn.Linear(3, 3).weight.detach().numpy())


def test_initialisers() -> None:
    init = nn.init
    big = weft.empty(400, 300)
    assert init.xavier_uniform_(big).numpy().std() == pytest.approx(np.sqrt(2 / 700), rel=0.02)
    assert init.xavier_normal_(big, gain=2.0).numpy().std() == pytest.approx(2 * np.sqrt(2 / 700), rel=0.02)
    assert (
        init.kaiming_normal_(big, mode="fan_out", nonlinearity="relu").numpy().std()
        == pytest.approx(np.sqrt(2 / 400), rel=0.02)
    )
    cut = init.trunc_normal_(big, 1.0, 2.0, 0.0, 3.0).numpy()
    assert cut.min() >= 0 and cut.max() <= 3 and cut.mean() > 1
    q = init.orthogonal_(weft.empty(5, 7), gain=3.0).numpy()
    np.testing.assert_allclose(q @ q.T, 9 * np.eye(5), atol=1e-5)
    assert (init.sparse_(weft.empty(10, 4), 0.35).numpy() == 0).sum(0).tolist() == [4] * 4
    np.testing.assert_array_equal(init.eye_(weft.empty(2, 3)).numpy(), np.eye(2, 3))
    image = weft.randn(1, 4, 5, 5)
    np.testing.assert_allclose(F.conv2d(image, init.dirac_(weft.empty(4, 4, 3, 3)), padding=1).numpy(), image.numpy())


def test_dropout_zeroes_a_share_and_scales_the_rest() -> None:
    x = weft.ones(200, 50, requires_grad=True)
    layer = nn.Dropout(0.25)
    y = layer(x)
    kept = y.detach().numpy() != 0
    assert kept.mean() == pytest.approx(0.75, abs=0.03)
    np.testing.assert_allclose(y.detach().numpy()[kept], 1 / 0.75, rtol=1e-6)
    y.sum().backward()
    np.testing.assert_array_equal(x.grad.numpy(), y.detach().numpy())
    assert layer.eval()(x) is x
    channels = nn.Dropout2d(0.5)(weft.ones(20, 30, 2, 2)).numpy().reshape(600, 4)
    assert set(map(tuple, channels.tolist())) == {(0.0,) * 4, (2.0,) * 4}


def test_alpha_dropout_keeps_mean_and_variance() -> None:
    x = weft.randn(400, 300)
    y = nn.AlphaDropout(0.2)(x).numpy()
    assert y.mean() == pytest.approx(0.0, abs=0.02) and y.std() == pytest.approx(1.0, rel=0.02)


def test_packed_sequences_equal_each_sequence_alone(rng: np.random.Generator) -> None:
    lengths = rng.integers(1, 6, 4).tolist()
    sequences = [weft.randn(n, 3) for n in lengths]
    for layer in (nn.LSTM(3, 4, num_layers=2, bidirectional=True), nn.GRU(3, 4), nn.RNN(3, 4, bidirectional=True)):
        packed = nn.utils.rnn.pack_sequence(sequences, enforce_sorted=False)
        out, last = layer(packed)
        padded, found = nn.utils.rnn.pad_packed_sequence(out, batch_first=True)
        assert found.tolist() == lengths
        hidden = last[0] if isinstance(last, tuple) else last
        for i, sequence in enumerate(sequences):
            alone, alone_last = layer(sequence)
            alone_hidden = alone_last[0] if isinstance(alone_last, tuple) else alone_last
            np.testing.assert_allclose(padded[i, : lengths[i]].detach().numpy(), alone.detach().numpy(), atol=1e-6)
            np.testing.assert_allclose(hidden[:, i].detach().numpy(), alone_hidden.detach().numpy(), atol=1e-6)
            assert (padded[i, lengths[i] :] == 0).all()


def test_attention_masks_hide() -> None:
    layer = nn.MultiheadAttention(8, 2, batch_first=True)
    x = weft.randn(2, 5, 8)
    causal = nn.Transformer.generate_square_subsequent_mask(5)
    out, weights = layer(x, x, x, attn_mask=causal)
    assert (weights.triu(1) == 0).all()
    np.testing.assert_allclose(weights.sum(-1).detach().numpy(), 1, rtol=1e-5)
    fast, none = layer(x, x, x, attn_mask=causal, need_weights=False)
    assert none is None
    np.testing.assert_allclose(fast.detach().numpy(), out.detach().numpy(), atol=1e-5)
    padding = weft.tensor([[False] * 5, [False, False, True, True, True]])
    hidden, _ = layer(x, x, x, key_padding_mask=padding)
    alone, _ = layer(x[1:], x[1:, :2], x[1:, :2])
    np.testing.assert_allclose(hidden[1:].detach().numpy(), alone.detach().numpy(), atol=1e-5)


def test_embedding_renormalizes_the_rows_it_looks_up() -> None:
    table = nn.Embedding(6, 4, max_norm=0.5)
    before = table.weight.detach().numpy().copy()
    table(weft.tensor([1, 4, 1]))
    after = table.weight.detach().numpy()
    assert np.linalg.norm(after[[1, 4]], axis=1).max() <= 0.5 + 1e-6
    np.testing.assert_array_equal(after[[0, 2, 3, 5]], before[[0, 2, 3, 5]])


@pytest.mark.parametrize(
    ("make", "dims"),
    [
        (lambda: nn.Sequential(
            nn.Conv2d(2, 3, 3, padding=1), nn.BatchNorm2d(3), nn.ReLU(), nn.Flatten(), nn.Linear(48, 2)
        ), (4, 2, 4, 4)),
        (lambda: nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6, momentum=None), nn.SELU(), nn.GroupNorm(2, 6)), (
            5, 4
        )),
        (lambda: nn.GRU(3, 4, num_layers=2), (4, 2, 3)),
        (lambda: nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True), (2, 3, 8)),
        (lambda: nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5), nn.Linear(4, 1)), (6, 4)),
    ],
)
def test_a_captured_training_step_equals_eager(make: Any, dims: tuple[int, ...]) -> None:
    eager, captured = make(), make()
    captured.load_state_dict(eager.state_dict())

    def step_of(model: nn.Module) -> Any:
        opt = weft.optim.AdamW(model.parameters(), lr=0.01)

        def step(x: weft.Tensor) -> weft.Tensor:
            opt.zero_grad()
            out = model(x)
            loss = ((out[0] if isinstance(out, tuple) else out) ** 2).mean()
            loss.backward()
            opt.step()
            return loss

        return step

    plain, compiled = step_of(eager), CompiledFunction(step_of(captured), backend="interpret")
    for seed in range(3):
        x = weft.randn(*dims)
        weft.manual_seed(seed)
        wanted = plain(x).item()
        weft.manual_seed(seed)
        assert compiled(x).item() == pytest.approx(wanted, rel=1e-5)
    for (name, a), b in zip(eager.state_dict().items(), captured.state_dict().values(), strict=True):
        np.testing.assert_allclose(b.numpy(), a.numpy(), rtol=1e-4, atol=1e-5, err_msg=name)
    assert len(compiled.entries) == 1, compiled.misses
