"""Run onnx's backend node tests through weft.onnx.load, and print a table of figures by operator.

    ./dev onnx [--operator NAME] [--failures] [--compiled]

A case counts as beyond weft where its model or its data has element types that weft has no dtype of (texts, uint16,
uint32, uint64, floats of 8 bits and less, integers of 4 and less); every other case must give ONNX's values.
"""

from __future__ import annotations

import argparse
import collections
import sys
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
from onnx import numpy_helper
from onnx.backend.test.loader import load_model_tests

import weft
import weft.onnx
from weft.onnx.dtypes import dtype_of
from weft.support.errors import Unsupported, WeftError

DRAWN = ("bernoulli", "training_dropout")  # by another stream of random numbers: only types and sizes are compared


def cases() -> list[Any]:
    """Every node test of the installed onnx."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return [case for case in load_model_tests(kind="node") if case.model is not None]


def operator_of(case: Any) -> str:
    """The operator that a case is about: its only node's, or the name for those that ONNX has expanded."""
    kinds = {node.op_type for node in case.model.graph.node}
    if "_expanded" in case.name:
        return "(functions, expanded)"
    return "+".join(sorted(kinds))


def beyond(case: Any) -> str:
    """Why weft has no values for a case; empty where it has."""
    try:
        for element in sorted(set(_elements(case.model.graph))):
            dtype_of(element)
    except Unsupported as problem:
        return str(problem)
    return ""


def _elements(graph: Any) -> Iterator[int]:
    for info in (*graph.input, *graph.output, *graph.value_info):
        yield from _in_type(info.type)
    yield from (t.data_type for t in graph.initializer)
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.name in ("to", "output_dtype") and attribute.i:
                yield attribute.i
            if attribute.HasField("t"):
                yield attribute.t.data_type
            if attribute.HasField("g"):
                yield from _elements(attribute.g)
            if attribute.strings and attribute.name.endswith("s_strings"):
                yield 8


def _in_type(kind: Any) -> Iterator[int]:
    name = kind.WhichOneof("value")
    if name == "tensor_type":
        yield kind.tensor_type.elem_type
    elif name in ("sequence_type", "optional_type"):
        yield from _in_type(getattr(kind, name).elem_type)


def tensors(value: Any) -> Any:
    """Test data as what a model takes."""
    if isinstance(value, list):
        return [tensors(v) for v in value]
    if hasattr(value, "dims") and hasattr(value, "data_type"):
        value = numpy_helper.to_array(value)
    return None if value is None else weft.from_numpy(np.array(value))


def check(case: Any, compiled: bool = False) -> None:
    """Run one case. Raises AssertionError where a value differs."""
    model = weft.onnx.load(case.model)
    call = weft.compile(model) if compiled else model
    for inputs, expected in case.data_sets:
        given = [tensors(v) for v in inputs]
        found = call(*given)
        found = found if isinstance(found, tuple) else (found,)
        assert len(found) == len(expected), (len(found), len(expected))
        for mine, theirs in zip(found, expected, strict=True):
            same(mine, theirs, case.rtol, case.atol, any(name in case.name for name in DRAWN))


def same(mine: Any, theirs: Any, rtol: float, atol: float, drawn: bool = False) -> None:
    """Dtype, sizes and values. Raises AssertionError."""
    if isinstance(theirs, list):
        assert len(mine) == len(theirs)
        for a, b in zip(mine, theirs, strict=True):
            same(a, b, rtol, atol)
        return
    if theirs is None or mine is None:
        assert mine is None and theirs is None, (mine, theirs)
        return
    if hasattr(theirs, "data_type"):
        theirs = numpy_helper.to_array(theirs)
    theirs, mine = np.asarray(theirs), mine.detach().numpy()
    assert mine.dtype == theirs.dtype, f"dtype {mine.dtype}, expected {theirs.dtype}"
    assert mine.shape == theirs.shape, f"sizes {mine.shape}, expected {theirs.shape}"
    if drawn:
        return
    rtol = max(rtol, {"bfloat16": 2**-6, "float16": 2**-9}.get(theirs.dtype.name, 0))  # two units in the last place
    wide = np.float64 if theirs.dtype.itemsize < 4 and theirs.dtype.kind not in "biu" else theirs.dtype
    np.testing.assert_allclose(mine.astype(wide), theirs.astype(wide), rtol=rtol, atol=atol, equal_nan=True)


def main() -> int:
    parser = argparse.ArgumentParser(prog="./dev onnx", description=__doc__.splitlines()[0])
    parser.add_argument("--operator", help="only the cases of this operator")
    parser.add_argument("--failures", action="store_true", help="print what went wrong")
    parser.add_argument("--compiled", action="store_true", help="through weft.compile")
    options = parser.parse_args()
    table: dict[str, collections.Counter[str]] = collections.defaultdict(collections.Counter)
    problems = []
    for case in cases():
        name = operator_of(case)
        if options.operator and name != options.operator:
            continue
        if beyond(case):
            table[name]["beyond"] += 1
            continue
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                check(case, options.compiled)
            table[name]["passed"] += 1
        except Unsupported as problem:
            table[name]["refused"] += 1
            problems.append((case.name, problem))
        except (AssertionError, WeftError, Exception) as problem:
            table[name]["failed"] += 1
            problems.append((case.name, problem))
    columns = ("passed", "failed", "refused", "beyond")
    print(f"{'operator':32}" + "".join(f"{c:>9}" for c in columns))
    for name in sorted(table):
        print(f"{name:32}" + "".join(f"{table[name][c] or '':>9}" for c in columns))
    total: collections.Counter[str] = collections.Counter()
    for counted in table.values():
        total.update(counted)
    table.pop("(functions, expanded)", None)
    whole = sum(1 for c in table.values() if c["passed"] and not c["failed"] and not c["refused"])
    print(f"{'all':32}" + "".join(f"{total[c]:>9}" for c in columns))
    print(f"{whole} operators whole, of {len(table)}")
    if options.failures:
        for name, problem in problems:
            print(f"{name}: {type(problem).__name__}: {' '.join(str(problem).split())[:300]}")
    return 1 if total["failed"] else 0


if __name__ == "__main__":
    sys.exit(main())
