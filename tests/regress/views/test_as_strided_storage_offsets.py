"""as_strided speaks of bytes: copies below it count, and in-place view operators lead older views through it,
eagerly and captured."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import weft


@pytest.mark.parametrize("wrap", [lambda f: f, weft.compile], ids=["eager", "captured"])
def test_a_copy_below_as_strided_is_kept(wrap: Any) -> None:
    x = weft.arange(6.0).view(3, 2)
    assert wrap(lambda t: t.t().contiguous().as_strided((4,), (1,), 1) * 1.0)(x).tolist() == [2.0, 4.0, 1.0, 3.0]


@pytest.mark.parametrize("offset", [None, 1])
def test_an_argument_that_shows_a_part_of_its_memory(offset: int | None) -> None:
    base = weft.arange(12.0)
    for show in (
        (lambda b: b, lambda b: b[::2], lambda b: b.view(3, 4).t(), lambda b: b[3:], lambda b: b.view(3, 4)[:, 1:3])
    ):
        shown = show(base)
        start = shown.storage_offset() if offset is None else offset
        captured = weft.compile(lambda x: x.as_strided((2,), (1,), offset) + 1)
        for _ in range(2):
            assert captured(shown).tolist() == [start + 1.0, start + 2.0]


@pytest.mark.parametrize("wrap", [lambda f: f, weft.compile], ids=["eager", "captured"])
@pytest.mark.parametrize("arguments", [((5,), (1,)), ((2, 2), (3, 1)), ((2,), (1,), 3)])
def test_reaching_outside_of_the_storage_is_refused(wrap: Any, arguments: Any) -> None:
    shown = wrap(lambda x: x.as_strided(*arguments) + 0)
    assert shown(weft.zeros(9)).numel() == np.prod(arguments[0])
    with pytest.raises(RuntimeError, match=r"as_strided: .* reach outside of a storage of"):
        shown(weft.zeros(4))
    assert wrap(lambda x: x.as_strided((0, 5), (1, 1)) + 0)(weft.zeros(2)).shape == (0, 5)


@pytest.mark.parametrize("wrap", [lambda f: f, weft.compile], ids=["eager", "captured"])
def test_an_older_view_is_written_after_transpose_(wrap: Any, rng: np.random.Generator) -> None:
    w = weft.from_numpy(rng.standard_normal((2, 3))).requires_grad_()
    weight = rng.standard_normal((3, 2))

    def step(x: weft.Tensor, scale: weft.Tensor) -> Any:
        b = w * x
        z = b.view(6)
        b.transpose_(0, 1)
        z[1:3].mul_(3.0)
        (b * scale).sum().backward()
        out = w.grad
        w.grad = None
        return out, b.detach()

    x = weft.from_numpy(rng.standard_normal((2, 3)))
    gradient, b = wrap(step)(x, weft.from_numpy(weight))
    factors = np.array([[1.0, 3, 3], [1, 1, 1]])
    np.testing.assert_allclose(b.numpy(), (w.detach().numpy() * x.numpy() * factors).T)
    np.testing.assert_allclose(gradient.numpy(), weight.T * factors * x.numpy())


OF_STORAGE = {
    "a detached view of a view": (lambda x: x[1:].detach()[1:].as_strided((2,), (1,)), [2.0, 3.0]),
    "an offset before the detached view": (lambda x: x[2:].detach()[1:].as_strided((2,), (1,), 1), [1.0, 2.0]),
    "detached twice": (lambda x: x[1:].detach()[1:].detach()[1:].as_strided((2,), (2,)), [3.0, 5.0]),
    "the value of .data": (lambda x: x[2:].data[1:].as_strided((2,), (1,)), [3.0, 4.0]),
    "of a product": (lambda x: (x * 2)[1:].detach()[1:].as_strided((2,), (1,), 0), [0.0, 2.0]),
    "the offset itself": (lambda x: x[1:].detach()[1:2] * 0 + x[1:].detach()[1:].storage_offset(), [2.0]),
}


@pytest.mark.parametrize("name", OF_STORAGE)
def test_offsets_count_from_the_storage(name: str) -> None:
    function, expected = OF_STORAGE[name]
    whole = weft.arange(8.0)
    wraps: list[Any] = [lambda f: f, weft.compile, lambda f: weft.compile(lambda: f(whole))]
    if name != "the value of .data":
        wraps += [weft.func.functionalize, lambda f: weft.compile(weft.func.functionalize(f))]
    for at, wrap in enumerate(wraps):
        found = wrap(function)() if at == 2 else wrap(function)(whole)
        assert found.tolist() == expected, at


@pytest.mark.parametrize("wrap", [lambda f: f, weft.compile], ids=["eager", "captured"])
def test_an_argument_that_lies_within_its_storage(wrap: Any) -> None:
    """What it says of its place, and what is written through a detached view of it."""
    shown = weft.arange(12.0)[3:]
    for _ in range(2):
        assert (
            wrap(lambda x: x[1:].detach()[1:].as_strided((2,), (1,), 3) * x.storage_offset())(shown).tolist()
            == [9.0, 12.0]
        )

    def write(x: Any) -> Any:
        b = x * 2
        b[1:].detach()[1:].as_strided((2,), (1,)).add_(10)
        return b

    assert wrap(write)(weft.arange(5.0)).tolist() == [0.0, 2.0, 14.0, 16.0, 8.0]
