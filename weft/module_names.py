"""PyTorch's names of modules that third-party programs import before they do anything: each shows what weft has of it,
and nothing else. What computes nothing (a mark on a tensor, the switch of a device that is not there) says so here."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from enum import Enum
from typing import Any, NoReturn

from weft.ops.packet import aten
from weft.support import named_modules
from weft.support.errors import CaptureError, NoSuchDevice, Unsupported
from weft.support.named_modules import NamedModule
from weft.tensor.device import Device
from weft.tensor.modes import active_trace, modes
from weft.tensor.tensor import Tensor
from weft.types.dtype import DType

_HERE = "weft.module_names:"

# ---- marks for PyTorch's compiler
mark_dynamic = mark_static = maybe_mark_dynamic = mark_static_address = lambda t, *args, **kwargs: None


def graph_break(msg: str = "") -> None:
    """Where PyTorch would end a program: nothing, in Python. Raises CaptureError under weft.compile."""
    if modes.capture is not None:
        raise CaptureError("graph_break(): a compiled function is one program; compile it with split=True")


def is_compile_supported(device_type: str) -> bool:
    """Whether functions can be compiled for a device of this type."""
    return device_type == "cpu"


def wrap(fn_or_name: Any) -> Any:
    """A function that PyTorch's tracer of modules would not look into: given back as it is."""
    return fn_or_name


def is_fx_tracing() -> bool:
    """Whether PyTorch's tracer of modules is at work: never."""
    return False


class Proxy:
    """A value of PyTorch's tracer of modules: a type that programs name. weft makes none."""


class DispatchKey(Enum):
    """Layers of PyTorch's dispatcher: names that programs put together."""

    CPU = 0
    CUDA = 1
    Meta = 2
    XPU = 3
    MPS = 4
    Autograd = 5
    AutogradCPU = 6
    AutogradCUDA = 7
    AutocastCPU = 8
    AutocastCUDA = 9
    AutocastXPU = 10
    Functionalize = 11
    Python = 12
    CompositeImplicitAutograd = 13
    CompositeExplicitAutograd = 14


class DispatchKeySet(frozenset[DispatchKey]):
    """Layers of PyTorch's dispatcher: a set that can be put together, and means nothing to weft."""

    def __new__(cls, key: DispatchKey) -> DispatchKeySet:
        return super().__new__(cls, (key,))


class NeverRaised(Exception):
    """An error of PyTorch's compiler that a program waits for: weft has no occasion for it."""


TensorMeta = type(Tensor)


class GetItemWithIndices(contextlib.nullcontext[None]):
    """Within the block `x[i]` may be mapped over `i`: always so in weft."""


class Switches:
    """Switches of PyTorch's compiler: they can be set, and mean nothing to weft's."""

    @contextlib.contextmanager
    def patch(self, changes: Any = None, value: Any = None, /, **more: Any) -> Iterator[None]:
        """Set switches for a `with` block or a decorated function."""
        changes = changes if isinstance(changes, dict) else {} if changes is None else {changes: value}
        before = dict(vars(self))
        vars(self).update(changes, **more)
        try:
            yield
        finally:
            vars(self).clear()
            vars(self).update(before)


compiler_switches, inductor_switches = Switches(), Switches()


# ---- what the library's own files ask of PyTorch's bindings
def log_api_usage_once(name: str) -> None:
    """PyTorch's count of who calls what: weft counts nothing."""


def are_transforms_active() -> bool:
    """Whether a transform of weft.func is under way."""
    from weft.layers.transforms.level import top  # loaded when asked for

    return top() is not None


def get_accelerator() -> Device:
    """The device that computes: the CPU."""
    return Device("cpu")


def parse_to(*args: Any, **kwargs: Any) -> tuple[Device | None, Any, bool, Any]:
    """The device, dtype, non_blocking and memory format among the arguments of Module.to."""
    from weft.nn.modules.converting import wanted  # weft.nn is loaded when asked for

    dtype, device = wanted(args, dict(kwargs))
    return device, dtype, bool(kwargs.get("non_blocking")), kwargs.get("memory_format")


def get_tracing_state() -> Any:
    """The recorder of weft.jit.trace that is at work, or None."""
    return active_trace()


