"""weft.save and weft.load: structure, shared memory, refusals, and files that are whole or unchanged."""

from __future__ import annotations

import io
import json
import math
import os
import random
from collections import OrderedDict
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import weft
from weft.interop import safetensors, structure
from weft.support.errors import ParseError


def again(value: Any) -> Any:
    file = io.BytesIO()
    weft.save(value, file)
    return weft.load(io.BytesIO(file.getvalue()))


PLAIN = [
    None, True, 3, -(2**70), 2.5, float("inf"), float("-inf"), 1e-310, "text \u00e4\n", b"\x00\xff", 1 - 2j, [], (), {},
    [1, [2, (3,)]], {"a": {"b": 1}},
    {1: "int", (2, 3): "tuple", None: 0}, {1, 2}, weft.float16, weft.Size((2, 3)), weft.device("cpu"),
]


@pytest.mark.parametrize("value", PLAIN, ids=repr)
def test_plain_data_comes_back_as_it_was(value: Any) -> None:
    found = again(value)
    assert found == value and type(found) is type(value)


def test_nan_and_numpy_values() -> None:
    assert math.isnan(again(float("nan")))
    found = again({"n": np.float32(1.5), "a": np.arange(6).reshape(2, 3)})
    assert found["n"] == 1.5 and found["n"].dtype == np.float32
    np.testing.assert_array_equal(found["a"], np.arange(6).reshape(2, 3))


@pytest.mark.parametrize("name", [
    "bool", "uint8", "int8", "int16", "int32", "int64", "float16", "bfloat16", "float32", "float64", "complex64",
    "complex128",
])
def test_every_dtype(name: str) -> None:
    dtype = getattr(weft, name)
    x = weft.randn(random.randint(1, 4), 3).to(dtype)
    found = again(x)
    assert found.dtype is dtype and found.shape == x.shape and weft.equal(found, x)


def test_layout_gradients_and_parameters_stay() -> None:
    x = weft.randn(2, 3, 4).permute(2, 0, 1)
    parameter = weft.nn.Parameter(weft.randn(3))
    found = again({
        "x": x, "empty": weft.zeros(0, 2), "scalar": weft.tensor(1.5), "p": parameter,
        "g": weft.ones(2, requires_grad=True),
    })
    assert found["x"].stride() == x.stride() and weft.equal(found["x"], x)
    assert tuple(found["empty"].shape) == (0, 2) and found["scalar"].ndim == 0
    assert (
        isinstance(found["p"], weft.nn.Parameter) and found["p"].requires_grad and found["g"].requires_grad
        and not found["x"].requires_grad
    )


def test_tensors_that_share_memory_share_it_again() -> None:
    base = weft.randn(4, 5)
    found = again([base, base[1:, ::2], base.t(), weft.randn(2)])
    found[0][1, 2] = 42.0
    assert found[1][0, 1].item() == 42.0 and found[2][2, 1].item() == 42.0
    assert found[0]._version == found[1]._version == 1 and found[3]._version == 0


def test_a_training_run_goes_on_from_its_file(tmp_path: Path) -> None:
    def fresh() -> tuple[Any, Any]:
        weft.manual_seed(1)
        model = weft.nn.Sequential(weft.nn.Linear(3, 4), weft.nn.BatchNorm1d(4), weft.nn.Linear(4, 1))
        return model, weft.optim.Adam(model.parameters(), lr=0.1)

    x = weft.randn(8, 3)

    def train(model: Any, optimizer: Any, steps: int) -> None:
        for _ in range(steps):
            optimizer.zero_grad()
            model(x).square().mean().backward()
            optimizer.step()

    model, optimizer = fresh()
    train(model, optimizer, 3)
    weft.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, tmp_path / "run.weft")
    train(model, optimizer, 2)
    other, other_optimizer = fresh()
    state = weft.load(tmp_path / "run.weft")
    assert isinstance(state["model"], OrderedDict)
    other.load_state_dict(state["model"])
    other_optimizer.load_state_dict(state["optimizer"])
    train(other, other_optimizer, 2)
    for a, b in zip(model.state_dict().values(), other.state_dict().values(), strict=True):
        assert weft.equal(a, b)


