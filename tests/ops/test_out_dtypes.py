"""Which dtypes `out=` takes: against PyTorch's answers (scripts/make_torch_out_dtypes.py), and for every entry that has
`out=`, in every mode, a result that is the cast one or a refusal before anything is written."""

from __future__ import annotations

import json
from functools import reduce
from pathlib import Path

import numpy as np
import pytest

import weft
from tests.ops.sampling import NoSample, cases, mine
from weft.ops.op import Op
from weft.support.errors import DTypeError
from weft.types import promotion
from weft.types.dtype import DType

STORED = json.loads((Path(__file__).parent / "data" / "torch_out_dtypes.json").read_text())
DTYPES = (weft.bool, weft.uint8, weft.int32, weft.int64, weft.float16, weft.float32, weft.float64, weft.complex64)
# matrix_power has one rule here; PyTorch's older nonzero takes one tensor though the sample asks for several.
OTHERWISE = {"linalg.matrix_power"}


def packet_of(name: str):
    try:
        return getattr(reduce(getattr, name.split("."), weft), "packet", None)
    except AttributeError:
        return None


@pytest.mark.parametrize("name", sorted(n for n in STORED if n not in OTHERWISE and packet_of(n) is not None))
def test_takes_what_pytorch_takes(name: str) -> None:
    kinds = {op.takes.dtype for op in packet_of(name).overloads if op.out}
    kinds = {"exact" if k == "computed" and STORED[name] == "exact" else k for k in kinds}
    assert STORED[name] in kinds or not kinds, (name, kinds)


def takes(op: Op, result: DType, out: DType) -> bool:
    kind = op.takes.dtype
    if kind == "castable":
        return promotion.can_cast(result, out)
    return kind == "any" or out is result or out in op.takes.also


def on_lazy(value):
    if isinstance(value, list):
        return [on_lazy(v) for v in value]
    return value.to("lazy") if isinstance(value, weft.Tensor) else value


def in_lazy(function, *args):
    """The function over tensors of device lazy, its result on the CPU."""
    return function(*map(on_lazy, args)).cpu()


WAYS = {"eager": lambda f, *args: f(*args), "compiled": lambda f, *args: weft.compile(f)(*args), "lazy": in_lazy}


def tensor_of(value):
    """A sample's arrays as tensors, those within its lists too."""
    if isinstance(value, np.ndarray):
        return weft.tensor(value.astype(np.float32) if value.dtype == np.float64 else value)
    return [tensor_of(v) for v in value] if isinstance(value, (tuple, list)) else value


def call_of(op: Op, rng: np.random.Generator):
    """A call of the public function with a sample, and its result. Skips where there is no sample with one result."""
    function = getattr(weft, op.base)
    try:
        samples = list(cases(op, rng))
    except NoSample:
        pytest.skip("no sample")
    for values in samples:
        args = {a.name: tensor_of(v) for a, v in zip(op.schema.arguments, values, strict=True)}
        keywords = {a.name: args.pop(a.name) for a in op.schema.arguments if a.keyword_only}

        def call(*operands, out=None, keywords=keywords):
            return function(*operands, **keywords, out=out)

        try:
            result = call(*args.values())
        except (RuntimeError, TypeError, IndexError):
            continue
        if isinstance(result, weft.Tensor) and result.numel() > 1:
            return call, tuple(args.values()), result
    return pytest.skip("no sample with one result")


@pytest.mark.parametrize("op", [op for op in mine() if op.out and "weft" in op.public], ids=lambda op: op.name)
def test_result_is_cast_or_refused(op: Op, rng: np.random.Generator) -> None:
    if op.effect == "random" or op.takes.dtype == "computed" or any(a.name == "dtype" for a in op.schema.arguments):
        pytest.skip("out= says more than where the result goes")
    call, operands, result = call_of(op, rng)
    dtype, way = DTYPES[rng.integers(len(DTYPES))], list(WAYS)[rng.integers(len(WAYS))]
    out = weft.full(tuple(result.shape), 3, dtype=dtype)

    def program(out, *operands):
        return call(*operands, out=out)

    if takes(op, result.dtype, dtype):
        written = WAYS[way](program, out, *operands)
        np.testing.assert_allclose(written.numpy(), result.to(dtype).numpy(), 1e-3, 1e-5, err_msg=f"{way} {dtype}")
    else:
        with pytest.raises(DTypeError):
            WAYS[way](program, out, *operands)
        assert (out == weft.full_like(out, 3)).all(), (way, dtype)
