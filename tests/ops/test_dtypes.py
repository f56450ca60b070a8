"""Result dtypes against PyTorch's, stored by scripts/make_torch_dtypes.py."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import weft
from weft.support.errors import WeftError
from weft.types import dtype as dt

STORED = json.loads((Path(__file__).parent / "data" / "torch_dtypes.json").read_text())
NUMBERS = {"true": True, "2": 2, "2.0": 2.0, "2j": 2j}
RENAMED = {"conj_physical": "conj"}
# What weft offers though PyTorch refuses it.
MORE = {"argmax bool", "argmin bool", "nansum complex64", "nansum complex128"}
# What weft has no dtype for.
NEAREST = {"complex32": "complex64"}


def ones(name: str) -> weft.Tensor:
    return weft.ones(2, dtype=dt.by_name(name))


def outcome(call) -> str:
    try:
        result = call()
    except WeftError:
        return "refused"
    result = result[0] if isinstance(result, tuple) else result
    return result.dtype.name


def unary(name: str, x: weft.Tensor):
    over_dim = name.endswith("0") and name != "log10"
    function = getattr(weft, RENAMED.get(name, name[:-1] if over_dim else name))
    return function(x, 0) if over_dim else function(x)


def names(table: str) -> list[str]:
    return sorted({key.split()[0] for key in STORED[table]})


def wrong(table: str, name: str, call) -> list[str]:
    """Lines that say what differs."""
    out = []
    for key, said in STORED[table].items():
        first, *operands = key.split()
        if first != name or key in MORE:
            continue
        got = outcome(lambda: call(*operands))  # noqa: B023  (called at once)
        if got != NEAREST.get(said, said):
            out.append(f"{key}: weft {got}, PyTorch {said}")
    return out


@pytest.mark.parametrize("name", names("unary"))
def test_of_one_tensor(name):
    assert not wrong("unary", name, lambda d: unary(name, ones(d)))


@pytest.mark.parametrize("name", names("binary"))
def test_of_two_tensors(name):
    assert not wrong("binary", name, lambda a, b: getattr(weft, name)(ones(a), ones(b)))


@pytest.mark.parametrize("name", names("zero_dim"))
def test_of_a_tensor_and_a_zero_dim_one(name):
    assert not wrong("zero_dim", name, lambda a, b: getattr(weft, name)(ones(a), ones(b)[0]))


@pytest.mark.parametrize("name", names("number"))
def test_of_a_tensor_and_a_number(name):
    assert not wrong("number", name, lambda a, text: getattr(weft, name)(ones(a), NUMBERS[text]))


def test_the_table_is_not_empty():
    assert sum(len(STORED[t]) for t in ("unary", "binary", "zero_dim", "number")) > 5000 and np.float32
