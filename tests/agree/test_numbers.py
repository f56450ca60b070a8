"""Numbers made of sizes give in every mode what Python gives, over several calls with other sizes and other masks; or
the function is refused by an error of weft's."""

from __future__ import annotations

import math
import warnings
from collections import Counter
from typing import Any

import numpy as np
import pytest

import weft
from tests.agree.number_programs import Program, draw, draw_calls
from tests.agree.width import times
from tests.deferred import deferred
from weft.jit.tracing.values import TracerWarning
from weft.support.errors import WeftError

IN_A_TEST = 4
MODES = ("compile", "interpret", "split", "lazy", "trace", "deferred")


class Refused(Exception):
    """weft says that it cannot do this."""


def _plain(value: Any) -> Any:
    """A result as NumPy and Python have it."""
    if isinstance(value, (tuple, list)):
        return type(value)(map(_plain, value))
    return np.array(value.detach().cpu().numpy()) if isinstance(value, weft.Tensor) else value


def _outcome(function: Any, arguments: Any) -> Any:
    """What a call gives, or the error that it raises."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return _plain(function(*arguments))
    except Exception as error:
        return error


def in_mode(program: Program, mode: str, example: Any) -> Any:
    """The program's function in a mode. Raises Refused."""
    function = program.function()
    if mode == "eager":
        return function
    if mode == "trace":
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            try:
                traced = weft.jit.trace(function, _tensors(example, "cpu"), check_trace=False)
            except Exception as error:
                expected = _outcome(function, _tensors(example, "cpu"))
                if isinstance(error, WeftError) or type(error) is type(expected):
                    raise Refused(str(error)) from error
                raise
        if any(issubclass(w.category, TracerWarning) for w in seen):
            raise Refused(str(seen[-1].message))
        return traced
    if mode == "lazy":
        return function
    if mode == "deferred":
        return deferred(function)
    return weft.compile(function, split=mode == "split", backend="interpret" if mode == "interpret" else "llvm")


def in_onnx(program: Program, example: Any, path: Any) -> Any:
    """The program as a model whose axes are dynamic: a function of tensors. Raises Refused."""
    from onnx.reference import ReferenceEvaluator
    from onnx.reference.op_run import OpRun

    axes, function = {"x": {0: "n", 1: "k"}, "m": {0: "n"}, "i": {0: "n"}}, program.function()
    arguments = _tensors(example, "cpu")
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        try:
            weft.onnx.export(function, arguments, str(path), input_names=list(axes), dynamic_axes=axes)
        except Exception as error:
            if isinstance(error, WeftError) or type(error) is type(_outcome(function, arguments)):
                raise Refused(str(error)) from error
            raise
    if any(issubclass(w.category, TracerWarning) for w in seen):
        raise Refused(str(seen[-1].message))
    class Erf(OpRun):
        """In the precision of its operand: the evaluator's own rounds to single precision."""

        op_domain = ""

        def _run(self, x: Any) -> tuple[Any]:
            return (np.vectorize(math.erf, otypes=[x.dtype])(x),)

    model = ReferenceEvaluator(str(path), new_ops=[Erf])
    names = model.input_names
    return lambda *tensors: model.run(None, {n: t.numpy() for n, t in zip(axes, tensors, strict=True) if n in names})


def _flat(value: Any) -> list[Any]:
    """Results as a model has them."""
    if isinstance(value, (tuple, list)):
        return [part for each in value for part in _flat(each)]
    return [np.asarray(value)]


def model_difference(program: Program, path: Any) -> str | None:
    """What an exported model gives otherwise than eager mode, or None. Raises Refused."""
    calls, eager = draw_calls(program), program.function()
    run = in_onnx(program, calls[0], path)
    for n, arrays in enumerate(calls):
        tensors = _tensors(arrays, "cpu")
        expected = _outcome(eager, tensors)
        if isinstance(expected, Exception):
            continue  # (ONNX has no errors)
        found = _outcome(run, tensors)
        if isinstance(found, Exception) and "reshape" in str(found):
            continue  # a number of parts that the example does not have
        if isinstance(found, Exception):
            return f"call {n}, x{list(arrays[0].shape)}: {found!r} instead of {expected!r}\n{program.source()}"
        for a, b in zip(_flat(found), _flat(expected), strict=True):
            if a.shape != b.shape or not np.allclose(a, b, 1e-4, 1e-5, equal_nan=True):
                return f"call {n}, x{list(arrays[0].shape)}: {a} instead of {b}\n{program.source()}"
    return None


