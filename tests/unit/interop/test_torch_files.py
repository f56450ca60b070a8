"""PyTorch's .pt files, read without running them. The files in data/ were written by data/make_torch_files.py with
torch 2.13."""

from __future__ import annotations

import contextlib
import io
import json
import os
import pickle
import zipfile
from collections import Counter, OrderedDict
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import weft

DATA = Path(__file__).parent / "data"


def test_a_checkpoint_with_model_and_optimizer() -> None:
    found = weft.load(DATA / "checkpoint.pt")
    expected = json.loads((DATA / "checkpoint.json").read_text())
    assert (found["epoch"], found["note"], found["losses"]) == (3, "text", [1.5, 0.25])
    assert list(found["model"]) == list(expected["model"])
    for name, (shape, numbers) in expected["model"].items():
        tensor = found["model"][name]
        assert list(tensor.shape) == shape
        np.testing.assert_array_equal(tensor.numpy().reshape(-1), np.array(numbers, tensor.numpy().dtype))
    np.testing.assert_allclose(found["optimizer"]["state"][0]["exp_avg"].numpy(), expected["exp_avg"], rtol=1e-6)
    assert found["optimizer"]["param_groups"][0]["lr"] == 0.01


def test_the_state_dict_fits_the_same_module() -> None:
    model = weft.nn.Sequential(weft.nn.Linear(3, 2), weft.nn.BatchNorm1d(2))
    state = weft.load(DATA / "checkpoint.pt")["model"]
    assert isinstance(state, OrderedDict) and state._metadata["1"] == {"version": 2}  # type: ignore[attr-defined]
    model.load_state_dict(state)
    assert weft.equal(model[0].weight, state["0.weight"])


def test_every_kind_of_value() -> None:
    found = weft.load(DATA / "kinds.pt")
    for name in (
        "float64", "float16", "bfloat16", "int64", "int32", "int16", "int8", "uint8", "bool", "complex64", "complex128"
    ):
        tensor = found[name]
        assert tensor.dtype is getattr(weft, name)
        assert tensor.to(weft.complex128).tolist() == [0, 1, 1 if name == "bool" else 2]
    assert tuple(found["empty"].shape) == (0, 3) and found["scalar"].item() == 2.5
    assert isinstance(found["parameter"], weft.nn.Parameter) and found["parameter"].requires_grad
    assert found["wants"].requires_grad and not found["base"].requires_grad
    assert found["size"] == (3, 4) and isinstance(found["size"], weft.Size)
    assert found["dtype"] is weft.bfloat16 and found["raw"] == b"\x00\xff" and found["nothing"] is None
    assert found["pair"] == (1, True) and found["names"] == {"a", "b"} and found["number"] == 1 + 2j


def test_views_share_their_storage() -> None:
    found = weft.load(DATA / "kinds.pt")
    base, turned, row = found["base"], found["turned"], found["row"]
    assert turned.stride() == (1, 4) and row.storage_offset() == 5
    base[1, 2] = 99
    assert turned[2, 1].item() == 99 and row[1].item() == 99
    assert base._version == turned._version == 1


def test_newer_pickles_and_open_files() -> None:
    assert weft.load(DATA / "protocol4.pt")["x"].tolist() == [1, 1]
    with open(DATA / "protocol4.pt", "rb") as file:
        assert weft.load(file)["x"].tolist() == [1, 1]
    assert weft.load(DATA / "protocol4.pt", map_location="meta")["x"].device == "meta"


def test_what_needs_code_is_refused_by_name() -> None:
    with pytest.raises(ValueError, match=r"make_torch_files\.Custom|__main__\.Custom"):
        weft.load(DATA / "custom.pt")
    with pytest.raises(ValueError, match=r"before 1\.6"):
        weft.load(DATA / "legacy.pt")
    with pytest.raises(NotImplementedError, match="weights_only=False"):
        weft.load(DATA / "kinds.pt", weights_only=False)


class Bomb:
    def __init__(self, function: Any, *arguments: Any) -> None:
        self.call = (function, arguments)

    def __reduce__(self) -> Any:
        return self.call


def archive(pickled: bytes, **entries: bytes) -> io.BytesIO:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as z:
        z.writestr("archive/data.pkl", pickled)
        for name, content in entries.items():
            z.writestr(f"archive/data/{name}", content)
    out.seek(0)
    return out


