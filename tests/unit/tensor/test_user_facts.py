"""What programs ask of any tensor: older constructors, questions about devices and layouts, parts of complex numbers,
conversions, storages."""

from __future__ import annotations

import copy
import operator
from typing import Any

import numpy as np
import pytest

import weft

Rng = np.random.Generator


def test_older_constructors(rng: Rng) -> None:
    n, m = (int(v) for v in rng.integers(1, 5, 2))
    assert (
        weft.Tensor(n, m).shape == (n, m) and weft.Tensor().shape == (0,) and weft.Tensor(weft.Size([n])).shape == (n,)
    )
    assert (
        weft.Tensor([1, 2]).dtype is weft.float32 and weft.Tensor([[1, 2], [3, 4]]).tolist() == [[1.0, 2.0], [3.0, 4.0]]
    )
    assert weft.LongTensor([1, 2]).dtype is weft.int64 and weft.LongTensor((n, m)).tolist() == [n, m]
    assert weft.IntTensor(n, m).shape == (n, m) and weft.BoolTensor([True, False]).tolist() == [True, False]
    assert weft.DoubleTensor(np.array([1, 2])).dtype is weft.float64
    x = weft.ones(2, dtype=weft.float64)
    assert (
        x.new(n).dtype is weft.float64 and x.new([1, 2]).tolist() == [1.0, 2.0] and x.new(weft.Size([m])).shape == (m,)
    )
    for wrong in (lambda: weft.Tensor(2.5), lambda: weft.Tensor("a"), lambda: weft.FloatTensor(weft.ones(2).long())):
        with pytest.raises(TypeError):
            wrong()


def test_types_by_older_names() -> None:
    x = weft.ones(2)
    assert (
        isinstance(x, weft.FloatTensor) and not isinstance(x, weft.LongTensor) and isinstance(x.long(), weft.LongTensor)
    )
    assert (
        x.type() == "weft.FloatTensor" and x.type(weft.DoubleTensor).dtype is weft.float64
        and x.type("weft.IntTensor").dtype is weft.int32
    )
    with pytest.raises(ValueError, match="invalid type"):
        x.type("weft.Nothing")


def test_questions_with_one_answer() -> None:
    x = weft.ones(2, 3)
    for name in ("is_cuda", "is_sparse", "is_quantized", "is_mkldnn", "is_nested", "is_meta"):
        assert getattr(x, name) is False, name
    assert x.is_cpu and x.get_device() == -1 and not x.is_pinned() and not x.is_shared() and x.share_memory_() is x
    assert not x.is_conj() and not x.is_neg() and x.resolve_conj() is x and x.t().dim_order() == (1, 0)
    with pytest.raises(RuntimeError, match="accelerator"):
        x.pin_memory()
    with pytest.raises(IndexError, match=r"\[-2, 1\], but got 5"):
        x.size(5)
    with pytest.raises(IndexError, match="out of range"):
        x.stride(2)


def test_parts_of_complex_numbers(rng: Rng) -> None:
    z = weft.from_numpy(rng.standard_normal(3) + 1j * rng.standard_normal(3))
    assert z.real.tolist() == z.numpy().real.tolist() and z.real._base is z
    z.imag = 2
    z.real = weft.ones(3, dtype=weft.float64)
    assert z.tolist() == [1 + 2j] * 3
    x = weft.ones(2)
    assert x.real is x
    with pytest.raises(RuntimeError, match="non-complex"):
        _ = x.imag
    for shape, name in (((2,), "mT"), ((2, 2, 2), "H"), ((3,), "mH")):
        with pytest.raises(RuntimeError, match=name):
            getattr(weft.ones(shape), name)


@pytest.mark.parametrize("dtype", [weft.complex64, weft.complex128])
def test_random_complex_numbers(dtype: Any) -> None:
    z = weft.randn(20000, dtype=dtype)
    assert z.dtype is dtype and abs(float(z.abs().square().mean()) - 1) < 0.05 and abs(float(z.real.var()) - 0.5) < 0.03
    u = weft.rand(2000, dtype=dtype)
    assert float(u.real.min()) >= 0 and float(u.imag.max()) < 1 and abs(float(u.imag.mean()) - 0.5) < 0.05


def test_other_distributions() -> None:
    x = weft.empty(20000, dtype=weft.float64)
    assert abs(float(x.cauchy_(2.0, 0.5).median()) - 2) < 0.05
    assert abs(float(x.log_normal_(0.5, 0.25).log().mean()) - 0.5) < 0.02
    assert abs(float(x.geometric_(0.25).mean()) - 4) < 0.2 and float(x.min()) == 1
    assert set(weft.empty(500, dtype=weft.int64).random_(3).tolist()) == {0, 1, 2}
    assert weft.empty(100, dtype=weft.uint8).random_().max() > 100
    for wrong in (lambda: x.cauchy_(0, 0), lambda: x.geometric_(1.0), lambda: x.log_normal_(0, -1)):
        with pytest.raises(RuntimeError, match="expects"):
            wrong()


