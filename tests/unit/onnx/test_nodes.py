"""ONNX's own tests of operators, a sample: each operator that weft has, at one case drawn by the run's seed.
`./dev onnx` runs all of them."""

from __future__ import annotations

import collections
import importlib.util
import sys
import types
import warnings
from pathlib import Path

import pytest

import weft
import weft.onnx
from weft.onnx.registry import IMPORTS

SPEC = importlib.util.spec_from_file_location("onnx_nodes", Path(__file__).parents[3] / "scripts" / "onnx_nodes.py")
assert SPEC is not None and SPEC.loader is not None
nodes = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(nodes)
# Texts of pictures, and forests: weft has neither.
WITHOUT = {"ImageDecoder", "TfIdfVectorizer", "TreeEnsemble"}


# ONNX computes what these cases expect for 8 seconds, and all others' for 3: `./dev onnx` runs them.
SLOW = {f"onnx.backend.test.case.node.{name}" for name in ("averagepool", "lppool", "maxpool")}


@pytest.fixture(scope="module")
def some_cases():
    with pytest.MonkeyPatch.context() as patch:
        for name in SLOW:
            patch.setitem(sys.modules, name, types.ModuleType(name))
        return nodes.cases()


@pytest.fixture(scope="module")
def by_operator(some_cases):
    sorted_cases = collections.defaultdict(list)
    for case in some_cases:
        if not nodes.beyond(case):
            sorted_cases[nodes.operator_of(case)].append(case)
    return sorted_cases


def test_each_operator_gives_the_values_of_a_case(by_operator, rng):
    assert len(by_operator) >= 180
    failed = []
    for name, cases in sorted(by_operator.items()):
        if name in WITHOUT:
            continue
        for _ in range(8 if name.startswith("(") else 1):
            case = cases[rng.integers(len(cases))]
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    nodes.check(case)
            except Exception as problem:
                failed.append(f"{case.name}: {type(problem).__name__}: {str(problem)[:200]}")
    assert not failed, "\n".join(failed)


def test_what_weft_cannot_express_is_named_before_anything_runs(by_operator):
    for name in WITHOUT:
        with pytest.raises(weft.WeftError, match=f"weft cannot express .*{name}"):
            weft.onnx.load(by_operator[name][0].model)


def test_the_table_has_the_operators_that_are_promised():
    assert len(IMPORTS) >= 140


@pytest.mark.parametrize("name", [
    "test_softmax_axis_0", "test_layer_normalization_2d_axis1", "test_lstm_defaults", "test_gather_1",
    "test_elu_example_expanded_ver18",
])
def test_a_model_compiles_as_other_programs_do(some_cases, name):
    case = next(c for c in some_cases if c.name == name)
    nodes.check(case, compiled=False)  # (protobuf's classes get some of their attributes when these are first read)
    weft.counters.reset()
    nodes.check(case, compiled=True)
    assert weft.counters.captures == 1 and weft.counters.native_calls == 1