@pytest.mark.parametrize("protocol", range(2, pickle.HIGHEST_PROTOCOL + 1))
def test_no_code_in_a_file_is_run(tmp_path: Path, protocol: int) -> None:
    trace = tmp_path / "ran"
    for bomb in (Bomb(os.mkdir, str(trace)), Bomb(eval, f"__import__('os').mkdir({str(trace)!r})"), Bomb(
        getattr, OrderedDict, "clear"
    )):
        with pytest.raises(ValueError, match="nothing in a file is run"):
            weft.load(archive(pickle.dumps({"x": bomb}, protocol)))
    assert not trace.exists()


def tensor_pickle(key: str, offset: int, size: tuple[int, ...], stride: tuple[int, ...]) -> bytes:
    """The opcodes of one tensor, written by hand."""
    def number(n: int) -> bytes:
        return b"J" + n.to_bytes(4, "little", signed=True)

    def text(t: str) -> bytes:
        return b"X" + len(t).to_bytes(4, "little") + t.encode()

    def numbers(items: tuple[int, ...]) -> bytes:
        return b"(" + b"".join(number(i) for i in items) + b"t"

    reference = b"(" + text("storage") + b"ctorch\nFloatStorage\n" + text(key) + text("cpu") + number(6) + b"tQ"
    arguments = (
        b"(" + reference + number(offset) + numbers(size) + numbers(stride) + b"\x89" + b"ccollections\nOrderedDict\n)R"
        + b"t"
    )
    return b"\x80\x02" + b"ctorch._utils\n_rebuild_tensor_v2\n" + arguments + b"R."


def test_a_tensor_cannot_reach_outside_its_storage() -> None:
    content = np.arange(6, dtype=np.float32).tobytes()
    assert weft.load(archive(tensor_pickle("0", 1, (2, 2), (2, 1)), **{"0": content})).tolist() == [[1, 2], [3, 4]]
    for offset, size, stride in (
        (0, (7,), (1,)), (5, (2,), (1,)), (0, (2, 2), (100, 1)), (-1, (1,), (1,)), (0, (2,), (-1,)), (2**30, (1,), (1,))
    ):
        with pytest.raises(ValueError, match="does not make sense"):
            weft.load(archive(tensor_pickle("0", offset, size, stride), **{"0": content}))
    with pytest.raises(ValueError, match="lacks the bytes"):
        weft.load(archive(tensor_pickle("1", 0, (1,), (1,)), **{"0": content}))


def test_damaged_files_are_named_as_such() -> None:
    whole = (DATA / "kinds.pt").read_bytes()
    for content in (whole[: len(whole) // 2], b"PK\x03\x04" + b"x" * 50):
        with pytest.raises(ValueError, match="not a whole zip file"):
            weft.load(io.BytesIO(content))
    with pytest.raises(ValueError, match=r"no data\.pkl"):
        out = io.BytesIO()
        with zipfile.ZipFile(out, "w") as z:
            z.writestr("other", b"")
        weft.load(io.BytesIO(out.getvalue()))
    for pickled in (b"\x80\x02", b"\x80\x02X\xff\x00\x00\x00a.", b"\x80\x02t.", b"\x80\x02h\x05.", b"\x80\x02]}s."):
        with pytest.raises(ValueError, match="pickle"):
            weft.load(archive(pickled))


def test_changed_bytes_anywhere_are_an_error_of_weft_or_harmless(rng: np.random.Generator) -> None:
    whole = (DATA / "kinds.pt").read_bytes()
    for _ in range(60):
        changed = bytearray(whole[: rng.integers(len(whole))] if rng.random() < 0.3 else whole)
        for at in rng.integers(0, max(len(changed), 1), rng.integers(1, 4)) if changed else ():
            changed[at] = rng.integers(256)
        with contextlib.suppress(weft.WeftError):
            weft.load(io.BytesIO(bytes(changed)))


def test_pickles_of_changed_bytes_are_an_error_of_weft_or_harmless(rng: np.random.Generator) -> None:
    with zipfile.ZipFile(DATA / "kinds.pt") as z:
        items = {name: z.read(name) for name in z.namelist()}
    (structure,) = (name for name in items if name.endswith("data.pkl"))
    for _ in range(60):
        changed = bytearray(items[structure])
        for at in rng.integers(0, len(changed), rng.integers(1, 6)):
            changed[at] = rng.integers(256)
        out = io.BytesIO()
        with zipfile.ZipFile(out, "w") as z:
            for name, content in items.items():
                z.writestr(name, bytes(changed) if name == structure else content)
        with contextlib.suppress(weft.WeftError):
            weft.load(io.BytesIO(out.getvalue()))


def test_a_counter_is_plain_data() -> None:
    assert weft.load(archive(pickle.dumps(Counter("abca"), 2))) == {"a": 2, "b": 1, "c": 1}
