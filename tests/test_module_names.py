"""PyTorch's names of modules (weft/module_names.py), and what programs ask of compilers and devices."""

from __future__ import annotations

import importlib
import inspect
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

import weft
from weft import nn

RNG = np.random.Generator


@pytest.mark.parametrize("line", [
    "from weft._C import _TensorMeta, _get_tracing_state, DisableTorchFunctionSubclass, Generator, Graph, Node, Value",
    "from weft._dynamo import OptimizedModule, allow_in_graph, disable, mark_dynamic, graph_break, list_backends",
    "from weft._dynamo.utils import is_compile_supported", "from weft._dynamo.eval_frame import is_dynamo_supported",
    "from weft._dynamo.exc import Unsupported, TensorifyScalarRestartAnalysis",
    "from weft._dynamo._trace_wrapped_higher_order_op import TransformGetItemToIndex",
    "from weft._higher_order_ops.associative_scan import associative_scan", "import weft._custom_ops, weft.library",
    "from weft._prims_common import is_contiguous_or_false", "from weft._subclasses.fake_tensor import is_fake",
    "from weft.onnx import symbolic_opset11, register_custom_op_symbolic", "from weft.compiler import compile, disable",
    "from weft.onnx.symbolic_helper import parse_args", "from weft.storage import UntypedStorage",
    "from weft.autograd.profiler import record_function", "from weft.serialization import add_safe_globals, load",
    "from weft.utils._python_dispatch import is_traceable_wrapper_subclass",
    "from weft.utils.data.dataloader import _BaseDataLoaderIter, _MultiProcessingDataLoaderIter",
    "from weft.utils.flop_counter import FlopCounterMode", "from weft._tensor import Tensor",
    "from weft._utils import _flatten_dense_tensors, _unflatten_dense_tensors",
    "import weft.mps, weft.xpu, weft.mtia, weft.cpu, weft.accelerator, weft._inductor, weft.__config__",
    "from weft.nn.modules.transformer import _get_activation_fn", "from weft.optim.optimizer import ParamsT",
])
def test_names_can_be_imported_first(line: str) -> None:
    exec(line, {})


def test_a_process_that_imports_nothing_else_has_them() -> None:
    code = "import weft; weft._dynamo.mark_dynamic(weft.ones(2), 0); assert not weft.xpu.is_available()"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_name_that_is_not_there_says_so() -> None:
    for module in ("_C", "_dynamo", "mps", "onnx.symbolic_opset11", "_dynamo.exc"):
        with pytest.raises(AttributeError, match="no attribute 'absent'"):
            _ = importlib.import_module(f"weft.{module}").absent


def test_devices_that_are_not_there_answer_no_and_refuse_uses() -> None:
    for device in (weft.mps, weft.xpu, weft.mtia):
        assert device.is_available() is False and device.device_count() == 0
        device.manual_seed(0)
        device.empty_cache()
        for use in (device.current_device, lambda d=device: d.set_device(0), device.Stream):
            with pytest.raises(weft.WeftError, match="CPU only"):
                use()
    assert weft.accelerator.current_accelerator() is None and not weft.accelerator.is_available()
    for name in set(weft.accelerator.__all__) - {"is_available", "device_count", "current_accelerator", "empty_cache"}:
        with pytest.raises(weft.WeftError, match="CPU only"):
            getattr(weft.accelerator, name)()
    assert weft.cpu.is_available() and weft.cpu.device_count() == 1 and weft.cpu.current_device() == "cpu"
    assert weft._C._get_accelerator() == weft.device("cpu")
    assert "USE_CUDA=OFF" in weft.__config__.show() and str(weft.get_num_threads()) in weft.__config__.parallel_info()


# ---- compilers
def double_where_compiled(x: Any) -> Any:
    return x * 2 if weft.compiler.is_compiling() else x


def test_is_compiling_says_who_runs_the_line() -> None:
    x = weft.ones(2)
    for _ in range(2):
        assert weft.equal(double_where_compiled(x), x)
        assert weft.equal(weft.compile(double_where_compiled)(x), x * 2)
        assert weft.equal(weft.compile(double_where_compiled, split=True)(x), x * 2)
        assert weft.equal(weft.jit.trace(double_where_compiled, (x,))(x), x)
    assert not weft.compiler.is_exporting() and weft.compiler.list_backends() == ["interpret", "llvm", "numpy"]
    assert weft._dynamo.is_compiling() is False and weft._dynamo.utils.is_compile_supported("cpu")


def test_what_is_disabled_runs_as_python_or_is_refused() -> None:
    calls = []

    @weft.compiler.disable(reason="it talks")
    def aside(x: Any) -> Any:
        """Says so."""
        calls.append(float(x.sum()))
        return x + 1

    assert aside.__doc__ == "Says so." and weft.equal(aside(weft.ones(2)), weft.full((2,), 2.0))
    with pytest.raises(weft.WeftError, match=r"test_module_names\.py:\d+: .*aside is marked .*it talks.*split=True"):
        weft.compile(lambda x: aside(x) * 2)(weft.ones(2))
    split = weft.compile(lambda x: aside(x) * 2, split=True)
    for size in (2, 3, 2, 4):
        assert weft.equal(split(weft.ones(size)), weft.full((size,), 4.0))
    assert calls == [2.0, 2.0, 3.0, 2.0, 4.0]
    model = nn.Linear(2, 1)
    assert weft.compiler.disable(weft.compile(model)) is model
    assert weft.compiler.disable(weft.compile(double_where_compiled)) is double_where_compiled
    for bad in (model, 3):
        with pytest.raises(weft.WeftError):
            weft.compiler.disable(bad)