def is_contiguous_or_false(a: Tensor, memory_format: Any = None) -> bool:
    """Whether a tensor's elements lie side by side in their order."""
    return a.is_contiguous() if memory_format is None else a.is_contiguous(memory_format=memory_format)


def is_fake(x: Any) -> bool:
    """Whether a value is one of PyTorch's fake tensors: never; weft's tensors without values are on "meta"."""
    return False


def flatten_dense_tensors(tensors: Sequence[Tensor]) -> Tensor:
    """The elements of all of these, one after the other."""
    flat: Tensor = aten.cat([t.reshape(-1) for t in tensors]) if len(tensors) else aten.zeros((0,))
    return flat


def unflatten_dense_tensors(flat: Tensor, tensors: Sequence[Tensor]) -> tuple[Tensor, ...]:
    """Views of parts of `flat`, each of the shape of one of these."""
    parts = aten.split_with_sizes(flat, [t.numel() for t in tensors])
    return tuple(part.view(t.shape) for part, t in zip(parts, tensors, strict=True))


def element_size(dtype: DType) -> int:
    """The bytes of an element."""
    return dtype.itemsize


class FlopCounterMode:
    """PyTorch's counter of operations: a type that programs name. Raises Unsupported where it is made."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        raise Unsupported("FlopCounterMode: weft does not count operations; weft.explain shows what a program does")


class SobolEngine:
    """PyTorch's points of low discrepancy: a type that programs name. Raises Unsupported where it is made."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        raise Unsupported("SobolEngine: weft has no points of low discrepancy; scipy.stats.qmc.Sobol has")


class emit_nvtx:
    """PyTorch's marks for a profiler of GPUs: a type that programs name. Raises NoSuchDevice where it is made."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        raise NoSuchDevice("emit_nvtx: weft computes on the CPU only")


def show_config() -> str:
    """What weft computes with, in the words of PyTorch's build settings."""
    import numpy

    import weft.backends as backends
    from weft.version import __version__

    return (
        f"weft {__version__} built with:\n  - NumPy {numpy.__version__}\n"
        f"  - CPU capability usage: {backends.cpu.get_cpu_capability()}\n"
        "  - Build settings: USE_CUDA=OFF, USE_CUDNN=OFF, USE_MKL=OFF, USE_MKLDNN=OFF, USE_MPI=OFF, USE_NCCL=OFF, \n"
    )


def parallel_info() -> str:
    """How many threads compute."""
    from weft.layers.threads import get_num_threads

    return f"weft.get_num_threads() : {get_num_threads()}\n"


class SymbolicOpset(NamedModule):
    """weft.onnx.symbolic_opset11 and its kin: how weft writes each operator."""

    def lookup(self, name: str) -> Any:
        """How an operator of this name is written. Raises AttributeError."""
        from weft.onnx.pytorch_symbolics import rule_of  # onnx is loaded when asked for

        if not name.startswith("_"):
            with contextlib.suppress(Unsupported):
                return rule_of(name)
        raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")


# ---- devices that are not there: what weft.cuda answers, in their name
_ANSWERED = (
    "device_count", "empty_cache", "get_rng_state_all", "is_available", "is_bf16_supported", "is_initialized",
    "manual_seed", "manual_seed_all", "max_memory_allocated", "max_memory_reserved", "memory_allocated",
    "memory_reserved", "memory_stats", "reset_peak_memory_stats", "seed", "seed_all", "synchronize",
)
_REFUSED = (
    "Event", "Stream", "current_device", "current_stream", "get_device_capability", "get_device_name",
    "get_device_properties", "get_rng_state", "mem_get_info", "set_device", "set_rng_state", "set_stream",
)


class _DeviceModule(NamedModule):
    """weft.xpu and its kin."""

    def __init__(self, device: str, **more: str) -> None:
        names = {name: f"weft.cuda:{name}" for name in _ANSWERED} | {
            name: f"weft.cuda:{answer}" for name, answer in more.items()
        }
        doc = "What programs ask before they use such a device. There is none: questions are answered, uses refused."
        super().__init__(f"weft.{device}", doc, names=names)
        for name in _REFUSED:
            setattr(self, name, _refused(device, name))


def _refused(device: str, name: str) -> Callable[..., NoReturn]:
    def function(*args: Any, **kwargs: Any) -> NoReturn:
        raise NoSuchDevice(
            f"{device}.{name}: weft computes on the CPU only. Ask weft.{device}.is_available() first."
        )

    function.__name__ = function.__qualname__ = name
    return function


