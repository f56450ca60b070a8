"""What eager operators do at their edges: dtypes of nested data, empty tensors, NaN in quantiles, arguments by name,
values that must be refused."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import weft

NAN = float("nan")


@pytest.mark.parametrize(
    ("data", "dtype"),
    [
        ([weft.tensor(1, dtype=weft.int8), weft.tensor(2, dtype=weft.int8)], weft.int8),
        ([weft.tensor(1.5, dtype=weft.float64), 2], weft.float64),
        ([[1, True], [2, False]], weft.int64),
        (((7, 5), (9, np.array(5.0))), weft.float64),
        ([np.float32(1), np.float64(2)], weft.float64),
        ([np.float32(1), 2], weft.float32 if weft.get_default_dtype() is weft.float32 else None),
        ([1, 2.5], weft.get_default_dtype()),
        ([1, 2j], weft.complex64),
        ([[], []], weft.get_default_dtype()),
    ],
)
def test_nested_data_have_their_joint_dtype(data: Any, dtype: Any) -> None:
    assert weft.tensor(data).dtype is (dtype or weft.result_type(weft.tensor(1.0, dtype=weft.float32), 2))


def test_an_integer_beyond_64_bits() -> None:
    with pytest.raises(ValueError, match="Overflow"):
        weft.tensor([2**64])


def test_one_tensor_is_enough(rng: np.random.Generator) -> None:
    x = weft.from_numpy(rng.standard_normal(3))
    assert weft.broadcast_tensors(x)[0].shape == (3,)
    assert weft.equal(weft.block_diag(x), x.view(1, 3))


def test_arguments_by_their_names(rng: np.random.Generator) -> None:
    x = weft.from_numpy(rng.standard_normal((2, 3)))
    assert weft.equal(x.swapdims(dim0=0, dim1=1), x.t())
    assert weft.equal(x.swapaxes(axis0=0, axis1=1), x.t())
    assert weft.equal(x.roll(2, dims=None), x.roll(2))


def test_median_of_nothing_is_nan() -> None:
    assert weft.empty(0).median().isnan().item()
    assert weft.empty(0, 3).nanmedian().isnan().item()
    with pytest.raises(RuntimeError, match="median"):
        weft.empty(0, dtype=weft.int64).median()


def test_gradient_of_a_quantile_goes_to_the_nan() -> None:
    x = weft.tensor([[1.0, NAN, 3.0], [2.0, 1.0, 0.0]], requires_grad=True)
    y = x.quantile(0.5, dim=1)
    assert y[0].isnan().item()
    y.sum().backward()
    assert x.grad is not None
    assert x.grad.tolist() == [[0, 1, 0], [0, 1, 0]]


REFUSED: dict[str, Callable[[], Any]] = {
    "repeats of floats": lambda: weft.repeat_interleave(weft.tensor([1.0, 2.0])),
    "uint8 up to 300": lambda: weft.zeros(2, dtype=weft.uint8).random_(0, 300),
    "int8 from -300": lambda: weft.zeros(2, dtype=weft.int8).random_(-300, 3),
    "randint of uint8": lambda: weft.randint(0, 300, (2,), dtype=weft.uint8),
    "bernoulli above 1": lambda: weft.bernoulli(weft.tensor([0.5, 1.5])),
    "bernoulli of NaN": lambda: weft.bernoulli(weft.tensor([NAN])),
    "bernoulli of integers": lambda: weft.bernoulli(weft.tensor([1, 0])),
    "a negative rate": lambda: weft.zeros(2).exponential_(-1.0),
    "weights all zero": lambda: weft.multinomial(weft.zeros(2, 3), 1),
    "a negative weight": lambda: weft.multinomial(weft.tensor([1.0, -1.0]), 1),
    "weights with NaN": lambda: weft.multinomial(weft.tensor([1.0, NAN]), 1, replacement=True),
    "weights with infinity": lambda: weft.multinomial(weft.tensor([1.0, float("inf")]), 1, replacement=True),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name: str) -> None:
    with pytest.raises(RuntimeError):
        REFUSED[name]()


def test_a_compiled_draw_refuses_too() -> None:
    @weft.compile
    def pick(p: weft.Tensor) -> weft.Tensor:
        return weft.multinomial(p, 1)

    assert pick(weft.tensor([0.0, 1.0])).item() == 1
    with pytest.raises(RuntimeError, match="multinomial"):
        pick(weft.tensor([0.0, NAN]))


def test_random_without_an_upper_end() -> None:
    drawn = weft.zeros(100, dtype=weft.int8).random_(100, None)
    assert drawn.min().item() >= 100


@pytest.mark.parametrize("name", ["ones", "zeros", "arange", "full", "linspace", "eye"])
def test_a_factory_computes_in_the_dtype_of_out(name: str) -> None:
    arguments: dict[str, tuple[Any, ...]] = {"arange": (3.0,), "full": ((3,), 1.0), "linspace": (0, 2, 3)}
    out = weft.empty(0, dtype=weft.int64)
    made = getattr(weft, name)(*arguments.get(name, (3,)), out=out)
    assert made is out
    assert out.dtype is weft.int64
    assert weft.equal(out, getattr(weft, name)(*arguments.get(name, (3,)), dtype=weft.int64))


def test_numbers_that_a_dtype_does_not_hold() -> None:
    for value, dtype in ((
        300, weft.uint8
    ), (-300, weft.uint8), (128, weft.int8), (-129, weft.int8), (NAN, weft.int32), (float("inf"), weft.int64)):
        with pytest.raises(RuntimeError):
            weft.tensor([0, value], dtype=dtype)
    assert weft.tensor([-1, 127, -128], dtype=weft.int8).tolist() == [-1, 127, -128]
    assert weft.tensor([-1], dtype=weft.uint8).item() == 255
    assert weft.linspace(False, True, 3).tolist() == [0, 0.5, 1]


def test_a_complex_number_is_no_real_one() -> None:
    x = weft.zeros(2)
    for refused in (lambda: x.fill_(1j), lambda: x.__setitem__(0, 1j), lambda: weft.add(x, 1, alpha=2j)):
        with pytest.raises(RuntimeError, match=r"[12]j"):
            refused()


def test_bits_of_floats_are_refused() -> None:
    for _ in range(2):  # the second call takes the way that the first one found
        with pytest.raises(NotImplementedError, match="bitwise_not"):
            weft.bitwise_not(weft.ones(2))


def test_heaviside_of_nan() -> None:
    assert weft.heaviside(weft.tensor([NAN, 0.0, -1.0, 2.0]), weft.tensor(0.5)).tolist() == [0, 0.5, 0, 1]


def test_halves_keep_their_dtype_in_ldexp() -> None:
    for dtype in (weft.float16, weft.bfloat16):
        x = weft.tensor([1.0, 3.0], dtype=dtype)
        assert weft.ldexp(x, weft.tensor([1, 2])).dtype is dtype
        assert weft.nextafter(x, x + 1).gt(x).all()


def test_numbers_that_would_wrap_around_are_not_chosen() -> None:
    x = weft.tensor([1, 2], dtype=weft.int8)
    mask, place = weft.tensor([True, False]), weft.tensor([0])
    for refused in (
        lambda v: x.clamp(0, v), lambda v: x.clamp_min(v), lambda v: weft.where(mask, x, v),
        lambda v: weft.where(mask, v, x), lambda v: x.index_fill(0, place, v), lambda v: x.scatter(0, place, v),
        lambda v: weft.nn.functional.pad(x, (1, 1), value=v),
    ):
        refused(3)
        with pytest.raises(RuntimeError, match="300"):
            refused(300)
    assert x.clamp(0, 1e9).dtype is weft.get_default_dtype()
    assert weft.tensor([1, 2], dtype=weft.uint8).index_fill(0, place, -1).tolist() == [255, 2]
    for value in (NAN, 1j, float("inf")):
        with pytest.raises(RuntimeError, match=r"convert"):
            x.index_fill(0, place, value)


def test_einsum_of_one_tensor(rng: np.random.Generator) -> None:
    x = weft.from_numpy(rng.standard_normal((3, 3)))
    np.testing.assert_allclose(weft.einsum("ii", x).numpy(), np.trace(x.numpy()))
    assert weft.equal(weft.einsum("ij->ji", x), x.t())


def test_pythons_types_are_as_wide_as_in_python() -> None:
    for kind, dtype in ((float, weft.float64), (complex, weft.complex128), (int, weft.int64), (bool, weft.bool)):
        made: list[Any] = [
            weft.zeros(2, dtype=kind), weft.tensor([1, 0], dtype=kind), weft.as_tensor([1, 0], dtype=kind),  # type: ignore[arg-type]
            weft.ones(2).to(kind), weft.asarray([1], dtype=kind),  # type: ignore[arg-type]
            weft.zeros_like(weft.ones(2), dtype=kind), weft.ones(2).new_zeros(2, dtype=kind),  # type: ignore[arg-type]
        ]
        assert all(x.dtype is dtype for x in made)


def test_spaces_between_complex_ends() -> None:
    assert weft.linspace(0, 2j, 3).tolist() == [0, 1j, 2j]
    assert weft.linspace(1 + 1j, 5, 3, dtype=weft.complex128).tolist() == [1 + 1j, 3 + 0.5j, 5]
    np.testing.assert_allclose(weft.logspace(0, 1j, 3).numpy(), np.logspace(0, 1j, 3), rtol=1e-6)
    with pytest.raises(RuntimeError, match="complex"):
        weft.linspace(0, 1j, 3, dtype=weft.float32)


def test_small_facts() -> None:
    assert weft.empty(0).data_ptr() == 0 == weft.arange(4)[2:2].data_ptr()
    for convert in (int, float):
        with pytest.raises(RuntimeError, match="complex"):
            convert(weft.tensor(1.5j))
    out = weft.empty(2, dtype=weft.float64)
    assert weft.normal(weft.zeros(2, dtype=weft.float64), weft.ones(2, dtype=weft.float64), out=out) is out


def test_states_of_generators_travel() -> None:
    mine = weft.Generator().manual_seed(5)
    weft.rand(7, generator=mine)
    expected = weft.rand(3, generator=mine.clone_state())
    for twin in (pickle.loads(pickle.dumps(mine)), copy.deepcopy(mine), weft.Generator().set_state(mine.get_state())):
        assert weft.equal(weft.rand(3, generator=twin), expected)
    with weft.random.fork_rng(devices=[]):
        weft.set_rng_state(mine.get_state())
        twin = weft.Generator().set_state(weft.get_rng_state())
        assert weft.equal(twin.get_state(), mine.get_state())
        assert weft.equal(weft.rand(3), expected)
    with pytest.raises(RuntimeError, match="16 bytes"):
        mine.set_state(weft.zeros(3, dtype=weft.uint8))


def test_slopes_where_there_is_no_angle_and_between_equals() -> None:
    y, x = (weft.zeros(2, requires_grad=True) for _ in range(2))
    weft.atan2(y, x).sum().backward()
    assert y.grad is not None and x.grad is not None
    assert y.grad.tolist() == [0, 0] == x.grad.tolist()
    z = weft.tensor([1.0, 1.0], requires_grad=True)
    z.quantile(0.25).backward()
    assert z.grad is not None and z.grad.tolist() == [0.75, 0.25]


@pytest.mark.parametrize("dtype", [weft.float16, weft.bfloat16])
def test_half_precisions_are_compared_with_rounded_numbers(dtype: Any) -> None:
    x = weft.tensor([0.1, 0.2, NAN]).to(dtype)

    def questions(x: weft.Tensor) -> list[weft.Tensor]:
        return [
            x == 0.1, x != 0.1, x < 0.1, x <= 0.1, x > 0.1, x >= 0.1, x == weft.tensor(0.1),
            weft.where(x <= 0.1, 1.0, 0.0),
        ]

    expected = [[1, 0, 0], [0, 1, 1], [0, 0, 0], [1, 0, 0], [0, 1, 0], [1, 1, 0], [1, 0, 0], [1, 0, 0]]
    assert [q.tolist() for q in questions(x)] == expected
    assert [q.tolist() for q in weft.compile(questions)(x)] == expected
    assert x.clone().eq_(0.1).tolist()[:2] == [1, 0]


def test_assignment_under_a_python_bool() -> None:
    x = weft.tensor([1.0, 2.0])
    x[False] = weft.tensor([5.0, 6.0, 7.0])
    assert x.tolist() == [1, 2]
    x[True] = weft.tensor(3)
    assert x.tolist() == [3, 3]
    b = weft.tensor([True, False])
    b[1] = 1j
    assert b.tolist() == [True, True]


def test_a_range_of_int64_counts_with_its_step_cut_off() -> None:
    assert weft.arange(0, 4, 1.5, dtype=weft.int64).tolist() == [0, 1, 2, 3]
    assert weft.arange(0.9, 3.9, dtype=weft.int64).tolist() == [0, 1, 2]
    for call in (lambda: weft.arange(0, 4, 0.5, dtype=weft.int64), lambda: weft.arange(
        0, 4, 0.5, out=weft.empty(0, dtype=weft.int64)
    )):
        with pytest.raises(ValueError, match="step must be nonzero"):
            call()


def test_cat_into_an_empty_input_is_refused() -> None:
    x, y = weft.zeros(0), weft.randn(4, 6)
    with pytest.raises(RuntimeError, match="single memory location"):
        weft.cat((x, y), 0, out=x)


@pytest.mark.parametrize("order", [(2, 1, 0), (1, 0, 2), (2, 0, 1), (0, 2, 1)])
@pytest.mark.parametrize("name", ["sum", "amax", "any", "mean"])
def test_a_reduction_that_keeps_dims_is_row_major(order: tuple[int, ...], name: str, rng: np.random.Generator) -> None:
    """Dims of one element have the strides that row-major ones have too, however the operand lies: as in PyTorch."""
    sizes = tuple(int(n) for n in rng.integers(2, 6, 3))
    x = weft.tensor(rng.standard_normal(sizes)).permute(*order)
    for dim in (0, 1, 2) if name == "any" else (0, 1, 2, (0, 1), (1, 2), (0, 2)):
        for source in (x, x.to("lazy")):
            found = getattr(source, name)(dim, keepdim=True)
            assert found.stride() == weft.empty(found.shape).stride()
