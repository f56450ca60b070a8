"""weft.array_api: what the standard says and PyTorch does otherwise, against NumPy and closed forms."""

import inspect

import numpy as np
import pytest

import weft

RNG = np.random.Generator
xp = weft.array_api


def test_a_tensor_names_the_namespace() -> None:
    assert weft.ones(2).__array_namespace__(api_version="2024.12") is xp
    assert all(hasattr(xp, name) for name in xp.__all__) and not hasattr(xp, "uint16")


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("add", "(x1, x2, /)"), ("sqrt", "(x, /)"), ("sum", "(x, /, *, axis=None, dtype=None, keepdims=False)"),
        ("sort", "(x, /, *, axis=-1, descending=False, stable=True)"), ("zeros", "(shape, *, dtype=None, device=None)"),
        ("clip", "(x, /, min=None, max=None)"), ("fft.rfftn", "(x, /, *, s=None, axes=None, norm='backward')"),
        ("linalg.qr", "(x, /, *, mode='reduced')"),
        ("arange", "(start, /, stop=None, step=1, *, dtype=None, device=None)"),
    ],
)  # fmt: skip
def test_signatures_are_the_standards(name: str, arguments: str) -> None:
    function = xp
    for part in name.split("."):
        function = getattr(function, part)
    shown = inspect.signature(function)
    bare = [p.replace(annotation=inspect.Parameter.empty) for p in shown.parameters.values()]
    assert str(inspect.Signature(bare)) == arguments


def test_tensors_of_no_dims_widen_and_numbers_do_not(rng: RNG) -> None:
    narrow = xp.asarray(rng.standard_normal(3), dtype=xp.float32)
    wide = xp.asarray(float(rng.standard_normal()), dtype=xp.float64)
    out = xp.multiply(narrow, wide)
    assert out.dtype is xp.float64 and (narrow * wide).dtype is xp.float32
    np.testing.assert_array_equal(out.numpy(), narrow.numpy().astype(np.float64) * wide.item())
    assert xp.add(narrow, 1).dtype is xp.float32 and xp.add(narrow, 1j).dtype is xp.complex64
    assert xp.result_type(xp.int8, wide, 1) is xp.float64 and not xp.can_cast(xp.int64, xp.int32)
    with pytest.raises(weft.WeftError, match="at least one tensor"):
        xp.add(1, 2)


def test_comparisons_look_at_each_element(rng: RNG) -> None:
    a = rng.integers(0, 3, (4, 2))
    np.testing.assert_array_equal(xp.equal(xp.asarray(a), 1).numpy(), a == 1)
    values = xp.sort(xp.asarray(a), axis=0, descending=True)
    np.testing.assert_array_equal(values.numpy(), -np.sort(-a, axis=0))
    assert [t.tolist() for t in xp.nonzero(xp.asarray(a))] == [t.tolist() for t in np.nonzero(a)]
    with pytest.raises(ValueError, match="one dim or more"):
        xp.nonzero(xp.asarray(1))


def test_axes_of_every_kind(rng: RNG) -> None:
    a = rng.standard_normal((2, 3, int(rng.integers(1, 4))))
    x = xp.asarray(a)
    for axis in (None, 1, (0, 2), ()):
        for keepdims in (False, True):
            for name in ("sum", "prod", "mean", "var", "max", "min", "all", "any", "count_nonzero"):
                out = getattr(xp, name)(x, axis=axis, keepdims=keepdims).numpy()
                np.testing.assert_allclose(out, getattr(np, name)(a, axis=axis, keepdims=keepdims), err_msg=name)
    assert xp.sum(xp.asarray([1, 2], dtype=xp.int8)).dtype is xp.int64
    np.testing.assert_array_equal(xp.flip(x).numpy(), np.flip(a))
    np.testing.assert_array_equal(xp.concat([x, x], axis=None).numpy(), np.concatenate([a, a], axis=None))
    np.testing.assert_array_equal(xp.take(x, xp.asarray([2, 0, -1]), axis=1).numpy(), np.take(a, [2, 0, -1], axis=1))
    with pytest.raises(ValueError, match="size 3, not 1"):
        xp.squeeze(x, 1)


def test_creation(rng: RNG) -> None:
    n, m, k = (int(v) for v in rng.integers(1, 5, 3))
    np.testing.assert_array_equal(xp.eye(n, m, k=-k).numpy(), np.eye(n, m, -k))
    assert xp.arange(3, 1).shape == (0,) and xp.arange(3, 1, -1).tolist() == [3, 2]
    assert xp.arange(2.0).dtype is xp.float32 and xp.arange(2).dtype is xp.int64
    np.testing.assert_allclose(xp.linspace(0, 2, n, endpoint=False).numpy(), np.linspace(0, 2, n, endpoint=False), 1e-6)
    grid = xp.meshgrid(xp.arange(n), xp.arange(m))
    assert [g.tolist() for g in grid] == [g.tolist() for g in np.meshgrid(np.arange(n), np.arange(m))]
    x = xp.reshape(xp.arange(6), (2, 3))
    assert xp.reshape(x, (6,), copy=True).data_ptr() != x.data_ptr() == xp.reshape(x, (6,), copy=False).data_ptr()
    with pytest.raises(ValueError, match="without a copy"):
        xp.reshape(x.T, (6,), copy=False)


def test_special_values() -> None:
    inf, nan = float("inf"), float("nan")
    out = xp.floor_divide(xp.asarray([inf, -inf, 1.0, -7.0]), xp.asarray([2.0, 2.0, -inf, 2.0]))
    np.testing.assert_array_equal(out.numpy(), [inf, -inf, -0.0, -4.0])
    assert xp.signbit(out).tolist() == [False, True, True, True]
    z = xp.asarray([0j, complex(inf, 0), complex(-inf, inf), complex(nan, 0)])
    np.testing.assert_array_equal(xp.expm1(z).numpy(), np.array([0, complex(inf, 0), -1, complex(nan, 0)]))
    assert xp.tanh(xp.asarray(complex(inf, 3.0))).item() == 1 and xp.isnan(xp.sign(xp.asarray(nan))).item()


def test_small_complex_numbers_lose_no_digits(rng: RNG) -> None:
    z = (rng.standard_normal(5) + 1j * rng.standard_normal(5)) * 1e-9
    np.testing.assert_allclose(xp.expm1(xp.asarray(z)).numpy(), z + z * z / 2, rtol=1e-14)


def test_gradients_and_compiled(rng: RNG) -> None:
    a = rng.standard_normal((3, 4))

    def f(x: weft.Tensor) -> weft.Tensor:
        return xp.sum(xp.multiply(xp.clip(x, -0.5, 0.5), xp.vecdot(x, x)[:, None])) + xp.std(x, correction=1)

    eager, compiled = xp.asarray(a).requires_grad_(), xp.asarray(a).requires_grad_()
    f(eager).backward()
    step = weft.compile(f)
    for _ in range(2):
        compiled.grad = None
        step(compiled).backward()
    np.testing.assert_allclose(compiled.grad.numpy(), eager.grad.numpy(), rtol=1e-12)
    shift = 1e-6 * rng.standard_normal(a.shape)
    slope = (f(xp.asarray(a + shift)) - f(xp.asarray(a - shift))).item() / 2
    np.testing.assert_allclose(slope, float((eager.grad.numpy() * shift).sum()), rtol=1e-5)