class CpuStream:
    """A stream of the CPU: work is done in the order in which it is asked for."""


_CPU: dict[str, Callable[..., Any]] = {
    "current_device": lambda: "cpu", "current_stream": lambda device=None: CpuStream(), "device_count": lambda: 1,
    "is_available": lambda: True, "is_initialized": lambda: True, "set_device": lambda device: None,
    "synchronize": lambda device=None: None,
}


# PyTorch's files of weft.distributions, by ours
_DISTRIBUTIONS = {
    "categoricals": "categorical multinomial one_hot_categorical", "gammas": (
        "beta chi2 dirichlet fishersnedecor gamma inverse_gamma"
    ),
    "counts": "bernoulli binomial geometric negative_binomial poisson", "intervals": (
        "continuous_bernoulli exponential generalized_pareto kumaraswamy pareto uniform weibull"
    ),
    "matrices": "lkj_cholesky wishart", "multivariate_normal": "lowrank_multivariate_normal",
    "normals": "half_normal log_normal logistic_normal normal",
    "real_line": "cauchy gumbel half_cauchy laplace studentT von_mises",
    "relaxed": "relaxed_bernoulli relaxed_categorical",
}


def _distributions() -> Iterator[NamedModule]:
    for file, names in _DISTRIBUTIONS.items():
        for name in names.split():
            where = f"weft.distributions.{file}"
            yield NamedModule(f"weft.distributions.{name}", f"PyTorch's name of a part of {where}.", [where])


def _of_the_compiler() -> Iterator[NamedModule]:
    compiled = {
        name: f"weft.compiler:{name}" for name in (
            "allow_in_graph", "assume_constant_result", "disable", "is_compiling", "is_dynamo_supported",
            "list_backends", "nested_compile_region", "reset", "set_stance",
        )
    }
    compiled |= {"OptimizedModule": "weft.compile.module:CompiledModule", "config": f"{_HERE}compiler_switches"} | {
        name: f"{_HERE}{name}" for name in (
            "graph_break", "mark_dynamic", "mark_static", "mark_static_address", "maybe_mark_dynamic",
        )
    }
    errors = {"Unsupported": "weft.support.errors:CaptureError", "TorchRuntimeError": "weft.support.errors:WeftError"}
    errors["TensorifyScalarRestartAnalysis"] = f"{_HERE}NeverRaised"
    marks = "PyTorch's compiler: its marks, as weft.compiler has them."
    yield NamedModule("weft._dynamo", marks, names=compiled)
    yield NamedModule("weft._dynamo.eval_frame", marks, names=compiled)
    yield NamedModule("weft._dynamo.external_utils", marks, names=compiled)
    yield NamedModule("weft._dynamo.utils", marks, names={"is_compile_supported": f"{_HERE}is_compile_supported"})
    yield NamedModule("weft._dynamo.exc", "Errors of compiled functions.", names=errors)
    yield NamedModule("weft._dynamo._trace_wrapped_higher_order_op", marks,
                      names={"TransformGetItemToIndex": f"{_HERE}GetItemWithIndices"})
    yield NamedModule("weft._inductor", "PyTorch's code generator: its switches, which mean nothing to weft.", names={
        "config": f"{_HERE}inductor_switches",
        "cudagraph_mark_step_begin": "weft.compiler:cudagraph_mark_step_begin",
    })


