"""Modules made on the device "meta", moved there, and given memory; arguments of `to` that are refused."""

from __future__ import annotations

from collections import OrderedDict

import pytest

import weft
from weft import nn

MADE = [
    lambda **o: nn.Linear(3, 4, **o), lambda **o: nn.Conv2d(2, 3, 2, **o), lambda **o: nn.ConvTranspose1d(2, 3, 2, **o),
    lambda **o: nn.BatchNorm1d(3, **o), lambda **o: nn.InstanceNorm2d(3, affine=True, **o),
    lambda **o: nn.LayerNorm(3, **o), lambda **o: nn.GroupNorm(1, 3, **o), lambda **o: nn.RMSNorm(3, **o),
    lambda **o: nn.Embedding(4, 3, padding_idx=1, **o), lambda **o: nn.EmbeddingBag(4, 3, **o),
    lambda **o: nn.LSTM(2, 3, 2, **o), lambda **o: nn.GRUCell(2, 3, **o), lambda **o: nn.PReLU(**o),
    lambda **o: nn.Bilinear(2, 3, 4, **o), lambda **o: nn.MultiheadAttention(4, 2, kdim=3, add_bias_kv=True, **o),
    lambda **o: nn.Transformer(4, 2, 1, 1, 8, **o), lambda **o: nn.AdaptiveLogSoftmaxWithLoss(8, 6, [2, 4], **o),
]


@pytest.mark.parametrize("i", range(len(MADE)))
def test_a_module_on_meta_gets_memory(i: int) -> None:
    module, plain = MADE[i](device="meta"), MADE[i]()
    tensors = dict(module.state_dict())
    assert tensors and {str(t.device) for t in tensors.values()} == {"meta"}
    assert (
        {k: (tuple(v.shape), v.dtype) for k, v in tensors.items()}
        == {k: (tuple(v.shape), v.dtype) for k, v in plain.state_dict().items()}
    )
    parameters = list(module.parameters())
    module.to_empty(device="cpu").load_state_dict(plain.state_dict())
    assert all(a is b for a, b in zip(parameters, module.parameters(), strict=True))
    assert all(weft.equal(a, b) for a, b in zip(module.state_dict().values(), plain.state_dict().values(), strict=True))
    moved = plain.to("meta")
    assert {str(t.device) for t in moved.state_dict().values()} == {"meta"}
    with pytest.raises(RuntimeError, match="CPU only"):
        MADE[i](device="cuda")


def test_modules_without_drawn_values() -> None:
    layer = nn.utils.skip_init(nn.Linear, 3, 4, bias=False)
    assert layer.weight.shape == (4, 3) and str(layer.weight.device) == "cpu" and layer.bias is None
    with pytest.raises(RuntimeError, match="device"):
        nn.utils.skip_init(nn.ReLU)


def test_arguments_of_to() -> None:
    layer = nn.Linear(2, 2)
    assert (
        layer.to(weft.float64, True).weight.dtype is weft.float64
        and layer.to("cpu", weft.float32, non_blocking=True).weight.dtype is weft.float32
    )
    assert layer.to(weft.ones(1, dtype=weft.float16)).weight.dtype is weft.float16
    for args, options in (
        (((123,), {}), ((weft.int64,), {}), (("cpu", True, 5), {}), ((), {"dtype": "x"}), ((), {"copy": True}))
    ):
        with pytest.raises(TypeError):
            layer.to(*args, **options)


def test_prefixes_of_wrappers_are_taken_off() -> None:
    inner = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2))
    state = nn.ModuleDict({"module": inner}).state_dict()
    nn.modules.utils.consume_prefix_in_state_dict_if_present(state, "module.")
    assert list(state) == list(inner.state_dict())
    inner.load_state_dict(state)
    assert nn.modules.utils._pair(3) == (3, 3) and nn.modules.utils._triple((1, 2, 3)) == (1, 2, 3)


def test_parameter_dicts_are_dicts() -> None:
    values = nn.ParameterDict({"b": weft.zeros(1), "a": weft.ones(2)})
    assert (
        list(values) == ["a", "b"]
        and list(nn.ParameterDict(OrderedDict(b=weft.zeros(1), a=weft.ones(2)))) == ["b", "a"]
    )
    assert values.setdefault("c", weft.ones(3)) is values["c"] and list(reversed(values)) == ["c", "b", "a"]
    assert (
        list(values.copy()) == ["a", "b", "c"] and values.popitem()[0] == "c"
        and list(values | nn.ParameterDict({"d": weft.ones(1)})) == ["a", "b", "d"]
    )
    assert (
        [[tuple(w.shape) for w in layer] for layer in nn.GRU(2, 3, 2, bias=False).all_weights]
        == [[(9, 2), (9, 3)], [(9, 3), (9, 3)]]
    )
