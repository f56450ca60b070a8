"""Inputs for the generated operator tests: for any entry, cases made from its schema, by its own `samples`,
or from tests.ops.oracles/."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from tests.ops.oracles import ORACLES, SAMPLES
from weft.ops import bind as binding
from weft.ops.array import unwrap, wrap
from weft.ops.op import OPS, Op
from weft.ops.schema import Argument
from weft.tensor.tensor import Tensor
from weft.types import dtype as dt

Case = tuple[Any, ...]  # arguments in schema order, ndarrays for tensors

# Where a function is defined and smooth, if not on [-2.5, 2.5].
DOMAINS: dict[str, tuple[float, float]] = {
    "log": (0.2, 3), "log2": (0.2, 3), "log10": (0.2, 3), "log1p": (-0.7, 3), "sqrt": (0.2, 3), "rsqrt": (0.2, 3),
    "reciprocal": (0.4, 3), "asin": (-0.9, 0.9), "acos": (-0.9, 0.9), "atanh": (-0.9, 0.9), "acosh": (1.2, 3),
    "arcsin": (-0.9, 0.9), "arccos": (-0.9, 0.9), "arctanh": (-0.9, 0.9), "arccosh": (1.2, 3), "tan": (-1.2, 1.2),
    "erfinv": (-0.9, 0.9), "logit": (0.15, 0.85), "pow": (0.3, 2.5), "float_power": (0.3, 2.5), "xlogy": (0.3, 3),
    "special_xlog1py": (0.3, 3), "div": (0.4, 2.5), "divide": (0.4, 2.5), "true_divide": (0.4, 2.5),
    "addcdiv": (0.4, 2.5), "fmod": (0.7, 2.9), "remainder": (0.7, 2.9), "floor_divide": (0.7, 2.9),
    "linalg_vector_norm": (0.3, 2.5), "_exclusive_cumprod": (0.3, 1.5), "cumprod": (-1.5, 1.5), "logcumsumexp": (-2, 2),
}
SHAPES: dict[int, list[tuple[tuple[int, ...], ...]]] = {
    0: [()],
    1: [((3, 4),), ((2, 3, 4),), ((5,),), ((),), ((0, 3),)],
    2: [((3, 4), (3, 4)), ((3, 4), (4,)), ((3, 1), (1, 4)), ((), (3,)), ((), ()), ((0, 3), (1, 3))],
    3: [((3, 4), (3, 4), (3, 4)), ((3, 4), (4,), ()), ((3, 1), (1, 4), (1,)), ((), (), ()), ((0, 3), (3,), (1, 3))],
}
SAME_SHAPE = {"_linear_scan"}  # entries with several tensors that do not broadcast
SELF_SHAPE = {"copy", "fill"}  # the others must fit into the first


class NoSample(Exception):
    """The schema has an argument that this module cannot make up."""


def cases(op: Op, rng: np.random.Generator) -> Iterator[Case]:
    """Argument tuples of float64 tensors, one for each set of shapes."""
    samples = written_samples(op)
    if samples is not None:
        for args, kwargs in samples(rng):
            yield unwrap(binding.bind(op, wrap(args), wrap_values(kwargs)))
        return
    tensors = [a for a in op.schema.arguments if a.kind == "Tensor"]
    if any(a.is_list for a in tensors) or len(tensors) not in SHAPES:
        raise NoSample(op.name)
    for shapes in SHAPES[len(tensors)]:
        if op.base in SAME_SHAPE:
            shapes = (shapes[0],) * len(shapes)
        if (
            op.base in SELF_SHAPE
            and (any(len(s) > len(shapes[0]) for s in shapes) or np.broadcast_shapes(*shapes) != shapes[0])
        ):
            continue
        yield _case(op, shapes, rng)


def written_samples(op: Op) -> Any:
    """The inputs that someone wrote for the entry: they mean something, so that no test may find them refused."""
    return SAMPLES.get(op.name, op.samples)


def oracle_of(op: Op) -> Any:
    """The function of NumPy arrays that an entry is held against: the entry's own, or that of oracles/."""
    return op.reference if op.reference is not None else ORACLES.get(op.name)


def wrap_values(named: dict[str, Any]) -> dict[str, Any]:
    return {k: wrap(v) for k, v in named.items()}


def _case(op: Op, shapes: tuple[tuple[int, ...], ...], rng: np.random.Generator) -> Case:
    low, high = DOMAINS.get(op.base, (-2.5, 2.5))
    left = list(shapes)
    first = shapes[0] if shapes else ()
    out: list[Any] = []
    for a in op.schema.arguments:
        if a.kind == "Tensor":
            shape = left.pop(0)
            if op.base in ("fill", "masked_fill") and a.name == "value":
                shape = ()
            out.append(rng.uniform(low, high, shape) if a.name != "condition" else rng.uniform(-1, 1, shape) > 0)
        else:
            out.append(_other(op, a, first, rng))
    return tuple(out)