def _of_bindings() -> Iterator[NamedModule]:
    yield NamedModule("weft._C", "PyTorch's bindings: what programs ask of them, answered by weft.", names={
        "DisableTorchFunction": "weft.overrides:DisableWeftFunction",
        "DisableTorchFunctionSubclass": "weft.overrides:DisableWeftFunctionSubclass",
        "DispatchKey": f"{_HERE}DispatchKey", "DispatchKeySet": f"{_HERE}DispatchKeySet",
        "Generator": "weft.runtime.generator:Generator", "Graph": "weft.jit.torchscript.graph:Graph",
        "Value": "weft.jit.torchscript.graphs.nodes:Value", "Node": "weft.jit.torchscript.graphs.nodes:Node",
        "Size": "weft.tensor.size:Size", "device": "weft.tensor.device:Device", "dtype": "weft.types.dtype:DType",
        "_TensorMeta": f"{_HERE}TensorMeta",
        "_are_functorch_transforms_active": f"{_HERE}are_transforms_active",
        "_get_accelerator": f"{_HERE}get_accelerator", "_get_tracing_state": f"{_HERE}get_tracing_state",
        "_disabled_torch_function_impl": "weft.overrides:disabled_weft_function",
        "_is_tracing": "weft.jit.script.marks:is_tracing", "_log_api_usage_once": f"{_HERE}log_api_usage_once",
        "_set_grad_enabled": "weft.tensor.modes:set_grad_enabled",
    })
    yield NamedModule("weft._C._nn", "Arguments as Module.to takes them apart.", names={
        "_parse_to": f"{_HERE}parse_to",
    })
    yield NamedModule("weft._prims_common", "Questions about tensors.", names={
        "is_contiguous_or_false": f"{_HERE}is_contiguous_or_false",
    })


def _of_operators() -> Iterator[NamedModule]:
    scan = {"associative_scan": "weft.record.blocks.associative_scan:associative_scan"}
    yield NamedModule("weft._higher_order_ops", "Loops and branches.", names=scan)
    yield NamedModule("weft._higher_order_ops.associative_scan", "A loop.", names=scan)
    yield NamedModule("weft._subclasses", "PyTorch's fake tensors, which weft has not.")
    yield NamedModule("weft._subclasses.fake_tensor", "PyTorch's fake tensors, which weft has not.", names={
        "is_fake": f"{_HERE}is_fake",
    })
    yield NamedModule("weft.__config__", "What weft computes with.", names={
        "parallel_info": f"{_HERE}parallel_info", "show": f"{_HERE}show_config",
    })
    yield NamedModule("weft._custom_ops", "PyTorch's older name of weft.library.", names={
        "get_ctx": "weft.library:get_ctx", "custom_op": "weft.library:custom_op",
        "impl_abstract": "weft.library:register_fake",
    })


def _of_tools() -> Iterator[NamedModule]:
    yield NamedModule("weft.storage", "Storages.", names={"UntypedStorage": "weft.runtime.storage:UntypedStorage"})
    yield NamedModule("weft.autograd.profiler", "Names of blocks.", names={
        "EventList": "weft.profiler:EventList", "emit_nvtx": f"{_HERE}emit_nvtx",
        "record_function": "weft.profiler:record_function",
        "profile": "weft.profiler.autograd_profile:profile", "FunctionEvent": "weft.profiler:FunctionEvent",
        "kineto_available": "weft.profiler:kineto_available",
    })
    yield NamedModule("weft.utils.flop_counter", "PyTorch's counter of operations.", names={
        "FlopCounterMode": f"{_HERE}FlopCounterMode",
    })
    yield NamedModule("weft._tensor_str", "How tensors are printed.", names={
        "PRINT_OPTS": "weft.tensor.printing:options", "_tensor_str": "weft.tensor.printing:tensor_text",
        "set_printoptions": "weft.tensor.printing:set_printoptions",
    })
    yield NamedModule("weft._utils", "PyTorch's tools: lists of tensors as one.", names={
        "_flatten_dense_tensors": f"{_HERE}flatten_dense_tensors", "_element_size": f"{_HERE}element_size",
        "_unflatten_dense_tensors": f"{_HERE}unflatten_dense_tensors",
    })
    yield NamedModule("weft.utils.data._utils", "PyTorch's name of how batches are made.", names={
        "default_collate": "weft.utils.data:default_collate", "default_convert": "weft.utils.data:default_convert",
    })
    yield NamedModule("weft.utils.data._utils.collate", "PyTorch's name of collate.py.", ["weft.utils.data.collate"])
    yield NamedModule("weft.optim.adamw", "PyTorch's name of AdamW's file.", ["weft.optim.adam"])
    yield NamedModule("weft.jit.annotations", "Names of types in annotations.", ["weft.jit.script.annotations"])
    yield NamedModule("weft._jit_internal", "Marks of scripted functions.", names={
        name: f"weft.jit:{name}" for name in ("Final", "Future", "export", "ignore", "is_scripting", "unused")
    } | {"is_tracing": "weft.jit.script.marks:is_tracing"})
    yield NamedModule("weft.nn.common_types", "Types of sizes, for annotations.", names={
        f"_size_{kind}_t": "weft.type_names:_size" for kind in (
            "1", "2", "3", "4", "5", "6", "any", *(f"{n}_opt" for n in ("any", "2", "3")),
        )
    } | {f"_ratio_{kind}_t": "weft.type_names:_ratio" for kind in ("2", "3", "any")})


