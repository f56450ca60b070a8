"""The Array API's names, the signatures that inspect shows, and limits of dtypes."""

from __future__ import annotations

import inspect
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

import weft

RNG = np.random.Generator


def drawn(rng: RNG, *size: int) -> weft.Tensor:
    return weft.from_numpy(rng.normal(size=size).astype(np.float32))


@pytest.mark.parametrize("wrap", [lambda f: f, weft.compile, lambda f: weft.compile(f, split=True)])
def test_each_name_computes_what_numpy_computes(rng: RNG, wrap: Any) -> None:
    cases: list[tuple[Any, Any]] = [
        (lambda x: weft.permute_dims(x, (2, 0, 1)), lambda a: np.transpose(a, (2, 0, 1))),
        (lambda x: weft.expand_dims(x, axis=-2), lambda a: np.expand_dims(a, -2)),
        (weft.matrix_transpose, lambda a: np.swapaxes(a, -1, -2)),
        (lambda x: weft.repeat(x, 2, axis=1), lambda a: np.repeat(a, 2, axis=1)),
        (lambda x: weft.repeat(x, 3), lambda a: np.repeat(a, 3)),
        (lambda x: weft.unstack(x, axis=1)[0], lambda a: a[:, 0]),
        (lambda x: weft.vecdot(x, 2 * x, axis=0), lambda a: (2 * a * a).sum(0)),
        (lambda x: weft.cumulative_sum(x, axis=1), lambda a: np.cumsum(a, 1)),
        (lambda x: weft.cumulative_prod(x, axis=0, include_initial=True),
         lambda a: np.concatenate([np.ones_like(a[:1]), np.cumprod(a, 0)])),
        (lambda x: weft.broadcast_arrays(x, x[0])[1], lambda a: np.broadcast_to(a[0], a.shape)),
        (lambda x: weft.linalg.trace(x, offset=1), lambda a: np.trace(a, 1, -2, -1)),
        (lambda x: weft.linalg.tensordot(x, x, axes=3), lambda a: np.tensordot(a, a, 3)),
        (lambda x: weft.linalg.outer(x[0, 0], x[0, 0]), lambda a: np.outer(a[0, 0], a[0, 0])),
        (lambda x: weft.take_along_axis(x, weft.argsort(x, axis=2), axis=2), lambda a: np.sort(a, 2)),
        (lambda x: weft.astype(x, weft.float64), lambda a: a.astype(np.float64)),
    ]
    for function, wanted in cases:
        run = wrap(function)
        for _ in range(2):
            x = drawn(rng, int(rng.integers(2, 4)), int(rng.integers(2, 4)), int(rng.integers(3, 5)))
            found = run(x)
            np.testing.assert_allclose(found.numpy(), wanted(x.numpy()), rtol=1e-5, atol=1e-5)


def test_sets_say_where_and_how_often(rng: RNG) -> None:
    a = rng.integers(0, 4, size=(3, 5))
    x = weft.from_numpy(a)
    values, indices, inverse, counts = weft.unique_all(x)
    wanted = np.unique_all(a)
    for found, number in zip((values, indices, inverse, counts), wanted, strict=True):
        np.testing.assert_array_equal(found.numpy(), number)
    assert weft.unique_counts(x)._fields == ("values", "counts") and weft.equal(weft.unique_values(x), values)
    assert weft.equal(weft.unique_inverse(x).inverse_indices, inverse)


def test_kinds_of_dtypes_and_what_the_namespace_has() -> None:
    assert weft.isdtype(weft.int8, "signed integer") and not weft.isdtype(weft.uint8, "signed integer")
    assert weft.isdtype(weft.float16, ("bool", "real floating")) and weft.isdtype(weft.bool, weft.bool)
    assert weft.isdtype(weft.complex64, "numeric") and not weft.isdtype(weft.bool, "numeric")
    for wrong in ((weft.ones(1), "bool"), (weft.int8, "whole"), (weft.int8, 3)):
        with pytest.raises(TypeError):
            weft.isdtype(*wrong)
    info, x = weft.__array_namespace_info__(), weft.ones(2)
    assert info.default_device() in info.devices() and info.default_dtypes()["integral"] is weft.int64
    for kind in (None, "integral", "complex floating"):
        for name, dtype in info.dtypes(kind=kind).items():
            assert getattr(weft, name) is dtype and weft.empty(1, dtype=dtype).dtype is dtype
    assert x.__array_namespace__() is weft.array_api and x.to_device("cpu") is x
    with pytest.raises(ValueError, match="not known"):
        x.__array_namespace__(api_version="1999.1")
    with pytest.raises(ValueError, match="stream"):
        x.to_device("cpu", stream=1)
    with pytest.raises(ValueError, match="axis must be given"):
        weft.cumulative_sum(weft.ones(2, 2))