def test_marks_give_the_function_back() -> None:
    for mark in (weft.compiler.allow_in_graph, weft.compiler.assume_constant_result,
                 weft.compiler.nested_compile_region):
        assert mark(double_where_compiled) is double_where_compiled
        with pytest.raises(weft.WeftError):
            mark(3)
    assert weft.compiler.allow_in_graph([len]) == [len]
    weft.compiler.cudagraph_mark_step_begin()
    weft.compiler.reset()
    weft._dynamo.graph_break()
    with pytest.raises(weft.WeftError, match="one program"):
        weft.compile(lambda x: weft._dynamo.graph_break() or x)(weft.ones(1))


def test_a_stance_of_eager_mode_captures_nothing() -> None:
    step = weft.compile(double_where_compiled)
    x = weft.ones(2)

    @weft.compiler.set_stance("force_eager")
    def eagerly() -> Any:
        return step(x)

    with weft.compiler.set_stance("force_eager"):
        assert weft.equal(step(x), x)
    assert weft.equal(eagerly(), x) and weft.equal(step(x), x * 2)
    weft.compiler.set_stance("force_eager")
    assert weft.equal(step(x), x)
    weft.compiler.set_stance("default")
    assert weft.equal(step(x), x * 2)
    for stance in ("fail_on_recompile", "absent"):
        with pytest.raises(weft.WeftError, match="stance"):
            weft.compiler.set_stance(stance)


def test_switches_of_other_compilers_can_be_set_and_are_put_back() -> None:
    config = weft._dynamo.config
    config.cache_size_limit = 3
    with config.patch(cache_size_limit=9, verbose=True):
        assert config.cache_size_limit == 9 and config.verbose
    assert config.cache_size_limit == 3 and not hasattr(config, "verbose")
    del config.cache_size_limit


# ---- tools
def test_tools_of_other_files(rng: RNG) -> None:
    tensors = [weft.from_numpy(rng.normal(size=s)) for s in ((2, 3), (), (4,))]
    flat = weft._utils._flatten_dense_tensors(tensors)
    for part, tensor in zip(weft._utils._unflatten_dense_tensors(flat, tensors), tensors, strict=True):
        assert weft.equal(part, tensor)
    assert weft._utils._element_size(weft.float64) == 8
    assert weft._C._nn._parse_to("cpu", weft.float64)[:2] == (weft.device("cpu"), weft.float64)
    assert weft.func.vmap(lambda i: weft._C._are_functorch_transforms_active() * i)(weft.ones(2)).sum() == 2
    assert not weft._C._are_functorch_transforms_active() and weft._C._get_tracing_state() is None
    assert weft._prims_common.is_contiguous_or_false(flat) and not weft._subclasses.fake_tensor.is_fake(flat)
    with pytest.raises(weft.WeftError, match="count"):
        importlib.import_module("weft.utils.flop_counter").FlopCounterMode()
    with weft.serialization.safe_globals([dict]):
        assert weft.serialization.get_safe_globals() == [dict]
    assert weft.serialization.get_safe_globals() == []


@pytest.mark.parametrize("workers", [0, 2])
def test_a_pass_over_a_loader_is_an_iterator_that_knows_its_length(workers: int) -> None:
    from weft.utils.data.dataloader import DataLoader, _BaseDataLoaderIter, _MultiProcessingDataLoaderIter

    batches = iter(DataLoader(weft.arange(10), batch_size=4, num_workers=workers))
    assert isinstance(batches, _BaseDataLoaderIter) and len(batches) == 3
    assert isinstance(batches, _MultiProcessingDataLoaderIter) == (workers > 0)
    assert next(batches).tolist() == [0, 1, 2, 3]
    if workers:
        batches._shutdown_workers()
        assert list(batches) == []
    else:
        assert [b.tolist() for b in batches] == [[4, 5, 6, 7], [8, 9]]


def test_help_shows_the_parameters_of_what_users_call() -> None:
    for function, parameters in (
        (weft.Tensor.squeeze_, "self dim"), (weft.Tensor.transpose_, "self dim0 dim1"),
        (weft.Tensor.as_strided_, "self size stride storage_offset"), (nn.Parameter, "data requires_grad"),
        (weft.compile, "function backend disable fullgraph dynamic mode options split"),
        (weft.linalg.solve, "A B left"), (nn.functional.relu, "input inplace"),
        (weft.svd_lowrank, "A q niter M"), (weft.fft.fft, "input n dim norm"),
    ):
        assert list(inspect.signature(function).parameters)[: len(parameters.split())] == parameters.split()