def test_any_safetensors_reader_sees_the_tensors() -> None:
    load = pytest.importorskip("safetensors.numpy").load
    file = io.BytesIO()
    model = weft.nn.Linear(2, 3)
    weft.save({"model": model.state_dict(), "epoch": 3}, file)
    found = load(file.getvalue())
    assert set(found) == {"model.weight", "model.bias"}
    np.testing.assert_array_equal(found["model.weight"], model.weight.detach().numpy())


def test_plain_safetensors_files_are_dicts_of_tensors() -> None:
    found = weft.load(io.BytesIO(safetensors.save({"x": weft.arange(3)})))
    assert list(found) == ["x"] and found["x"].tolist() == [0, 1, 2]


def test_map_location() -> None:
    file = io.BytesIO()
    weft.save({"a": [weft.ones(2, 3)], "n": 1}, file)
    found = weft.load(io.BytesIO(file.getvalue()), map_location="meta")
    assert found["a"][0].device == "meta" and tuple(found["a"][0].shape) == (2, 3) and found["n"] == 1
    assert weft.load(io.BytesIO(file.getvalue()), map_location="cpu")["a"][0].sum().item() == 6


def test_what_needs_code_is_refused_with_its_place() -> None:
    with pytest.raises(TypeError, match=r"save: model\.0 is a Linear.*state_dict"):
        weft.save({"model": [weft.nn.Linear(1, 1)]}, io.BytesIO())
    with pytest.raises(TypeError, match="save: the object is a function"):
        weft.save(lambda: 0, io.BytesIO())
    with pytest.raises(TypeError, match="meta and has no data"):
        weft.save(weft.empty(1, device="meta"), io.BytesIO())
    loop: list[Any] = []
    loop.append(loop)
    with pytest.raises(ValueError, match="holds itself"):
        weft.save(loop, io.BytesIO())
    with pytest.raises(TypeError, match="path or a binary file"):
        weft.save(1, 5)  # type: ignore[arg-type]


def test_a_failed_save_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "state"
    weft.save({"x": 1}, path)

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        weft.save({"x": 2}, path)
    assert weft.load(path) == {"x": 1} and os.listdir(tmp_path) == ["state"]


def test_damaged_files_are_refused() -> None:
    file = io.BytesIO()
    weft.save({"x": weft.ones(4)}, file)
    whole = file.getvalue()
    for content in (b"", whole[:5], whole[:20], whole[:-1], b"\x00" * 8 + whole[8:]):
        with pytest.raises(ValueError, match="safetensors"):
            weft.load(io.BytesIO(content))
    size = int.from_bytes(whole[:8], "little")
    header = json.loads(whole[8 : 8 + size])
    for tree in (
        '{"tensor":{"in":"other","dtype":"float32","at":[[4],[1],0]}}',
        '{"tensor":{"in":"x","dtype":"float32","at":[[9],[1],0]}}',
        '{"tensor":{"in":"x","dtype":"float32","at":[[2],[1],-1]}}', '{"module":"os"}', "{}", "[",
    ):
        header["__metadata__"]["weft"] = tree
        text = json.dumps(header).encode()
        with pytest.raises(ValueError, match="structure"):
            weft.load(io.BytesIO(len(text).to_bytes(8, "little") + text + whole[8 + size :]))


def test_a_file_of_which_one_bit_has_changed_is_refused(rng) -> None:
    file = io.BytesIO()
    weft.save({"a": weft.from_numpy(rng.standard_normal((3, 2))), "b": [1, "text", None]}, file)
    content = file.getvalue()
    for at in range(len(content)):
        damaged = bytearray(content)
        damaged[at] ^= 1 << int(rng.integers(8))
        with pytest.raises(ParseError):
            weft.load(io.BytesIO(damaged))
    assert weft.load(io.BytesIO(content))["b"] == [1, "text", None]


def test_files_from_before_there_were_checksums_load() -> None:
    tree, arrays = structure.take_apart({"a": weft.ones(2), "n": 3})
    found = weft.load(io.BytesIO(safetensors.encode(arrays, {"weft": json.dumps(tree)})))
    assert found["n"] == 3 and weft.equal(found["a"], weft.ones(2))
