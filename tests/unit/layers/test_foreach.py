"""`_foreach_` names: each tensor of a list computed as by itself. And PyTorch's private checks."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import weft

RNG = np.random.Generator


def lists(rng: RNG) -> tuple[list[Any], ...]:
    return tuple([weft.from_numpy(rng.normal(size=s)) for s in ((3,), (2, 2), ())] for _ in range(3))


def same(results: Any, expected: Any) -> None:
    assert len(results) == len(expected)
    for result, right in zip(results, expected, strict=True):
        assert weft.equal(result, right)


@pytest.mark.parametrize("name", ["add", "sub", "mul", "div", "maximum", "minimum", "clamp_min", "clamp_max"])
def test_two_operands(rng: RNG, name: str) -> None:
    a, b, _ = lists(rng)
    one, function = getattr(weft, name), getattr(weft, f"_foreach_{name}")
    same(function(a, b), [one(x, y) for x, y in zip(a, b, strict=True)])
    same(function(a, 0.5), [one(x, 0.5) for x in a])
    same(function(a, [0.5, 2.0, 3.0]), [one(x, n) for x, n in zip(a, (0.5, 2.0, 3.0), strict=True)])
    copies = [x.clone() for x in a]
    results = getattr(weft, f"_foreach_{name}_")(copies, b)
    assert all(x is y for x, y in zip(results, copies, strict=True))
    same(copies, function(a, b))


@pytest.mark.parametrize("name", ["sqrt", "abs", "exp", "neg", "reciprocal", "sign", "log1p", "max"])
def test_one_operand(rng: RNG, name: str) -> None:
    a = [x.abs() + 0.5 for x in lists(rng)[0]]
    same(getattr(weft, f"_foreach_{name}")(a), [getattr(weft, name)(x) for x in a])
    if name != "max":
        copies = [x.clone() for x in a]
        getattr(weft, f"_foreach_{name}_")(copies)
        same(copies, [getattr(weft, name)(x) for x in a])


def test_three_operands_and_the_others(rng: RNG) -> None:
    a, b, c = lists(rng)
    c = [x.abs() + 1 for x in c]
    triples = list(zip(a, b, c, strict=True))
    same(weft._foreach_add(a, b, alpha=2), [x + 2 * y for x, y, _ in triples])
    same(weft._foreach_addcdiv(a, b, c), [x + y / z for x, y, z in triples])
    same(weft._foreach_addcmul(a, b, c, value=0.3), [weft.addcmul(*t, value=0.3) for t in triples])
    for numbers in ([0.3, 1.0, 2.0], weft.tensor([0.3, 1.0, 2.0], dtype=weft.float64)):
        expected = [weft.addcmul(*t, value=n) for t, n in zip(triples, (0.3, 1.0, 2.0), strict=True)]
        same(weft._foreach_addcmul(a, b, c, numbers), expected)
    same(weft._foreach_lerp(a, b, 0.2), [weft.lerp(x, y, 0.2) for x, y, _ in triples])
    same(weft._foreach_lerp(a, b, weight=0.2), [weft.lerp(x, y, 0.2) for x, y, _ in triples])
    same(weft._foreach_lerp(a, b, c), [weft.lerp(*t) for t in triples])
    same(weft._foreach_norm(a, 1), [weft.linalg.vector_norm(x, 1) for x in a])
    same(weft._foreach_pow(2.0, a), [2.0**x for x in a])
    same(weft._foreach_pow(c, 3), [x**3 for x in c])
    copies = [x.clone() for x in a]
    weft._foreach_addcdiv_(copies, b, c, value=0.5)
    same(copies, [weft.addcdiv(*t, value=0.5) for t in triples])
    weft._foreach_copy_(copies, b)
    same(copies, b)
    weft._foreach_zero_(copies)
    same(copies, [weft.zeros_like(x) for x in a])
    for bad in (lambda: weft._foreach_add([], 1), lambda: weft._foreach_add(a, b[:2])):
        with pytest.raises(weft.WeftError, match="Tensor list"):
            bad()
    with pytest.raises(AttributeError):
        _ = weft._foreach_sort


def test_a_compiled_average_follows_its_source(rng: RNG) -> None:
    averages, sources, _ = lists(rng)

    @weft.compile
    def follow(weight: float) -> None:
        weft._foreach_lerp_(averages, sources, weight)

    for weight in (0.1, 0.5, 0.25, 0.1):
        expected = [weft.lerp(x, y, weight) for x, y in zip(averages, sources, strict=True)]
        follow(weight)
        for average, right in zip(averages, expected, strict=True):
            np.testing.assert_allclose(average.numpy(), right.numpy(), rtol=1e-12)


def test_checks_raise_the_error_of_their_name() -> None:
    for name, kind in (
        ("_check", RuntimeError), ("_check_index", IndexError), ("_check_value", ValueError),
        ("_check_type", TypeError), ("_check_not_implemented", NotImplementedError),
    ):
        check = getattr(weft, name)
        check(True, lambda: "never")
        for message, text in ((lambda: "the reason", "the reason"), (None, "Expected cond")):
            with pytest.raises(kind, match=text) as caught:
                check(False, message)
            assert isinstance(caught.value, weft.WeftError)
    weft._check_is_size(3, max=3)
    weft._check_tensor_all(weft.tensor([True, True]))
    weft._assert(weft.tensor(True), "never")
    weft._assert_async(weft.tensor(1))
    for call, kind in (
        (lambda: weft._check_is_size(-1), RuntimeError), (lambda: weft._check_is_size(4, max=3), RuntimeError),
        (lambda: weft._check_tensor_all(weft.tensor([True, False])), RuntimeError),
        (lambda: weft._assert(False, "no"), AssertionError), (lambda: weft._assert_async(weft.tensor(0)), RuntimeError),
        (lambda: weft._check_with(ValueError, False, lambda: "v"), ValueError),
        (lambda: weft._check(weft.tensor(True)), TypeError), (lambda: weft._check(False, "text"), TypeError),
    ):
        with pytest.raises(kind):
            call()
