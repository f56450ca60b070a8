"""Devices that are not there are values, refused where they are used; names that are not there say so;
storages have slices; tensors are no arrays."""

from __future__ import annotations

import copy
import os
import pickle
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import weft
import weft.types

ROOT = Path(__file__).parents[3]


def test_a_device_is_a_value() -> None:
    cuda, second = weft.device("cuda"), weft.device("cuda", 1)
    assert (
        (cuda.type, cuda.index, str(second), repr(second)) == ("cuda", None, "cuda:1", "device(type='cuda', index=1)")
    )
    assert (
        second == weft.device("cuda:1") == weft.device(type="cuda", index=1) != cuda
        and len({second, weft.device("cuda:1"), cuda}) == 2
    )
    for device in (second, weft.device("meta"), weft.device("mps"), weft.device("xpu:0")):
        for same in (pickle.loads(pickle.dumps(device)), copy.deepcopy(device), weft.device(device)):
            assert same == device and type(same) is weft.device
    for wrong in ("cuda:x", "cuda:-1", "cuda:01", "cuda:", "gpu", ""):
        with pytest.raises(RuntimeError, match="device"):
            weft.device(wrong)
    for arguments in (("cuda:0", 1), ("cuda", -1)):
        with pytest.raises(RuntimeError, match="index"):
            weft.device(*arguments)
    with pytest.raises(TypeError, match="device"):
        weft.device(1.5)


USES: list[Callable[[Any], Any]] = [
    lambda d: weft.zeros(2, device=d), lambda d: weft.rand(2, device=d), lambda d: weft.arange(3, device=d),
    lambda d: weft.tensor(1.0, device=d), lambda d: weft.as_tensor([1.0], device=d),
    lambda d: weft.asarray([1.0], device=d), lambda d: weft.zeros_like(weft.ones(2), device=d),
    lambda d: weft.ones(2).new_ones(2, device=d), lambda d: weft.ones(2).to(d),
    lambda d: weft.ones(2).to(device=d, dtype=weft.float64),
    lambda d: weft.nn.Linear(2, 2, device=d), lambda d: weft.nn.Linear(2, 2).to(d),
    lambda d: weft.nn.Linear(2, 2).to_empty(device=d),
    lambda d: weft.Generator(d), lambda d: weft.set_default_device(d),
    lambda d: weft.compile(lambda x: x + weft.zeros(2, device=d))(weft.ones(2)),
]


@pytest.mark.parametrize("device", ["cuda", "cuda:1", "mps", "xpu"])
def test_an_absent_device_is_refused_where_it_is_used(device: str) -> None:
    for use in USES:
        for given in (device, weft.device(device)):
            with pytest.raises(RuntimeError, match=f"device '{device}': weft computes on the CPU only") as caught:
                use(given)
            assert isinstance(caught.value, AssertionError)  # what PyTorch without CUDA raises
    assert weft.get_default_device() == "cpu"


def test_questions_about_devices_are_answered() -> None:
    cuda = weft.cuda
    assert not (
        cuda.is_available() or cuda.is_initialized() or cuda.is_bf16_supported() or cuda.device_count()
        or cuda.memory_allocated()
    )
    assert cuda.get_arch_list() == [] and cuda.get_rng_state_all() == []
    for name in (
        (
            "current_device", "set_device", "get_device_name", "get_device_properties", "mem_get_info",
            "current_stream", "init",
        )
    ):
        with pytest.raises(AssertionError, match=f"cuda.{name}: .*is_available"):
            getattr(cuda, name)(*(0,) * (name == "set_device"))
    assert (
        weft.backends.cpu.get_cpu_capability() in ("DEFAULT", "AVX2", "AVX512") and not weft.backends.mps.is_available()
    )
    assert weft.version.cuda is weft.version.hip is None and weft.version.__version__ == weft.__version__


def test_anomaly_mode_answers() -> None:
    assert (weft.is_anomaly_enabled(), weft.is_anomaly_check_nan_enabled()) == (False, True)
    with pytest.warns(UserWarning, match="Anomaly"), weft.autograd.detect_anomaly(check_nan=False):
        assert (weft.is_anomaly_enabled(), weft.is_anomaly_check_nan_enabled()) == (True, False)
    assert (weft.is_anomaly_enabled(), weft.is_anomaly_check_nan_enabled()) == (False, True)


def test_tensors_convert_to_arrays_and_are_none() -> None:
    x = weft.ones(3)
    assert not hasattr(x, "__array_interface__") and not hasattr(weft.Tensor, "__array_interface__")
    array = np.asarray(x)
    array[0] = 7
    assert x.tolist() == [7, 1, 1] and np.shares_memory(np.asarray(x), x.numpy())
    assert np.array(x).tolist() == [7, 1, 1] and np.stack([x, x]).shape == (2, 3) and np.sin(x).shape == (3,)
    with pytest.raises(RuntimeError, match="detach"):
        np.asarray(weft.ones(2, requires_grad=True))