def test_storages_as_users_see_them(rng: Rng) -> None:
    x = weft.from_numpy(rng.standard_normal(6).astype(np.float32)).view(2, 3)
    raw = x[1].untyped_storage()
    assert raw.data_ptr() == x.data_ptr() and raw.nbytes() == len(raw) == 24 and raw == x.untyped_storage()
    storage = x.storage()
    assert len(storage) == 6 and storage[1] == x[0, 1].item() and storage.tolist() == x.view(6).tolist()
    storage[2] = 7.0
    assert x[0, 2].item() == 7.0 and x._version == 1


def test_conversions_refuse_what_has_no_answer() -> None:
    x = weft.tensor([1, 2])
    for convert in (int, float, complex):
        with pytest.raises(ValueError, match="only one element"):
            convert(x)
    with pytest.raises(RuntimeError, match="only supports Tensor or scalar"):
        "a" in x  # noqa: B015
    assert 1 << weft.tensor(3) == 8 and 16 >> weft.tensor([1, 2])[1] == 4
    with pytest.raises(IndexError, match="specified for input"):
        weft.tensor([]).argmax()
    with pytest.raises(NotImplementedError, match="not implemented for"):
        weft.tensor(1.0) & 1
    with pytest.raises(RuntimeError, match="must not be None"):
        x.clamp()


def test_arrays_beside_tensors(rng: Rng) -> None:
    a = rng.integers(0, 9, 3)
    x = weft.tensor([1.0, 2.0, 3.0])
    for made, expected in ((x + a, np.array([1, 2, 3]) + a), (a * x, a * [1, 2, 3]), (x - a, [1, 2, 3] - a), (
        x > a, np.array([1, 2, 3]) > a
    )):
        assert isinstance(made, weft.Tensor) and made.tolist() == expected.tolist()


def test_as_strided_may_show_fewer_elements() -> None:
    x = weft.arange(6.0).reshape(2, 3)
    assert (
        x.as_strided((2,), (1,)).tolist() == [0.0, 1.0]
        and x.as_strided((2, 2), (2, 1)).tolist() == [[0.0, 1.0], [2.0, 3.0]]
    )


def test_elements_replaced_by_python() -> None:
    x = weft.arange(4.0).view(2, 2)
    assert x.apply_(lambda v: v + 1) is x and x.tolist() == [[1.0, 2.0], [3.0, 4.0]]
    x.map_(weft.tensor([10.0, 20.0]), lambda a, b: a * b)
    assert x.tolist() == [[10.0, 40.0], [30.0, 80.0]]


# ---- indexing
def test_values_of_indexed_assignment(rng: Rng) -> None:
    x = weft.zeros(3, 4)
    x[[0, 1]] = weft.ones(1, 1, 1, 4)  # leading ones say nothing
    assert x.sum().item() == 8
    x[weft.tensor([True, False, True])] = weft.tensor(2.0, dtype=weft.float64)  # one number under a mask is cast
    assert x[2].tolist() == [2.0] * 4
    with pytest.raises(RuntimeError, match="source and destination dtypes match"):
        x[[0]] = weft.tensor([1, 2, 3, 4])
    x[0] = weft.tensor([1, 2, 3, 4])  # a plain copy casts
    assert x[0].tolist() == [1.0, 2.0, 3.0, 4.0]


def test_indices_of_every_kind() -> None:
    x = weft.arange(6).view(2, 3)
    assert x[(0, 1), (1, 2)].tolist() == [1, 5] and x[range(2), 0].tolist() == [0, 3]
    assert x[weft.tensor(1, dtype=weft.int16)].tolist() == [3, 4, 5]
    with pytest.warns(UserWarning, match="uint8 is now deprecated"):
        assert x[weft.tensor([1, 0], dtype=weft.uint8)].tolist() == [[0, 1, 2]]
    for wrong, kind, words in (
        ("a", TypeError, "invalid data type"), (slice("0", None), TypeError, "slice indices must be integers"),
        (slice(None, None, -1), ValueError, "greater than zero"),
        (weft.tensor([1], dtype=weft.int16), IndexError, "used as indices"),
        (weft.tensor(1.0), IndexError, "used as indices"), ((0, 3), IndexError, "out of bounds"),
        ((0, 0, 0), IndexError, "too many indices"),
    ):
        with pytest.raises(kind, match=words):
            x[wrong]
    with pytest.raises(IndexError, match="for dimension with size 0"):
        weft.zeros(0, 3)[[1]]


