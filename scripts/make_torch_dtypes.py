"""Store PyTorch's result dtypes: python scripts/make_torch_dtypes.py > tests/ops/data/torch_dtypes.json (needs torch)

For each operator and operand dtypes, the result's dtype, or null where PyTorch refuses.
Refusals that only say that its CPU kernels lack
a dtype are left out: a library may offer more.
"""

from __future__ import annotations

import json
from functools import partial

import torch

DTYPES = (
    "bool", "uint8", "int8", "int16", "int32", "int64", "float16", "bfloat16", "float32", "float64", "complex64",
    "complex128",
)
UNARY = [
    "neg", "positive", "abs", "sign", "sgn", "square", "reciprocal", "exp", "exp2", "expm1", "log", "log2", "log10",
    "log1p", "sqrt", "rsqrt", "sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh", "asinh", "acosh",
    "atanh", "sigmoid", "erf", "erfc", "erfinv", "floor", "ceil", "trunc", "round", "frac", "deg2rad", "rad2deg",
    "isnan", "isinf", "isfinite", "isposinf", "isneginf", "isreal", "signbit", "logical_not", "bitwise_not", "sinc",
    "logit", "nan_to_num", "angle", "conj_physical", "sum", "mean", "prod", "amax", "amin", "max", "min", "argmax",
    "argmin", "any", "all", "var", "std", "logsumexp0", "cumsum0", "cumprod0", "zeros_like", "ones_like",
    "count_nonzero", "median", "msort", "nansum",
]
BINARY = [
    "add", "sub", "rsub", "mul", "div", "true_divide", "floor_divide", "remainder", "fmod", "pow", "maximum", "minimum",
    "fmax", "fmin", "atan2", "hypot", "copysign", "eq", "ne", "lt", "le", "gt", "ge", "logical_and", "logical_or",
    "logical_xor", "bitwise_and", "bitwise_or", "bitwise_xor", "bitwise_left_shift", "bitwise_right_shift", "xlogy",
    "logaddexp", "logaddexp2", "float_power",
]
NUMBERS = {"true": True, "2": 2, "2.0": 2.0, "2j": 2j}


def outcome(call) -> str | None:
    """The result's dtype by name, "refused", or None where nothing can be said."""
    try:
        result = call()
    except NotImplementedError:
        return None
    except (RuntimeError, TypeError) as error:
        return None if "not implemented for" in str(error) or "ZeroDivision" in str(error) else "refused"
    result = result[0] if isinstance(result, tuple) else result
    return str(result.dtype).removeprefix("torch.")


def unary(name: str, x: torch.Tensor) -> object:
    return getattr(torch, name[:-1])(x, 0) if name.endswith("0") and name not in ("log10",) else getattr(torch, name)(x)


def main() -> None:
    tensors = {d: torch.ones(2, dtype=getattr(torch, d)) for d in DTYPES}
    found: dict[str, dict[str, str]] = {"unary": {}, "binary": {}, "zero_dim": {}, "number": {}}

    def note(table: str, key: str, call) -> None:
        said = outcome(call)
        if said is not None:
            found[table][key] = said

    for name in UNARY:
        for d, x in tensors.items():
            note("unary", f"{name} {d}", partial(unary, name, x))
    for name in BINARY:
        for a, x in tensors.items():
            for b, y in tensors.items():
                note("binary", f"{name} {a} {b}", partial(getattr(torch, name), x, y))
    for name in ("add", "mul", "div", "pow", "eq", "maximum"):
        for a, x in tensors.items():
            for b, y in tensors.items():
                note("zero_dim", f"{name} {a} {b}", partial(getattr(torch, name), x, y[0]))
    for name in ("add", "sub", "mul", "div", "floor_divide", "remainder", "pow", "eq", "lt", "bitwise_and", "xlogy"):
        for a, x in tensors.items():
            for text, number in NUMBERS.items():
                note("number", f"{name} {a} {text}", partial(getattr(torch, name), x, number))
    print(json.dumps({"torch": torch.__version__.split("+")[0], **found}, separators=(",", ":")).replace("},", "},\n"))


main()