def test_a_slice_of_a_storage_is_a_storage() -> None:
    x = weft.arange(6, dtype=weft.int16)
    whole = x.untyped_storage()
    part = whole[2:6]
    assert type(part) is type(whole) is weft.UntypedStorage and part.data_ptr() == whole.data_ptr() + 2
    assert (len(part), part.nbytes(), part.element_size(), part.tolist()) == (4, 4, 1, [1, 0, 2, 0])
    version = x._version
    part[0] = 77
    part[-1] = -1
    part[1:3] = 258
    assert (
        x.tolist() == [0, 77 + 2 * 256, 2 - 256 * 1, 3, 4, 5] and x._version == version + 3 and part[0] == 77
        and part[-4] == 77
    )
    assert (
        part[1:][1:].tolist() == [2, 255] and whole[4:2].tolist() == [] and part == whole[2:6] != whole
        and hash(part) == hash(whole[2:6])
    )
    assert (
        list(part) == part.tolist() and weft.UntypedStorage(3).tolist() == [0, 0, 0]
        and weft.UntypedStorage([1, 2])[1:].tolist() == [2]
    )
    for index, kind, text in ((
        99, IndexError, "out of range"
    ), (-99, IndexError, "out of range"), ("a", TypeError, "can't index"), (1.0, TypeError, "can't index")):
        with pytest.raises(kind, match=text):
            whole[index]
    with pytest.raises(RuntimeError, match="step of 2"):
        whole[::2]
    with pytest.raises(RuntimeError, match="got float"):
        whole[0] = 1.5
    typed = x.storage()
    assert typed[1] == 77 + 512 and typed[-1] == 5
    with pytest.raises(RuntimeError, match="slices are only supported"):
        typed[1:3]


def test_annotations_of_types() -> None:
    from weft.types import Device, Number, Storage, _dtype, _int, _size

    assert (
        isinstance(2.5, Number) and not isinstance("a", Number) and isinstance("cpu", Device)
        and isinstance(weft.device("cpu"), Device)
    )
    assert (
        weft.Size in _size.__args__ and _dtype is weft.dtype and _int is int
        and isinstance(weft.ones(1).storage(), Storage)
    )


@pytest.mark.parametrize(("owner", "name", "text"), [
    (weft, "quantize_per_tensor", "quantized"), (weft, "nested", "nested"),
    (weft, "rpc", "no remote calls"), (weft, "bits8", "twelve dtypes"),
    (weft.Tensor, "dequantize", "quantized"), (weft.ones(2), "to_padded_tensor", "nested"),
])
def test_what_is_not_there_says_so(owner: Any, name: str, text: str) -> None:
    with pytest.raises(AttributeError, match=rf"no attribute '{name}': .*{text}.*docs/differences\.md"):
        getattr(owner, name)
    assert getattr(owner, name, 3) == 3 and not hasattr(owner, name)


def test_a_misspelled_name_is_only_that() -> None:
    for owner, name in ((weft, "matmull"), (weft.nn, "Linera"), (weft.nn.functional, "reluu"), (weft.optim, "Adma"), (
        weft.ones(1), "summ"
    )):
        with pytest.raises(AttributeError, match=f"no attribute '{name}'$"):
            getattr(owner, name)


@pytest.mark.parametrize(("variable", "value", "text"), [
    ("WEFT_CHEKC", "1", r"nothing reads the environment variable WEFT_CHEKC \(did you mean WEFT_CHECK\?\)"),
    ("WEFT_THREADS", "2", "did you mean WEFT_NUM_THREADS"),
    ("WEFT_DEBUG", "gaurds", "WEFT_DEBUG=gaurds: .*did you mean guards"), ("WEFT_EAGER", "maybe", "neither on"),
    ("WEFT_CHECK", "3", "not one of 0, 1, 2"),
    ("WEFT_FUEL", "much", "no whole number"), ("WEFT_BACKEND", "llm", r"did you mean llvm\?"),
])
def test_switches_that_are_not_there_say_so(variable: str, value: str, text: str) -> None:
    environment = {k: v for k, v in os.environ.items() if not k.startswith("WEFT_")}
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", "import weft"], cwd=ROOT, env={**environment, variable: value},
        capture_output=True, text=True,
    )
    assert done.returncode == 1
    assert re.search(text, done.stderr), done.stderr[-300:]


def test_a_size_found_while_running_says_where() -> None:
    def step(x: weft.Tensor) -> weft.Tensor:
        counts = weft.bincount(x, minlength=4)
        return counts / weft.ones(4)

    with pytest.raises(weft.WeftError, match=r"found in line \d+\); bincount.s length is .*index_add"):
        weft.compile(step)(weft.tensor([0, 1, 1, 3]))
    known = weft.compile(lambda x: weft.zeros(4, dtype=weft.int64).index_add(0, x, weft.ones_like(x)) / weft.ones(4))
    assert known(weft.tensor([0, 1, 1, 3])).tolist() == weft.bincount(weft.tensor([0, 1, 1, 3])).tolist()


def test_a_descriptor_that_raises_is_guarded_as_any_other() -> None:
    """hasattr of such a name in a compiled function: the guard looks at the descriptor and does not ask it."""

    class Refusing:
        def __get__(self, instance: object, owner: type) -> None:
            raise AttributeError("not for you")

    class Model:
        hidden: Any = Refusing()

    model = Model()
    step = weft.compile(lambda x: x * (3 if hasattr(model, "hidden") else 2))
    assert [step(weft.ones(1)).item() for _ in range(3)] == [2, 2, 2]
    Model.hidden = 1.0
    assert step(weft.ones(1)).item() == 3
