"""Large products in eager mode: the native product on operands as they lie, with the bits of a compiled program."""

from __future__ import annotations

import numpy as np
import pytest

import weft
from weft.catalogue.linalg import matmul
from weft.programs.eager.products import multiply

DTYPES = ("float32", "float64")


def draw(seed: int, *dims: int, dtype: str = "float32") -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(dims).astype(dtype)


def as_it_lies(dims: tuple[int, ...], how: str, dtype: str) -> np.ndarray:
    """An array of these dims that is row-major, transposed, every other element of a larger one,
    or one row repeated."""
    if how == "transposed":
        return draw(1, *dims[:-2], dims[-1], dims[-2], dtype=dtype).swapaxes(-1, -2)
    if how == "sparse":
        return draw(2, *dims[:-1], 2 * dims[-1], dtype=dtype)[..., ::2]
    if how == "repeated":
        return np.broadcast_to(draw(3, dims[-1], dtype=dtype), dims)
    return draw(4, *dims, dtype=dtype)


LAYOUTS = ("rows", "transposed", "sparse", "repeated")


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("left", LAYOUTS)
@pytest.mark.parametrize("right", LAYOUTS)
@pytest.mark.parametrize("lead", [(), (1,), (3,)])
def test_values_for_every_layout(dtype: str, left: str, right: str, lead: tuple[int, ...]) -> None:
    a, b = as_it_lies((*lead, 37, 45), left, dtype), as_it_lies((*lead, 45, 41), right, dtype)
    found = multiply(a, b)
    assert found is not None and found.dtype == a.dtype and found.flags.c_contiguous
    np.testing.assert_allclose(
        found, a.astype("float64") @ b.astype("float64"), rtol=0, atol=1e-4 if dtype == "float32" else 1e-12
    )


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    "dims",
    [
        ((64, 300), (300, 70)),
        ((3, 300), (300, 200)),
        ((300, 400), (400, 1)),
        ((5, 40, 50), (5, 50, 60)),
        ((1, 60, 50), (1, 50, 60)),
    ],
)
@pytest.mark.parametrize("is_turned", [False, True])
def test_the_bits_are_those_of_a_program(
    dtype: str, dims: tuple[tuple[int, ...], tuple[int, ...]], is_turned: bool
) -> None:
    left, right = dims
    a = weft.tensor(draw(5, *left, dtype=dtype))
    b = weft.tensor(
        draw(6, *right, dtype=dtype) if not is_turned else draw(6, *right[:-2], right[-1], right[-2], dtype=dtype)
    )

    def product(a: weft.Tensor, b: weft.Tensor) -> weft.Tensor:
        return a @ (b.mT if is_turned else b)

    assert product(a, b).numpy().tobytes() == weft.compile(product)(a, b).numpy().tobytes()


def test_every_number_of_threads_gives_the_same_bits() -> None:
    a, b = draw(7, 333, 257), draw(8, 257, 129)
    before, given = multiply(a, b), weft.get_num_threads()
    try:
        weft.set_num_threads(3)
        after = multiply(a, b)
    finally:
        weft.set_num_threads(given)
    assert before is not None and after is not None and before.tobytes() == after.tobytes()


@pytest.mark.parametrize(
    ("a", "b"),
    [
        (np.ones((0, 3), "float32"), np.ones((3, 2), "float32")),
        (np.ones((2, 0), "float32"), np.ones((0, 2), "float32")),
        (np.ones((2, 3), "float32")[::-1], np.ones((3, 2), "float32")),
        (np.ones((2, 3), "float32"), np.ones((3, 2), "float64")),
        (np.ones((2, 2, 2, 3), "float32"), np.ones((2, 2, 3, 2), "float32")),
    ],
)
def test_what_numpy_must_do_is_left_to_it(a: np.ndarray, b: np.ndarray) -> None:
    assert multiply(a, b) is None


def test_the_numpy_back_end_asks_for_no_native_code(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*arrays: np.ndarray) -> None:
        raise AssertionError("native code was asked for")

    monkeypatch.setattr(matmul, "native_product", refuse)
    x = weft.ones(80, 80)
    with weft.knobs(backend="numpy"):
        assert (x @ x)[0, 0].item() == 80.0
    with pytest.raises(AssertionError, match="native code"):
        _ = x @ x


def test_where_there_is_no_native_code_numpy_multiplies(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(matmul, "native_product", lambda a, b: None)
    assert (weft.ones(80, 90) @ weft.ones(90, 80)).sum().item() == 80 * 80 * 90