def _other(op: Op, a: Argument, shape: tuple[int, ...], rng: np.random.Generator) -> Any:
    ndim = len(shape)
    if a.name == "dim" and a.kind == "int":
        return _dims(a, ndim, rng)
    if a.kind == "bool" and a.name == "inplace":
        return False
    if a.kind == "bool":
        return bool(rng.integers(2))
    if a.name == "k":
        return int(rng.integers(1, max(shape[-1] if shape else 1, 1) + 1)) if not shape or shape[-1] else 0
    if a.name == "ord":
        return [2, 1, 3, 0.5, float("inf"), -float("inf"), 0, 2.5][rng.integers(8)]
    if a.name == "p" and a.kind == "Scalar":
        return [2, 1, 3][rng.integers(3)]
    if a.name == "rounding_mode":
        return [None, "floor", "trunc"][rng.integers(3)]
    if a.name == "eps":
        return [None, 0.1][rng.integers(2)]
    if a.kind == "Scalar":
        return _number(a, rng)
    if a.kind == "int" and a.is_list and a.name == "size":
        return (2, 3)
    if a.kind == "int" and a.name in ("n", "m", "steps", "size", "end", "high"):
        return int(rng.integers(1, 6))
    if a.kind == "int" and a.name in ("decimals", "by"):
        return int(rng.integers(-2, 3))
    if a.has_default:
        return a.default
    if a.is_optional:
        return None
    raise NoSample(f"{op.name}: {a}")


def _number(a: Argument, rng: np.random.Generator) -> Any:
    if a.name == "start":
        return int(rng.integers(-3, 1))
    if a.name == "end":
        return int(rng.integers(4, 9))
    if a.name == "step":
        return int(rng.integers(1, 3))
    if a.name == "correction":
        return [None, 0, 1, 0.5][rng.integers(4)]
    if a.name in ("min", "max") and a.is_optional:
        return float(rng.uniform(-1, 0)) if a.name == "min" else float(rng.uniform(0.1, 1))
    if a.has_default and rng.integers(2):
        return a.default
    return float(np.round(rng.uniform(0.4, 2.0), 2))


def _dims(a: Argument, ndim: int, rng: np.random.Generator) -> Any:
    one = int(rng.integers(-max(ndim, 1), max(ndim, 1)))
    if not a.is_list:
        return None if a.is_optional and rng.integers(2) else one
    choices: list[Any] = [(one,)]
    if a.is_optional:
        choices.append(None)
    if ndim >= 2:
        choices.append((0, -1))
    return choices[rng.integers(len(choices))]


def cast(value: Any, dtype: dt.DType, rng: np.random.Generator) -> Any:
    """A float64 sample as another dtype; integers and bool get values of their own."""
    if isinstance(value, tuple):
        return tuple(cast(v, dtype, rng) for v in value)
    if not isinstance(value, np.ndarray) or value.dtype != np.float64:
        return value
    if dtype is dt.bool_:
        return np.asarray(rng.integers(0, 2, value.shape), bool)
    if dtype.category == dt.INT:
        return np.asarray(rng.integers(1 if value.size and value.min() > 0 else -5, 6, value.shape) if dtype.is_signed
                          else rng.integers(1, 6, value.shape), dtype.numpy)
    if dtype.is_complex:
        return np.asarray(value + 1j * rng.uniform(-1, 1, value.shape), dtype.numpy)
    return np.asarray(value, dtype.numpy)


def relaid(x: Any, rng: np.random.Generator) -> Any:
    """The same values (or, for one layout, its first row repeated) in another memory layout."""
    if isinstance(x, tuple):
        return tuple(relaid(v, rng) for v in x)
    if not isinstance(x, np.ndarray) or x.ndim == 0:
        return x
    layout = rng.integers(4)
    if layout == 1:
        return np.ascontiguousarray(x.T).T
    if layout == 2:
        wide = np.zeros((*x.shape[:-1], 2 * x.shape[-1] + 1), x.dtype)
        wide[..., 1::2] = x
        return wide[..., 1::2]
    if layout == 3 and x.shape[0] > 1:
        return np.broadcast_to(x[:1], x.shape)
    return x


REFUSED = ("aten::_pin_memory",)  # whatever the arguments are


def mine() -> list[Op]:
    """Every entry of the operator namespaces that works on tensors, by name; not the in-place forms that scripted
    programs have derived of them by now."""
    return sorted(
        (
            op for op in OPS.values() if op.schema.namespace in ("aten", "nn") and not op.host and op.writes is None
            and op.name not in REFUSED
        ), key=lambda op: op.name,
    )


def tensors(value: Any) -> Iterator[Tensor]:
    """The tensors in a value, in order."""
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, (tuple, list)):
        for v in value:
            yield from tensors(v)
