"""weft: tensors with PyTorch's programming model, and a compiler that turns a whole training step into
one native program.

The public names are gathered here; operators are looked up in the catalogue when first asked for (`weft.matmul`,
`weft.zeros`, ...). Start reading at docs/tour.md, or at weft/layers/walk.py (how a line of Python behaves)
and weft/compile/driver.py (how it becomes a program).
"""

from __future__ import annotations

import math as _math
from typing import Any

import weft.catalogue  # noqa: F401  (defines every operator)
from weft import type_names as _type_names
from weft import types as _types
from weft.autograd import hooks as _hooks  # noqa: F401
from weft.autograd import views as _views  # noqa: F401
from weft.layers import abstract as _abstract  # noqa: F401
from weft.layers import dispatch as _dispatch  # noqa: F401
from weft.layers import fast as _fast
from weft.layers import fast_indexing as _fast_indexing
from weft.layers import freed as _freed  # noqa: F401
from weft.layers import inference as _inference  # noqa: F401
from weft.layers import inplace_views as _inplace_views
from weft.layers import methods as _methods
from weft.layers import variants as _variants
from weft.layers import walk as _walk  # noqa: F401
from weft.layers.factories import FACTORIES as _FACTORIES
from weft.module_names import install as _install_modules
from weft.ops import array as _array  # noqa: F401
from weft.ops.methods import install_methods as _install_methods
from weft.ops.op import PACKETS as _PACKETS
from weft.ops.packet import Packet as _Packet
from weft.ops.packet import aten as _aten
from weft.support.absent import refuse as _refuse
from weft.support.counters import counters
from weft.support.errors import WeftError
from weft.support.knobs import knobs
from weft.support.seams import captured_backward as _captured_backward
from weft.support.seams import cast_layer as _cast_layer
from weft.support.seams import checked_run as _checked_run
from weft.support.seams import compiled_graph as _compiled_graph
from weft.support.seams import exported_step as _exported_step
from weft.support.seams import native_product as _native_product
from weft.support.seams import open_function as _open_function
from weft.support.seams import sparse_method as _sparse_method
from weft.support.seams import sparse_rows as _sparse_rows
from weft.support.seams import split_function as _split_function
from weft.support.seams import standalone as _standalone
from weft.support.tracebacks import install as _install_tracebacks
from weft.tensor import generator_states as _generator_states  # noqa: F401
from weft.tensor import subclass as _subclass  # noqa: F401
from weft.tensor.creation import as_tensor, from_numpy, tensor
from weft.tensor.device import Device as device
from weft.tensor.device import providers as _providers
from weft.tensor.modes import (
    enable_grad,
    inference_mode,
    is_grad_enabled,
    is_inference_mode_enabled,
    no_grad,
    set_grad_enabled,
)
from weft.tensor.size import Size
from weft.tensor.tensor import Tensor
from weft.types.dtype import (
    DType as dtype,
)
from weft.types.dtype import (
    bfloat16,
    complex64,
    complex128,
    float16,
    float32,
    float64,
    int8,
    int16,
    int32,
    int64,
    uint8,
)
from weft.types.dtype import bool_ as bool
from weft.types.dtype import get_default as get_default_dtype
from weft.types.dtype import set_default as set_default_dtype
from weft.types.formats import (  # noqa: F401  (shown here)
    channels_last,
    contiguous_format,
    layout,
    memory_format,
    preserve_format,
    strided,
)
from weft.version import __version__  # noqa: F401

vars(_types).update(_type_names.NAMES)
_install_methods()
_variants.install_inplace()
_methods.install()
_inplace_views.install()
_fast.install()
_fast_indexing.install()
_native_product.install_from("weft.programs.eager.products", "multiply")
_standalone.install_from("weft.programs.eager.rules", "standalone")
_captured_backward.install_from("weft.compiled_autograd.api", "enable")
_open_function.install_from("weft.compile.open_function", "open_function")
_compiled_graph.install_from("weft.compiled_autograd.api", "compiled_graph")
_sparse_method.install_from("weft.sparse.methods", "call_method")
_sparse_rows.install_from("weft.sparse.embedding", "rows_of")
_split_function.install_from("weft.lazy.split.function", "SplitFunction")
_checked_run.install_from("weft.programs.nan_watch", "checked_run")
_exported_step.install_from("weft.export.write", "export_step")
_cast_layer.install_from("weft.layers.autocast", "CastLayer")
_install_tracebacks()

