"""Numbers made of sizes that only the run knows, over calls that find others: exact, or Python's error."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import weft
from weft import Tensor
from weft.support import pytree
from weft.support.errors import IndexBoundsError, UnknownSize, WeftError

MASKS = ([1, 1, 0, 0, 1], [0, 1, 0, 0, 0], [1, 1, 1, 1, 1], [1, 0, 0, 1, 0])
OPTIONS: list[dict[str, Any]] = [{}, {"backend": "interpret"}, {"split": True}]


def count(m: Tensor) -> Any:
    return weft.nonzero(m).shape[0]


def agrees(function: Callable[..., Any], masks: Any = MASKS, **options: Any) -> None:
    compiled = weft.compile(function, **options)
    x = weft.tensor([3.0, -1.0, 2.0, 5.0, 0.5])
    for mask in masks:
        m = weft.tensor(mask, dtype=weft.bool)
        try:
            expected: Any = function(x, m)
        except (ArithmeticError, ValueError, IndexError, WeftError) as error:
            with pytest.raises(type(error) if not isinstance(error, WeftError) else WeftError):
                compiled(x, m)
            continue
        found = compiled(x, m)
        for a, b in zip(pytree.flatten(found)[0], pytree.flatten(expected)[0], strict=True):
            np.testing.assert_allclose(np.array(a), np.array(b), 1e-6)


@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize(
    "number",
    [
        lambda n: n * 0.5,
        lambda n: n / 2,
        lambda n: 9.0 // n,
        lambda n: 7.5 % n,
        lambda n: n // 2.5,
        lambda n: n % 2.5,
        lambda n: divmod(n, 0.7)[1],
        lambda n: 2.0**n,
        lambda n: n**0.5,
        lambda n: n**-1,
        lambda n: 1 / (n - 1),
        lambda n: math.sqrt(n),
        lambda n: math.log(n - 1),
        lambda n: math.log(n + 1, 3),
        lambda n: math.atan2(n, 2),
        lambda n: round(n * 0.4),
        lambda n: round(n * 0.37, 1),
        lambda n: math.floor(n / 2),
        lambda n: math.ceil(n / 2),
        lambda n: int(n * 0.6),
        lambda n: float(n) / 3,
        lambda n: max(n, 2),
        lambda n: min(n * 0.5, 1.2),
        lambda n: -n,
        lambda n: abs(n - 3),
        lambda n: abs(n * 0.5 - 2),
        lambda n: 3 // (n - 1),
        lambda n: 3 % (n - 1),
        lambda n: (n * 0.5).real,
        lambda n: sum([n, 0.5]),
    ],
)
def test_every_number_of_a_found_size(number: Callable[[Any], Any], options: dict[str, Any]) -> None:
    agrees(
        lambda x, m: (x * number(count(m)), weft.full((2,), number(count(m))), x.clamp(max=number(count(m)))), **options
    )


@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize(
    "use",
    [
        lambda x, n: weft.zeros(n),
        lambda x, n: weft.ones(n, 2) * n,
        lambda x, n: weft.arange(n),
        lambda x, n: x[:n],
        lambda x, n: x[n - 1 :],
        lambda x, n: x[-n:],
        lambda x, n: x[: n - 3],
        lambda x, n: x[n - 3],
        lambda x, n: x[-n],
        lambda x, n: weft.add(x, x, alpha=n),
        lambda x, n: weft.lerp(x, -x, n / 5),
        lambda x, n: x.masked_fill(x > 0, n / 2),
        lambda x, n: weft.nn.functional.pad(x, (n, 1)),
        lambda x, n: x.repeat(n),
        lambda x, n: x.expand(n, 5),
        lambda x, n: weft.tensor(n * 0.5),
        lambda x, n: (n, n * 0.5),
        lambda x, n: weft.eye(n),
        lambda x, n: weft.full_like(x, n),
        lambda x, n: weft.zeros(round(n * 0.6), 2),
        lambda x, n: x[: int(n * 0.5)],
        lambda x, n: weft.zeros(round(2.0 - n)),
    ],
)
def test_every_use_of_a_found_size(use: Callable[..., Any], options: dict[str, Any]) -> None:
    agrees(lambda x, m: use(x, count(m)), **options)


@pytest.mark.parametrize("options", OPTIONS)
def test_an_index_into_a_found_size_is_checked_by_the_run(options: dict[str, Any]) -> None:
    for function in (
        lambda x, m: x[m][0], lambda x, m: x[m][-1] + x, lambda x, m: x[m][2].exp(), lambda x, m: weft.nonzero(m)[0, 0],
    ):  # fmt: skip
        agrees(function, [*MASKS, [0] * 5], **options)

    def sorted_and_written(x: Tensor, m: Tensor) -> Tensor:
        values, _ = x[m].sort()
        values[0] = 7.0
        return values * 2

    agrees(sorted_and_written, **options)
    with pytest.raises(IndexBoundsError, match="out of bounds"):
        weft.compile(sorted_and_written, **options)(weft.ones(2), weft.tensor([False, False]))


def test_a_power_that_overflows_is_pythons_error() -> None:
    agrees(lambda x, m: x.double() * 2.0 ** (count(m) * 500.0))


def test_functions_called_by_the_function_take_such_numbers_too() -> None:
    def scaled(n: Any) -> Any:
        return max(2, int(math.sqrt(n) * 3)) * float(n)

    agrees(lambda x, m: x * scaled(count(m)))


def test_a_question_without_an_answer_names_the_line_and_what_to_do() -> None:
    compiled = weft.compile(lambda x, m: x if count(m) > 3 else -x)
    with pytest.raises(UnknownSize, match=r"test_arithmetic_on_unbacked_sizes.py:\d+: .*use weft.cond"):
        compiled(weft.ones(3), weft.tensor([True, False, True]))


@pytest.mark.parametrize(
    "number", [lambda n: 9.0 // n, lambda n: 7.5 % n, lambda n: 2.0**n, lambda n: divmod(7.5, n)[0], lambda n: n % 1.5,
               lambda n: n // 0.1, lambda n: 3 // n, lambda n: 2 ** n]
)  # fmt: skip
@pytest.mark.parametrize("options", OPTIONS)
def test_floats_with_sizes_of_arguments(number: Callable[[Any], Any], options: dict[str, Any]) -> None:
    compiled = weft.compile(lambda x: x * number(x.shape[0]), **options)
    for n in (5, 5, 3, 8):
        x = weft.linspace(-1, 1, n)
        np.testing.assert_allclose(compiled(x).numpy(), (x * number(n)).numpy(), 1e-6)
    if _raises(number):
        with pytest.raises(ZeroDivisionError):
            compiled(weft.ones(0))


def _raises(number: Callable[[Any], Any]) -> bool:
    try:
        number(0)
    except ZeroDivisionError:
        return True
    return False


@pytest.mark.parametrize("known", [(), (0,), (1,)])
def test_sizes_of_lazy_tensors_of_which_some_are_known(known: tuple[int, ...]) -> None:
    x = weft.arange(6).to("lazy")
    for compute in (
        lambda a, b: a % b, lambda a, b: a // b, lambda a, b: a + b, lambda a, b: b - a, lambda a, b: a * b,
        lambda a, b: divmod(a, b)[1], lambda a, b: a % a + b // b, lambda a, b: a / b, lambda a, b: 7.5 % b,
    ):  # fmt: skip
        sizes = [x[x < n].shape[0] for n in (4, 3)]
        for i in known:
            int(sizes[i])
        assert compute(*sizes) == compute(4, 3)
