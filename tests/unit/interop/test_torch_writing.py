"""torch.save's files, written and read again."""

from __future__ import annotations

import io
import zipfile
from collections import OrderedDict
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import weft
from weft import nn
from weft.torch.files import load, save

RNG = np.random.Generator
DTYPES = ("float64", "float32", "float16", "bfloat16", "int64", "int32", "int16", "int8", "uint8", "bool", "complex64",
          "complex128")


def test_tensors_of_every_kind_come_back(rng: RNG, tmp_path: Path) -> None:
    size = int(rng.integers(3, 7))
    base = weft.from_numpy(rng.normal(size=(size, size)))
    saved: dict[str, Any] = {name: weft.from_numpy(rng.normal(size=size)).to(getattr(weft, name)) for name in DTYPES}
    saved |= {
        "base": base, "part": base[1:, ::2], "turned": base.t(), "empty": weft.empty(0, 3), "number": weft.tensor(2.5),
        "wants": weft.ones(2, requires_grad=True), "parameter": nn.Parameter(weft.ones(2)), "size": weft.Size([2, 3]),
        "dtype": weft.bfloat16, "device": weft.device("cpu"), "plain": (1, True, None, "text", b"\x00", 1 + 2j, {"a"}),
        "lazy": weft.ones(3, device="lazy") * 2, "wide": weft.ones(1).expand(4),
    }
    for target in (tmp_path / "kinds.pt", str(tmp_path / "kinds.pth"), io.BytesIO()):
        save(saved, target)
        if isinstance(target, io.BytesIO):
            target.seek(0)
        loaded = load(target)
        for name in (*DTYPES, "base", "part", "turned", "empty", "number", "wants", "parameter", "wide"):
            assert weft.equal(loaded[name], saved[name]) and loaded[name].dtype is saved[name].dtype, name
            assert loaded[name].stride() == saved[name].stride() and loaded[name].is_leaf
        assert loaded["lazy"].tolist() == [2.0, 2.0, 2.0] and loaded["plain"] == saved["plain"]
        assert isinstance(loaded["parameter"], nn.Parameter) and loaded["wants"].requires_grad
        assert loaded["size"] == saved["size"] and loaded["dtype"] is weft.bfloat16
        loaded["base"][1, 0] = 7.0  # views share memory again
        assert loaded["part"][0, 0] == 7.0 and loaded["turned"][0, 1] == 7.0
    with zipfile.ZipFile(tmp_path / "kinds.pt") as file:  # as PyTorch's reader wants it
        names = file.namelist()
        assert names[0] == "kinds/data.pkl" and file.read("kinds/version") == b"3\n"
        assert sum("/data/" in name for name in names) == len(DTYPES) + 7
        for entry in file.infolist():
            at = entry.header_offset + 30 + len(entry.filename) + len(entry.extra)
            assert entry.compress_type == zipfile.ZIP_STORED and at % 64 == 0


def test_a_run_goes_on_from_its_checkpoint(rng: RNG) -> None:
    def made() -> tuple[nn.Module, weft.optim.Optimizer]:
        model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 1))
        return model, weft.optim.AdamW(model.parameters(), lr=0.1)

    x = weft.from_numpy(rng.normal(size=(8, 3))).float()

    def step(model: nn.Module, optimizer: weft.optim.Optimizer) -> float:
        optimizer.zero_grad()
        loss = model(x).square().mean()
        loss.backward()
        optimizer.step()
        return float(loss)

    model, optimizer = made()
    step(model, optimizer)
    file = io.BytesIO()
    save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "epoch": 1}, file)
    losses = [step(model, optimizer) for _ in range(3)]
    file.seek(0)
    state = load(file, map_location="cpu", weights_only=True)
    assert isinstance(state["model"], OrderedDict) and state["model"]._metadata == model.state_dict()._metadata
    other, others_optimizer = made()
    other.load_state_dict(state["model"])
    others_optimizer.load_state_dict(state["optimizer"])
    assert [step(other, others_optimizer) for _ in range(3)] == losses


def test_objects_of_other_classes_only_where_code_may_run(rng: RNG) -> None:
    model, file = nn.Sequential(nn.Linear(2, 3), nn.ReLU()), io.BytesIO()
    save(model, file)
    file.seek(0)
    with pytest.raises(weft.WeftError, match=r"Sequential"):
        load(file)
    file.seek(0)
    x = weft.from_numpy(rng.normal(size=(4, 2))).float()
    assert weft.equal(load(file, weights_only=False)(x), model(x))


def test_devices_and_mistakes(tmp_path: Path) -> None:
    path = tmp_path / "x.pt"
    save([weft.ones(2)], path)
    for where in (None, "cpu", weft.device("cpu"), "cuda:0", {"cuda:0": "cpu"}, lambda storage, location: storage):
        assert load(path, where)[0].device.type == "cpu"
    for options in ({}, {"weights_only": False}):
        assert load(path, weft.device("meta"), **options)[0].device.type == "meta"
    with pytest.raises(weft.WeftError, match="meta"):
        save(weft.ones(2, device="meta"), io.BytesIO())
    with pytest.raises(weft.WeftError, match=r"1\.6"):
        save(1, io.BytesIO(), _use_new_zipfile_serialization=False)
    with pytest.raises(Exception, match="lambda"):
        save(lambda: None, io.BytesIO())


def test_classes_that_are_listed_are_built(rng: RNG) -> None:
    model, file = nn.Sequential(nn.Linear(2, 3), nn.ReLU()), io.BytesIO()
    save({"model": model, "tensor": weft.ones(2)}, file)
    x = weft.from_numpy(rng.normal(size=(4, 2))).float()
    with weft.serialization.safe_globals([nn.Sequential, nn.Linear, (nn.ReLU, f"{nn.ReLU.__module__}.ReLU")]):
        file.seek(0)
        loaded = load(file)
        assert weft.equal(loaded["model"](x), model(x)) and weft.equal(loaded["tensor"], weft.ones(2))
    with weft.serialization.safe_globals([nn.Sequential, nn.Linear]):
        file.seek(0)
        with pytest.raises(weft.WeftError, match=r"activations\.ReLU.*add_safe_globals"):
            load(file)
    with weft.serialization.safe_globals([dict]):
        file = io.BytesIO()
        save({"names": {"a"}, "number": 1 + 2j, "parameter": nn.Parameter(weft.ones(2))}, file)
        file.seek(0)
        loaded = load(file)
        assert loaded["names"] == {"a"} and loaded["number"] == 1 + 2j and loaded["parameter"].requires_grad