float = float32
double, half = float64, float16
int, long, short = int32, int64, int16
cfloat, cdouble = complex64, complex128
__array_api_version__ = "2024.12"
pi, e, inf, nan, newaxis = 3.141592653589793, 2.718281828459045, _math.inf, _math.nan, None

_any = any  # weft.any, once looked up, stands in this module's globals
_LAZY = {
    "nn": "weft.nn", "optim": "weft.optim", "func": "weft.func", "autograd": "weft.autograd", "linalg": "weft.linalg",
    "compiled_autograd": "weft.compiled_autograd", "special": "weft.special", "fft": "weft.fft", "utils": "weft.utils",
    "random": "weft.random", "cuda": "weft.cuda", "testing": "weft.testing", "backends": "weft.backends",
    "overrides": "weft.overrides", "version": "weft.version", "jit": "weft.jit", "library": "weft.library",
    "onnx": "weft.onnx",
    "memory": "weft.memory",
    "lazy": "weft.lazy",
    "torch": "weft.torch", "distributed": "weft.distributed",
    "ao": "weft.ao", "hub": "weft.hub", "profiler": "weft.profiler", "multiprocessing": "weft.multiprocessing",
    "distributions": "weft.distributions", "debug": "weft.debug",
    "amp": "weft.amp", "__future__": "weft.__future__", "compiler": "weft.compiler", "accelerator": "weft.accelerator",
    "serialization": "weft.serialization", "array_api": "weft.array_api",
    "errors": "weft.errors", "futures": "weft.futures", "sparse": "weft.sparse", "masked": "weft.masked",
    "signal": "weft.signal",
    **{name: f"weft.{name}" for name in _install_modules()},
}
_providers["lazy"] = "weft.lazy"
_LAZY_NAMES = {
    "vmap": ("weft.func.mapping", "vmap"), "compile": ("weft.compile.api", "compile"),
    "load_exported": ("weft.export.load", "load_exported"),
    "explain": ("weft.explanations.explain", "explain"), "cond": ("weft.record.blocks.control", "cond"),
    "while_loop": ("weft.record.blocks.control", "while_loop"), "scan": ("weft.record.blocks.scan", "scan"),
    "manual_seed": ("weft.random", "manual_seed"),
    "Generator": ("weft.runtime.generator", "Generator"), "default_generator": ("weft.random", "default_generator"),
    "set_num_threads": ("weft.runtime.pool", "set_num_threads"),
    "get_num_threads": ("weft.layers.threads", "get_num_threads"),
    "save": ("weft.interop.files", "save"), "load": ("weft.interop.files", "load"),
    "get_rng_state": ("weft.random", "get_rng_state"), "set_rng_state": ("weft.random", "set_rng_state"),
    "initial_seed": ("weft.random", "initial_seed"), "from_dlpack": ("weft.interop.dlpack", "from_dlpack"),
    "set_printoptions": ("weft.tensor.printing", "set_printoptions"),
    "is_tensor": ("weft.layers.predicates", "is_tensor"), "numel": ("weft.layers.predicates", "numel"),
    "is_floating_point": ("weft.layers.predicates", "is_floating_point"),
    "is_complex": ("weft.layers.predicates", "is_complex"),
    **{name: ("weft.layers.predicates", name) for name in (
        "_is_all_true", "_is_any_true", "result_type", "is_signed", "is_same_size", "is_conj", "is_neg",
        "resolve_conj", "resolve_neg", "unravel_index",
    )},
    **{name: ("weft.sparse.making", name) for name in (
        "sparse_bsc_tensor", "sparse_bsr_tensor", "sparse_compressed_tensor", "sparse_coo_tensor", "sparse_csc_tensor",
        "sparse_csr_tensor",
    )},
    "_convert_indices_from_coo_to_csr": ("weft.sparse.pattern", "starts_of_rows"),
    "_convert_indices_from_csr_to_coo": ("weft.sparse.pattern", "rows_and_columns"),
    "spmm": ("weft.sparse", "mm"), "dsmm": ("weft.sparse", "mm"),
    "smm": ("weft.sparse.methods", "smm"), "sspaddmm": ("weft.sparse.methods", "sspaddmm"),
    "asarray": ("weft.interop.buffers", "asarray"), "frombuffer": ("weft.interop.buffers", "frombuffer"),
    "promote_types": ("weft.types.promotion", "promote"),
    "can_cast": ("weft.types.promotion", "can_cast"),
    "broadcast_shapes": ("weft.layers.predicates", "broadcast_shapes"),
    **{name: ("weft.tensor.legacy", name) for name in (
        "BoolTensor", "ByteTensor", "CharTensor", "ShortTensor", "IntTensor", "LongTensor", "HalfTensor",
        "BFloat16Tensor", "FloatTensor", "DoubleTensor",
    )},
    **{name: ("weft.layers.settings", name) for name in (
        "typename", "clone", "detach", "get_default_device", "set_default_device", "set_default_tensor_type",
        "use_deterministic_algorithms", "are_deterministic_algorithms_enabled", "set_float32_matmul_precision",
        "get_float32_matmul_precision", "is_deterministic_algorithms_warn_only_enabled", "get_deterministic_debug_mode",
        "set_deterministic_debug_mode", "get_num_interop_threads", "set_num_interop_threads", "set_flush_denormal",
        "is_warn_always_enabled", "set_warn_always", "get_device", "get_device_module", "is_storage",
    )},
    **{name: ("weft.types.sym_functions", name) for name in (
        "sym_float", "sym_int", "sym_ite", "sym_max", "sym_min", "sym_not", "sym_sqrt", "sym_sum",
    )},
    **{name: ("weft.support.removed", name) for name in ("eig", "lstsq", "matrix_rank", "solve", "symeig")},
    **{name: ("weft.nn.functions.by_numbers", name) for name in (
        "adaptive_max_pool1d", "alpha_dropout", "alpha_dropout_", "binary_cross_entropy_with_logits", "convolution",
        "cosine_embedding_loss", "ctc_loss", "dropout_", "embedding_bag", "embedding_renorm_",
        "feature_alpha_dropout", "feature_alpha_dropout_", "feature_dropout", "feature_dropout_", "frobenius_norm",
        "hinge_embedding_loss", "kl_div", "margin_ranking_loss", "native_batch_norm", "native_dropout",
        "native_group_norm", "native_norm", "norm_except_dim", "nuclear_norm", "poisson_nll_loss", "rrelu", "rrelu_",
        "triplet_margin_loss",
    )},
    "range": ("weft.tensor.legacy", "range_with_end"), "to_dlpack": ("weft.utils.dlpack", "to_dlpack"),
    "fork": ("weft.jit", "fork"), "wait": ("weft.jit", "wait"),
    **{name: ("weft.nn.functional", name) for name in ("channel_shuffle", "conv_tbc", "native_channel_shuffle")},
    "set_anomaly_enabled": ("weft.autograd.anomaly", "set_anomaly_enabled"),
    "is_anomaly_enabled": ("weft.autograd.anomaly", "is_anomaly_enabled"),
    "is_anomaly_check_nan_enabled": ("weft.autograd.anomaly", "is_anomaly_check_nan_enabled"),
    "autocast": ("weft.amp.autocast_mode", "autocast"),
    **{name: ("weft.amp.settings", name) for name in (
        "is_autocast_enabled", "is_autocast_cpu_enabled", "get_autocast_dtype", "get_autocast_cpu_dtype",
        "get_autocast_gpu_dtype", "set_autocast_enabled", "set_autocast_cpu_enabled", "set_autocast_dtype",
        "set_autocast_cpu_dtype", "set_autocast_gpu_dtype", "is_autocast_cache_enabled", "set_autocast_cache_enabled",
        "clear_autocast_cache", "autocast_increment_nesting", "autocast_decrement_nesting",
    )},
    "UntypedStorage": ("weft.runtime.storage", "UntypedStorage"),
    "seed": ("weft.random", "seed"), "is_inference": ("weft.layers.inference", "is_inference"),
    "finfo": ("weft.types.limits", "finfo"), "iinfo": ("weft.types.limits", "iinfo"),
    **{name: ("weft.layers.array_api", name) for name in (
        "astype", "isdtype", "__array_namespace_info__", "permute_dims", "expand_dims", "matrix_transpose", "vecdot",
        "bitwise_invert", "cumulative_sum", "cumulative_prod", "unique_all", "unique_counts", "unique_inverse",
        "unique_values", "broadcast_arrays", "repeat", "unstack", "take_along_axis",
    )},
    **{name: ("weft.layers.checks", name) for name in (
        "_assert", "_assert_async", "_check", "_check_index", "_check_is_size", "_check_not_implemented",
        "_check_tensor_all", "_check_type", "_check_value", "_check_with",
    )},
    **{name: ("weft.jit", name) for name in ("CompilationUnit", "ScriptFunction", "ScriptModule")},
    "svd_lowrank": ("weft.layers.low_rank", "svd_lowrank"), "pca_lowrank": ("weft.layers.low_rank", "pca_lowrank"),
    **{name: ("weft.nn.functions.of_tensors", name) for name in ("batch_norm", "instance_norm")},
    **{name: ("weft.nn.functions.recurrence", name) for name in (
        "gru", "gru_cell", "lstm", "lstm_cell", "rnn_relu", "rnn_relu_cell", "rnn_tanh", "rnn_tanh_cell",
    )},
    **{name: ("weft.nn.functional", name) for name in (
        "adaptive_avg_pool1d", "bilinear", "pairwise_distance", "pdist",
    )},
    "PyTorchFileReader": ("weft.interop.torch_files", "PyTorchFileReader"),
    "PyTorchFileWriter": ("weft.interop.torch_files", "PyTorchFileWriter"),
    "Stream": ("weft.cuda", "Stream"), "Event": ("weft.cuda", "Event"),
    "SymInt": ("weft.types.sym", "SymInt"), "SymBool": ("weft.types.sym", "SymBool"),
    "SymFloat": ("weft.record.numbers.sym_float", "SymFloat"), "GradScaler": ("weft.amp", "GradScaler"),
    **{name: ("weft.types.unheld", name) for name in (
        "uint16", "uint32", "uint64", "float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz",
        "float8_e8m0fnu", "float4_e2m1fn_x2", "complex32", "chalf",
    )},
    **{name: ("weft.types.formats", name) for name in (
        "sparse_coo", "sparse_csr", "sparse_csc", "sparse_bsr", "sparse_bsc", "jagged", "_mkldnn", "channels_last_3d",
    )},
}
_FUNCTIONS: dict[str, Any] = {**_FACTORIES, "as_strided": _inplace_views.as_strided,
    "as_strided_scatter": _inplace_views.as_strided_scatter, "resize_as_": _inplace_views.resize_as_}


