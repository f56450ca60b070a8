"""Numbers of NumPy's are numbers of a program; one-element tensors are indexes; sums of tuples; what __bool__ gives."""

import numpy as np
import pytest

import weft
import weft.jit
from weft import Tensor


@weft.jit.script
def numbers(n: int, x: float, b: bool, xs: list[int]) -> tuple[int, float, bool, int]:
    return n + 1, x * 2, not b, sum(xs)


def test_numbers_of_numpy_are_taken():
    found = numbers(np.int64(3), np.float32(1.5), np.bool_(True), [np.int32(1), 2])
    assert found == (4, 3.0, False, 3) and [type(v) for v in found] == [int, float, bool, int]
    assert type(numbers(1, np.float64(2), False, [])[1]) is float


def test_a_float_of_numpy_is_no_int():
    with pytest.raises(TypeError, match="expected a value of type int for argument 'n'"):
        numbers(np.float32(3), 1.0, True, [])


def test_a_tensor_of_one_element_is_an_index():
    assert [1, 2][weft.tensor([1])] == [1, 2][weft.tensor([[1]])] == 2
    with pytest.raises(TypeError, match="can be converted to an index"):
        [1, 2][weft.tensor([0, 1])]


def test_tuples_have_a_sum():
    @weft.jit.script
    def total(a: tuple[int, int, int], b: tuple[float, float], c: tuple[Tensor, Tensor]):
        return sum(a), sum(b), sum(b, 1.0), sum(c)

    a, b, c, d = total((1, 2, 3), (0.5, 1.5), (weft.ones(2), weft.ones(2)))
    assert (a, b, c, d.tolist()) == (6, 2.0, 3.0, [2.0, 2.0])


class Truthful:
    def __init__(self) -> None:
        self.n = 1

    def __bool__(self):
        return (1, 2)


def test_a_condition_s_method_must_give_a_bool():
    def ask() -> int:
        return 1 if Truthful() else 2

    with pytest.raises(weft.jit.CompileError, match=r"__bool__ of .* must give bool"):
        weft.jit.script(ask)


def test_no_name_is_advised_for_itself():
    with pytest.raises(weft.jit.CompileError) as caught:
        weft.jit.CompilationUnit("def f(x):\n    return x.itemsize\n")
    assert "did you mean itemsize" not in str(caught.value)