def _tensors(arrays: Any, device: str) -> tuple[Any, ...]:
    return tuple(weft.tensor(a).to(device) for a in arrays)


def difference(program: Program, mode: str, seen: Counter[str]) -> str | None:
    """What a mode gives otherwise than eager mode, or None."""
    calls = draw_calls(program)
    try:
        function = in_mode(program, mode, calls[0])
    except Refused:
        seen[f"{mode} refused"] += 1
        return None
    eager = program.function()
    for n, arrays in enumerate(calls):
        expected = _outcome(eager, _tensors(arrays, "cpu"))
        found = _outcome(function, _tensors(arrays, "lazy" if mode == "lazy" else "cpu"))
        both = isinstance(found, Exception) and isinstance(expected, Exception)
        text = None if both and mode == "lazy" else _unlike(found, expected)  # (Python's own comes first)
        if isinstance(found, WeftError) and not isinstance(expected, Exception):
            seen[f"{mode} refused"] += 1
            seen[f"{mode}: {str(found).partition(': ')[2][:90]}"] += 1
            return None
        if text is not None:
            return f"{mode}, call {n}, x{list(arrays[0].shape)}: {text}"
    seen[f"{mode} agrees"] += 1
    return None


def _unlike(found: Any, expected: Any) -> str | None:
    if isinstance(expected, Exception) or isinstance(found, Exception):
        if not isinstance(found, Exception) or not isinstance(expected, Exception):
            is_refusal = isinstance(found, WeftError)
            return None if is_refusal else f"{found!r} instead of {expected!r}"
        is_error = isinstance(found, WeftError) or type(found) is type(expected)
        return None if is_error else f"{found!r} instead of {expected!r}"
    if isinstance(expected, (tuple, list)):
        texts = [_unlike(a, b) for a, b in zip(found, expected, strict=True)]
        return next((f"result {n}: {t}" for n, t in enumerate(texts) if t is not None), None)
    if isinstance(expected, np.ndarray):
        if found.shape != expected.shape or found.dtype != expected.dtype:
            return f"{found.dtype}{found.shape} instead of {expected.dtype}{expected.shape}"
        return None if np.allclose(found, expected, 1e-5, 1e-6, equal_nan=True) else f"{found} instead of {expected}"
    is_equal = found.__class__ is expected.__class__ and (
        found == expected or bool(np.isclose(found, expected, 1e-12, 0, True))
    )
    return None if is_equal else f"{found!r} instead of {expected!r}"


def check(program: Program, modes: Any = MODES, seen: Counter[str] | None = None) -> str | None:
    """The first difference, of the smallest program that has one."""
    seen = Counter() if seen is None else seen
    for mode in modes:
        text = difference(program, mode, seen)
        if text is None:
            continue
        for smaller in program.smaller():
            again = difference(smaller, mode, Counter())
            if again is not None:
                program, text = smaller, again
                break
        return f"program {program.seed}: {text}\n{program.source()}"
    return None


@pytest.mark.parametrize("first", range(0, times(4), IN_A_TEST))
def test_numbers_made_of_sizes(rng: np.random.Generator, first: int) -> None:
    for seed in rng.integers(2**31, size=IN_A_TEST).tolist():
        text = check(draw(seed))
        assert text is None, text


def test_numbers_in_models(rng: np.random.Generator, tmp_path: Any) -> None:
    pytest.importorskip("onnx")
    refused = 0
    for n, seed in enumerate(rng.integers(2**31, size=times(6)).tolist()):
        try:
            text = model_difference(draw(seed, results=1, odds=0.5), tmp_path / f"{n}.onnx")
        except Refused:
            refused += 1
            continue
        assert text is None, f"program {seed}: {text}"
    assert refused < times(6)


def test_most_of_them_are_computed() -> None:
    """What asks Python a question that only the run could answer is refused; the rest is not."""
    seen: Counter[str] = Counter()
    for seed in range(200, 224):
        for mode in ("interpret", "split", "lazy", "trace"):
            assert difference(draw(seed, results=1), mode, seen) is None
    assert seen["interpret agrees"] > 13 and seen["trace agrees"] > 11
    assert min(seen["split agrees"], seen["lazy agrees"]) > 21