def _over_devices() -> Iterator[NamedModule]:
    types, where = "Tensors that lie over several devices: their types.", "weft.distributed.meshes:"
    mesh = {name: f"{where}{name}" for name in ("DeviceMesh", "init_device_mesh")}
    tensor = {name: f"{where}{name}" for name in (
        "DTensor", "DeviceMesh", "Partial", "Placement", "Replicate", "Shard", "distribute_module",
        "distribute_tensor", "init_device_mesh",
    )}
    yield NamedModule("weft.distributed.device_mesh", types, names=mesh)
    yield NamedModule("weft.distributed.tensor", types, names=tensor)
    yield NamedModule("weft.distributed._tensor", types, names=tensor)
    yield NamedModule("weft.distributed.fsdp", types, names={name: f"{where}{name}" for name in (
        "CPUOffload", "FullyShardedDataParallel", "MixedPrecision", "fully_shard",
    )})
    yield NamedModule("weft.quasirandom", "Points of low discrepancy.", names={"SobolEngine": f"{_HERE}SobolEngine"})


def _of_other_places() -> Iterator[NamedModule]:
    marks = "PyTorch's tracer of modules, which weft has not: its marks, and whether it is at work."
    yield NamedModule("weft.fx", marks, names={"wrap": f"{_HERE}wrap", "Proxy": f"{_HERE}Proxy"})
    yield NamedModule("weft.fx.proxy", marks, names={"Proxy": f"{_HERE}Proxy"})
    yield NamedModule("weft.fx._symbolic_trace", marks, names={
        "is_fx_tracing": f"{_HERE}is_fx_tracing", "wrap": f"{_HERE}wrap",
    })
    yield NamedModule("weft.cuda.amp", "Mixed precision on a GPU, which is not there.", ["weft.amp.cuda"])
    yield NamedModule("weft.cuda.amp.autocast_mode", "Idem.", ["weft.amp.cuda"])
    yield NamedModule("weft.cuda.amp.grad_scaler", "Idem.", ["weft.amp.cuda"])
    yield NamedModule("weft.cuda.random", "The generators of GPUs, which are not there.", ["weft.cuda"])
    yield NamedModule("weft.cuda.memory", "The memory of GPUs, which are not there.", ["weft.cuda"])
    yield NamedModule("weft.cpu.amp", "Mixed precision on the CPU.", ["weft.amp.cpu"])
    yield NamedModule("weft._tensor", "Tensor.", names={"Tensor": "weft.tensor.tensor:Tensor"})
    yield NamedModule("weft.utils._python_dispatch", "PyTorch's name of dispatch.py.", ["weft.utils.dispatch"])
    yield NamedModule("weft.onnx.symbolic_helper", "Marks of symbolic functions.", names={
        "parse_args": "weft.onnx.pytorch_symbolics:parse_args",
    })


def _modules() -> Iterator[NamedModule]:
    yield from _of_the_compiler()
    yield from _of_bindings()
    yield from _of_operators()
    yield from _of_tools()
    yield from _over_devices()
    yield from _of_other_places()
    for version in range(9, 21):
        yield SymbolicOpset(f"weft.onnx.symbolic_opset{version}", f"How weft writes operators for opset {version}.")
    yield from _distributions()
    yield _DeviceModule("mps", current_allocated_memory="memory_allocated", driver_allocated_memory="memory_allocated")
    yield _DeviceModule("xpu")
    yield _DeviceModule("mtia")
    cpu = NamedModule("weft.cpu", "The CPU, asked as other devices are.")
    vars(cpu).update(_CPU, Stream=CpuStream)
    yield cpu


def install() -> tuple[str, ...]:
    """Let `import` find them. The names that stand in weft itself."""
    modules = list(_modules())
    named_modules.install(modules)
    return tuple(m.__name__.partition(".")[2] for m in modules if m.__name__.count(".") == 1)