def test_tensors_stand_for_sizes() -> None:
    n = weft.tensor(3)
    assert weft.ones(n).shape == (3,) and weft.zeros(n, 2).shape == (3, 2) and weft.arange(6).view(n, 2).shape == (3, 2)
    assert weft.ones(2).repeat(n).shape == (6,) and weft.Size([n, 2]) == (3, 2)
    with pytest.raises(TypeError):
        weft.ones(weft.tensor(3.0))
    with pytest.raises(TypeError, match="takes an iterable of 'int'"):
        weft.Size(weft.ones(3))


# ---- names of the module
def test_constants_and_switches() -> None:
    assert (
        weft.pi == np.pi and weft.e == np.e and weft.inf == float("inf") and weft.nan != weft.nan
        and weft.newaxis is None
    )
    device = "cuda" if weft.cuda.is_available() else "cpu"
    assert weft.ones(1, device=weft.device(type=device)).device.type == "cpu" and weft.cuda.device_count() == 0
    weft.cuda.manual_seed_all(3)
    weft.backends.cudnn.benchmark = True
    assert weft.typename(weft.ones(1)) == "weft.FloatTensor" and weft.get_default_device().type == "cpu"
    weft.use_deterministic_algorithms(True)
    weft.set_float32_matmul_precision("high")
    with pytest.raises(ValueError, match="highest"):
        weft.set_float32_matmul_precision("low")
    before = weft.get_default_dtype()
    try:
        weft.set_default_tensor_type(weft.DoubleTensor)
        assert weft.get_default_dtype() is weft.float64
    finally:
        weft.set_default_dtype(before)


def test_assert_close(rng: Rng) -> None:
    x = weft.from_numpy(rng.standard_normal((2, 3)))
    weft.testing.assert_close({"a": [x, 1.0]}, {"a": [x + 1e-9, 1.0]})
    with pytest.raises(AssertionError, match=r"Mismatched elements: 1 / 6 (.|\n)*at index \(1, 2\)"):
        y = x.clone()
        y[1, 2] += 1
        weft.testing.assert_close(x, y)
    for a, b, words in ((
        x, x.float(), "dtype"
    ), (x, x[0], "shape"), ([x], [x, x], "length"), ({"a": 1}, {"b": 1}, "keys"), (1.0, 2.0, "Scalar")):
        with pytest.raises(AssertionError, match=words):
            weft.testing.assert_close(a, b)
    with pytest.raises(AssertionError):
        weft.testing.assert_close(weft.tensor(weft.nan), weft.tensor(weft.nan))
    weft.testing.assert_close(weft.tensor(weft.nan), weft.tensor(weft.nan), equal_nan=True)
    with pytest.raises(ValueError, match="Both"):
        weft.testing.assert_close(x, x, rtol=0.1)
    made = weft.testing.make_tensor((3, 4), dtype=weft.int8, noncontiguous=True, exclude_zero=True)
    assert made.dtype is weft.int8 and not made.is_contiguous() and (made != 0).all() and made.abs().max() <= 9


def test_sizes_and_tensors_in_pythons_hands() -> None:
    size = weft.Size([2, 3])
    assert (
        isinstance((1, *size), tuple) and type(operator.add((1,), size)) is weft.Size
        and operator.add(size, (4,)) == (2, 3, 4) and type(size * 2) is weft.Size
    )
    with pytest.raises(TypeError, match="can only concatenate tuple"):
        operator.add(size, [1])
    assert reversed(weft.arange(3)).tolist() == [2, 1, 0] and weft.ones(2).is_same_size(weft.zeros(2))
    leaf = weft.zeros(2)
    leaf.grad = weft.ones(2)
    copied = copy.deepcopy(leaf)
    assert copied.grad is not None and copied.grad is not leaf.grad and copied.grad.tolist() == [1.0, 1.0]
    assert weft.zeros(2, dtype=weft.uint8).index_add(0, weft.tensor([1]), weft.ones(
        1, dtype=weft.uint8
    ), alpha=-1).tolist() == [0, 255]


def test_what_tensor_makes_of_data() -> None:
    assert (
        weft.tensor([np.float64(1)]).dtype is weft.float64
        and weft.tensor([np.ones(2), np.ones(2)]).dtype is weft.float64
    )
    assert weft.tensor([np.int32(1)]).dtype is weft.int32 and weft.tensor([1.0]).dtype is weft.float32
    for data, kind, words in (
        (None, RuntimeError, "infer dtype of NoneType"), ([[1, None]], RuntimeError, "infer dtype of NoneType"),
        ({}, RuntimeError, "infer dtype of dict"),
        ("a", TypeError, "invalid data type 'str'"), (["a"], ValueError, "too many dimensions"),
        (2**63, ValueError, "Overflow"),
        ([[1, 2], [3]], ValueError, "expected sequence"),
    ):
        with pytest.raises(kind, match=words):
            weft.tensor(data)


def test_arrays_of_other_dtypes_are_refused_as_types() -> None:
    for array in (np.array(["a"]), np.array([1], dtype=object)):
        with pytest.raises(TypeError, match=r"can't convert np.ndarray"):
            weft.from_numpy(array)