def __getattr__(name: str) -> Any:
    """Operators, and packages that are imported when first used. Threads that ask at once get the same."""
    import importlib

    if name in _LAZY:
        # (it is put here by its import, once it is whole: another thread would take what is half of it)
        return importlib.import_module(_LAZY[name])
    if name in _LAZY_NAMES:
        where, attribute = _LAZY_NAMES[name]
        return globals().setdefault(name, getattr(importlib.import_module(where), attribute))
    if name.startswith("_foreach_"):
        return getattr(importlib.import_module("weft.layers.foreach"), name)
    if name in _FUNCTIONS:
        return globals().setdefault(name, _FUNCTIONS[name])
    overloads = _PACKETS.get(f"aten::{name}")
    if overloads is not None and _any("weft" in op.public for op in overloads):
        value = _variants.with_out(getattr(_aten, name))
        value.__module__ = "weft"  # where pickle finds it again
        return globals().setdefault(name, value)
    if name.endswith("_") and hasattr(Tensor, name) and f"aten::{name[:-1]}" in _PACKETS:
        return globals().setdefault(name, _variants.inplace_function(name))
    _refuse("module 'weft'", name)


def __dir__() -> list[str]:
    operators = [
        key[6:] for key, ops in _PACKETS.items() if key.startswith("aten::") and _any("weft" in op.public for op in ops)
    ]
    named = {*globals(), *_LAZY, *_LAZY_NAMES, *_FUNCTIONS, *operators}
    # in-place functions are there once asked for; they are not listed
    return sorted(n for n in named if n.startswith("_") or not n.endswith("_"))


__all__ = [
    "DType", "Size", "Tensor", "WeftError", "as_tensor", "bfloat16", "bool", "complex64", "complex128", "counters",
    "device", "dtype", "enable_grad", "float16", "float32", "float64", "from_numpy", "get_default_dtype",
    "inference_mode", "int8", "int16", "int32", "int64", "is_grad_enabled", "is_inference_mode_enabled", "knobs",
    "no_grad", "set_default_dtype", "set_grad_enabled", "set_printoptions", "tensor", "uint8",
]
DType = dtype
assert _Packet is not None