def test_result_type_of_many_and_of_dtypes() -> None:
    x = weft.ones(2)
    assert weft.result_type(x) is weft.float32 and weft.result_type(weft.int8, weft.int16, 3) is weft.int16
    assert weft.result_type(tensor1=x, tensor2=1j) is weft.complex64
    assert weft.result_type(weft.uint16, weft.int8) is weft.int32 and weft.result_type(weft.uint32, 1) is weft.uint32
    with pytest.raises(TypeError, match="at least one"):
        weft.result_type()
    with pytest.raises(TypeError, match="dtypes, got str"):
        weft.result_type("x")
    with pytest.raises(RuntimeError, match="holds both"):
        weft.promote_types(weft.uint64, weft.int8)


def test_numbers_beside_tensors_where_pytorch_wants_two_tensors() -> None:
    x = weft.tensor([1.0, -2.0, 3.0], requires_grad=True)
    for name in ("maximum", "minimum", "atan2", "hypot", "logaddexp"):
        function = getattr(weft, name)
        for call, same in ((lambda f=function: f(x, 2), lambda f=function: f(x, weft.tensor(2.0))), (
            lambda f=function: f(0.5, x), lambda f=function: f(weft.tensor(0.5), x)
        )):
            out, wanted = call(), same()
            assert weft.equal(out, wanted)
            assert weft.equal(*(weft.autograd.grad(o.sum(), x)[0] for o in (out, wanted)))
    assert weft.logical_or(True, weft.tensor([False])).tolist() == [True] and weft.all(True).item() is True
    assert weft.flip(x, axis=0).tolist() == [3, -2, 1] and weft.zeros(shape=(2,)).tolist() == [0, 0]
    assert weft.fft.fftn(x, axes=[0]).shape == (3,)


@pytest.mark.parametrize(("asked", "shown"), [
    ("sum", "(input, dim=None, keepdim=False, *, dtype=None, out=None, axis=None, axes=None, keepdims=False)"),
    ("max", "(input, dim=None, keepdim=False, *, other=None, out=None, axis=None, axes=None, keepdims=False)"),
    ("matmul", "(input, other, *, out=None)"), ("clamp", "(input, min=None, max=None, *, out=None)"),
    ("Tensor.sum", "(self, dim=None, keepdim=False, *, dtype=None, axis=None, axes=None, keepdims=False)"),
    ("Tensor.add_", "(self, other, *, alpha=1)"), ("linalg.svd", "(A, full_matrices=True, *, out=None)"),
    ("zeros_like", "(input, *, dtype=None, device=None, memory_format=None, layout=None, pin_memory=False, "
                   "requires_grad=False)"),
    ("nn.functional.linear", "(input, weight, bias=None, *, out=None)"),
    ("Tensor.uniform_", "(self, from_=0.0, to=1.0, *, generator=None)"),
])
def test_signatures_have_the_parameters_of_the_schemas(asked: str, shown: str) -> None:
    value: Any = weft
    for part in asked.split("."):
        value = getattr(value, part)
    assert str(inspect.signature(value)) == shown


def test_every_operator_has_a_signature_and_takes_what_it_shows() -> None:
    for module in (weft, weft.linalg, weft.fft, weft.special, weft.nn.functional, weft.Tensor):
        for name in dir(module):
            value = getattr(module, name, None)
            if callable(value) and not isinstance(value, type) and not name.startswith("__"):
                assert "args" not in inspect.signature(value).parameters or not hasattr(value, "packet"), name
    x = weft.tensor([[1.0, 2.0], [3.0, 4.0]])
    bound = inspect.signature(x.sum).bind(0, keepdims=True)
    assert weft.equal(x.sum(*bound.args, **bound.kwargs), weft.tensor([[4.0, 6.0]]))
    assert inspect.unwrap(weft.sum).__name__ == "sum" and "sum(input,dim=None" in "".join(_help("weft.sum").split())


def _help(what: str) -> str:
    code = f"import weft, pydoc; print(pydoc.render_doc({what}, renderer=pydoc.plaintext))"
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout


def test_limits_of_dtypes() -> None:
    assert weft.finfo(weft.ones(1)).dtype is weft.float32 and weft.iinfo(np.int16).max == 32767
    assert weft.finfo(weft.float8_e4m3fn).max == 448 and weft.finfo(weft.float8_e4m3fn).resolution == 1
    assert weft.finfo(weft.complex128).dtype is weft.float64 and weft.iinfo(weft.uint64).max == 2**64 - 1
    for wrong in (lambda: weft.finfo("x"), lambda: weft.iinfo(3), lambda: weft.finfo(weft.int8), lambda: weft.iinfo(
        weft.bool
    )):
        with pytest.raises(TypeError, match=r"weft\.[fi]info\(\)"):
            wrong()


def test_eye_takes_none_for_the_number_of_columns() -> None:
    assert weft.equal(weft.eye(3, None), weft.eye(3)) and weft.eye(2, 3).shape == (2, 3)
    assert weft.equal(weft.compile(lambda x: x @ weft.eye(x.shape[1], None))(weft.ones(2, 3)), weft.ones(2, 3))
