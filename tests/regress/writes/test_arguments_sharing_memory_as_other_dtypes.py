"""Arguments that show one memory as different dtypes, and `out=` of another size beside views."""

import numpy as np
import pytest

import weft

SHOWN = {
    "parts of complex numbers": (lambda x: (weft.view_as_real(x), x.real), 1j),
    "complex numbers and their parts": (lambda x: (x, weft.view_as_real(x)), 1j),
    "imaginary parts": (lambda x: (x, x.imag), 1j),
    "integers of the same size": (lambda x: (x, x.view(weft.int32)), 0),
    "wider numbers": (lambda x: (x, x.view(weft.float64)), 0),
    "wider numbers first": (lambda x: (x.view(weft.float64), x), 0),
    "a part, and bytes": (lambda x: (x[1:], x.view(weft.uint8)), 0),
    "permuted": (lambda x: (x.view(2, 2).t(), x.view(weft.int16)[2:]), 0),
}
MODES = {
    "functionalize": weft.func.functionalize, "compile": weft.compile,
    "split": lambda f: weft.compile(f, split=True),
}


def write_both(a, b):
    a.add_(1)
    b.mul_(2)
    return a.sum() + b.sum()


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("shown", SHOWN)
def test_arguments_of_different_dtypes(shown, mode):
    show, imaginary = SHOWN[shown]
    function = MODES[mode](write_both)
    for seed in range(2):
        values = weft.tensor(np.random.RandomState(seed).randint(0, 9, 4)).float() * (1 + imaginary)
        mine, theirs = values.clone(), values.clone()
        np.testing.assert_array_equal(function(*show(mine)).numpy(), write_both(*show(theirs)).numpy())
        np.testing.assert_array_equal(mine.numpy(), theirs.numpy())


def test_what_a_function_closes_over_and_its_argument():
    numbers = weft.zeros(4)
    bits = numbers.view(weft.int32)

    @weft.compile
    def step(x):
        x.add_(1)
        return bits + 0

    assert step(numbers).tolist() == [0x3F800000] * 4
    assert step(numbers).tolist() == [0x40000000] * 4


def resized(x):
    out, wide = x.new_zeros(6), x.new_zeros(2, 2)
    view = out.view(2, 3)
    weft.logsumexp(x, 1, out=out)
    out.add_(1)
    weft.add(x.t(), x.t(), out=wide)
    part = wide.new_zeros(20)
    shown = part[::2]
    weft.sum(x, 0, out=shown)
    return view + 0, wide, part, shown


@pytest.mark.parametrize("mode", [*MODES, "eager", "lazy"])
def test_out_of_another_size_keeps_its_memory(mode):
    """PyTorch's values: a smaller result lies in front, what shows the rest still does."""
    device = "lazy" if mode == "lazy" else "cpu"
    x = weft.arange(12.0, device=device).view(3, 4)
    view, wide, part, shown = MODES.get(mode, lambda f: f)(resized)(x)
    expected = np.log(np.exp(np.arange(12.0).reshape(3, 4)).sum(1)) + 1
    np.testing.assert_allclose(view.numpy(), np.array([expected, [0, 0, 0]]), rtol=1e-6)
    assert wide.tolist() == (2 * np.arange(12.0).reshape(3, 4).T).tolist()
    assert part.tolist()[:5] == [12, 15, 18, 21, 0] and shown.tolist() == [12, 15, 18, 21]


def test_a_compiled_function_gives_an_argument_another_size():
    for run in (weft.sum, weft.compile(lambda x, dim, out: weft.sum(x, dim, out=out))):
        out = weft.zeros(2)
        found = run(weft.ones(2, 3), 0, out=out)
        assert found is out and out.tolist() == [2.0, 2.0, 2.0]
