"""PyTorch's names that weft does not have: whoever asks for one is told so, and what to do instead.
The page docs/differences.md says more."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, NoReturn

# Names as patterns; the first that fits gives the reason.
_REASONS: tuple[tuple[str, str], ...] = (
    (r"_C", "there are no bindings of PyTorch's own; weft.compile and weft.jit are weft's compilers"),
    (
        r"trace_module|optimized_execution|"
        r"last_executed_plan|batch|BatchTensor",
        "weft.jit compiles functions, Modules and texts so far; docs/jit.md says what it has",
    ),
    (
        r"_dynamo|_inductor|compiler|export|fx|package|library|ops|symbolic_trace|GraphModule|Tracer|Interpreter",
        "there is no such compiler interface; weft.compile and weft.explain are weft's",
    ),
    (r"is_distributed|rpc", "weft.distributed has collectives and messages; there are no remote calls"),
    (r"lazy", "operators are not put off; weft.compile captures whole functions"),
    (
        r"autograd_profiler|profile|record_function",
        "weft.profiler has it, under PyTorch's names",
    ),
    (r"mps|xpu|mtia|ipu|maia|accelerator|is_vulkan\w*|vulkan|Stream|Event"
     r"|cudnn_\w+|miopen_\w+|mkldnn_\w+|to_mkldnn|is_mtia|is_xla|is_ipu|is_maia",
     "weft computes on the CPU only"),
    (r"(to_)?sparse_bs[rc]\w*|sparse_semi\w*|\w*spsolve|hsp?mm|saddmm", "there are no sparse layouts of blocks"),
    (r"quantiz\w*|dequantize|q_\w+|int_repr|qu?int\d\w*|qscheme|fake_quantize\w*"
     r"|fbgemm\w*|per_(tensor|channel)_\w+|qat|quantizable|intrinsic|QInt\w*|QUInt\w*",
     "there are no quantized tensors"),
    (
        r"nested|jagged|to_padded_tensor|masked",
        "there are no nested or masked tensors; weft.nn.utils.rnn pads and packs",
    ),
    (
        r"bits\w+|u?int[1-7]",
        "weft has twelve dtypes: bool, uint8, int8 to int64, float16, bfloat16, float32, float64, complex64, complex128"
    ),
    (r"sym_\w+", "sizes are symbols only within weft.compile, where they pass for ints"),
    (r"TypedStorage|\w+Storage", "storages are untyped: tensor.untyped_storage()"),
    (r"lobpcg", "weft.linalg.eigh computes all eigenvalues; scipy.sparse.linalg.lobpcg some of them"),
)


def is_absent(name: str) -> str | None:
    """Why weft lacks a name of PyTorch's, or None for a name that is not known to be one."""
    return next((reason for pattern, reason in _REASONS if re.fullmatch(pattern, name)), None)


def refuse(owner: str, name: str) -> NoReturn:
    """Raises the AttributeError of a module that lacks a name."""
    reason = is_absent(name)
    more = "" if reason is None else f": {reason} (see 'What is not there' in docs/differences.md)"
    raise AttributeError(f"{owner} has no attribute {name!r}{more}")


def refused(name: str, module: str, reason: str, doc: str, kind: type[Exception]) -> Callable[..., NoReturn]:
    """A function of a module that programs name, and that is refused where it is called."""

    def function(*args: Any, **kwargs: Any) -> NoReturn:
        raise kind(reason)

    function.__name__ = function.__qualname__ = name
    function.__doc__, function.__module__ = doc, module
    return function


class Absent:
    """A method of PyTorch's tensors that weft's lack: asking for it is an AttributeError that says why."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name

    def __get__(self, instance: object, owner: type) -> NoReturn:
        refuse(f"{owner.__name__!r} object", self.name)


ABSENT_METHODS = (
    "dequantize", "int_repr", "q_per_channel_axis", "q_per_channel_scales", "q_per_channel_zero_points", "q_scale",
    "q_zero_point", "qscheme", "to_mkldnn", "to_padded_tensor", "chalf",
)
