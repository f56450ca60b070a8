"""A tensor that shows elements at several places, and is written, has one meaning in every mode: the value is computed
of what was there, and of several elements at one place the last one stays. Outside of eager mode what writes a part of
it is refused, as its value does not say which part; so were writes of all of it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import weft

Mode = Callable[[Callable[[Any], Any], Any], Any]
MODES: dict[str, Mode] = {
    "eager": lambda f, x: f(x),
    "functionalize": lambda f, x: weft.func.functionalize(f)(x),
    "lazy": lambda f, x: f(x.to("lazy")).cpu(),
    "interpret": lambda f, x: weft.compile(f, backend="interpret")(x),
    "native": lambda f, x: weft.compile(f)(x),
    "split": lambda f, x: weft.compile(f, split=True)(x),
}
SHOWN: dict[str, tuple[tuple[int, ...], tuple[int, ...], int]] = {
    "pairs": ((3, 2), (1, 1), 0), "rows": ((2, 4), (2, 1), 1), "cubes": ((2, 2, 2), (2, 2, 1), 2),
    "columns": ((2, 3), (1, 2), 0),
}  # fmt: skip
PARTS: dict[str, Callable[[Any], Any]] = {
    "index_put_": lambda v: v.index_put_((_at(v),), weft.tensor(9.0, device=v.device)),
    "index_fill_": lambda v: v.index_fill_(0, _at(v), 4.0),
    "index_copy_": lambda v: v.index_copy_(0, _at(v), weft.ones(1, *v.shape[1:], device=v.device)),
    "scatter_": lambda v: v.scatter_(0, weft.zeros(1, *v.shape[1:], device=v.device).long(), 8.0),
}


def _at(v: Any) -> Any:
    return weft.tensor([0], device=v.device)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", SHOWN)
def test_the_last_element_at_a_place_stays(name: str, mode: str, rng: np.random.Generator) -> None:
    size, stride, offset = SHOWN[name]
    values = rng.standard_normal(9).astype(np.float32)
    factors = rng.standard_normal(size).astype(np.float32)

    def write(x: Any) -> Any:
        x = x * 1
        shown = x.as_strided(size, stride, offset)
        shown.mul_(weft.tensor(factors, device=x.device))
        shown[1:].add_(1)
        return x + 0

    expected = values.copy()
    for start in (0, 1):
        places = np.array(
            [offset + np.dot(at, stride) for at in np.ndindex(*size) if at[0] >= start], np.int64
        )
        seen = expected[places]
        for place, new in zip(places, seen + 1 if start else seen * factors.reshape(-1), strict=True):
            expected[place] = new
    np.testing.assert_allclose(MODES[mode](write, weft.tensor(values)).numpy(), expected, rtol=1e-6)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", PARTS)
def test_a_part_is_written_or_refused(name: str, mode: str) -> None:
    def write(x: Any) -> Any:
        x = x * 1
        PARTS[name](x.as_strided((3, 2), (1, 1)))
        return x + 0

    x = weft.arange(6.0)
    if mode == "eager":
        (new,) = {float(n) for n in write(x)[:2]}
        assert write(x).tolist() == [new, new, 2, 3, 4, 5]  # and nothing of the rows that show it, too
        return
    with pytest.raises(RuntimeError, match="more than one element of the written-to tensor"):
        MODES[mode](write, x)


@pytest.mark.parametrize("mode", MODES)
def test_parts_of_what_has_each_element_once(mode: str) -> None:
    """Strides that do not nest show no element twice here: it is as with any other view."""

    def write(x: Any) -> Any:
        x = x * 1
        x.as_strided((2, 2), (2, 3)).index_put_((weft.tensor([1], device=x.device),), weft.tensor(9.0, device=x.device))
        x.as_strided((2, 2), (2, 3)).mul_(2)
        return x + 0

    assert MODES[mode](write, weft.arange(6.0)).tolist() == [0, 1, 18, 6, 4, 18]


@pytest.mark.parametrize("mode", MODES)
def test_repeated_elements_are_not_assigned(mode: str) -> None:
    def write(x: Any) -> Any:
        x = x * 1
        x.unsqueeze(1).expand(3, 4)[0] = 6.0
        return x + 0

    with pytest.raises(RuntimeError, match="more than one element of the written-to tensor"):
        MODES[mode](write, weft.arange(3.0))


@pytest.mark.parametrize("mode", [m for m in MODES if m != "functionalize"])
def test_gradients_of_what_is_written_twice_are_pytorchs(mode: str) -> None:
    def loss(x: Any) -> Any:
        y = x * 1
        y.as_strided((3, 2), (1, 1)).mul_(weft.arange(2.0, 8.0, device=x.device).view(3, 2))
        return (y * weft.arange(1.0, 6.0, device=x.device)).sum()

    x = weft.arange(1.0, 6.0).requires_grad_()
    MODES[mode](loss, x).backward()
    assert x.grad.tolist() == [2, 8, 18, 28, 5]
