"""functionalize: the same values without in-place operators, writes to arguments at the end, and aliases kept."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import weft
from weft.func import functionalize, grad, jvp, vmap
from weft.layers.transforms.level import Level


def point(rng, *shape):
    return weft.from_numpy(rng.uniform(0.5, 1.5, shape))


class Watch(Level):
    """Counts what comes down to it."""

    name = "watch"

    def __init__(self) -> None:
        super().__init__()
        self.written: list[str] = []
        self.views: list[str] = []

    def intercept(self, op: Any, args: Any) -> Any:
        from weft.layers.walk import walk

        if op.view is not None:
            self.views.append(op.base)
        return self.down(walk, op, args)

    def intercept_inplace(self, op: Any, args: Any) -> Any:
        from weft.layers.walk import inplace

        self.written.append(op.base)
        return self.down(inplace, op, args)


def program(x: Any) -> Any:
    y = x.clone()
    row, column = y[0], y[:, 1]
    row.mul_(2)
    column.add_(row.sum())
    y.t()[2].copy_(column)
    y.view(-1)[0] = 7
    return y * column.unsqueeze(1)


@pytest.mark.parametrize("remove", ["mutations", "mutations_and_views"])
def test_the_same_values_without_writes(remove, rng):
    x = point(rng, 3, 3)
    with Watch() as watch:
        found = functionalize(program, remove=remove)(x)
    np.testing.assert_allclose(found.numpy(), program(x).numpy())
    assert watch.written == []
    assert (watch.views == []) is (remove == "mutations_and_views")


def test_arguments_are_written_once_at_the_end(rng):
    def f(x: Any, y: Any) -> Any:
        x.mul_(2)
        x[0] = y[1]
        return x[1:], x + y

    a, b = point(rng, 3), point(rng, 3)
    expected = a.clone()
    wanted = f(expected, b)
    with Watch() as watch:
        tail, total = functionalize(f)(a, b)
    assert watch.written == ["copy"]
    np.testing.assert_allclose(a.numpy(), expected.numpy())
    np.testing.assert_allclose(total.numpy(), wanted[1].numpy())
    tail.zero_()
    np.testing.assert_allclose(a.numpy()[1:], 0)


def test_under_and_over_other_transforms(rng):
    x = point(rng, 3, 3)
    plain = grad(lambda x: program(x).sum())(x)
    np.testing.assert_allclose(grad(functionalize(lambda x: program(x).sum()))(x).numpy(), plain.numpy())
    np.testing.assert_allclose(functionalize(grad(lambda x: program(x).sum()))(x).numpy(), plain.numpy())
    batch = point(rng, 2, 3, 3)
    np.testing.assert_allclose(vmap(functionalize(program))(batch).numpy(), vmap(program)(batch).numpy())
    a, b = jvp(functionalize(program), (x,), (x,)), jvp(program, (x,), (x,))
    np.testing.assert_allclose(a[1].numpy(), b[1].numpy())
    compiled = weft.compile(functionalize(program))
    np.testing.assert_allclose(compiled(x).numpy(), program(x).numpy())


def test_history_reaches_the_arguments(rng):
    x = point(rng, 3, 3).requires_grad_()
    functionalize(program)(x).sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), grad(lambda x: program(x).sum())(x.detach()).numpy())


def test_remove_is_checked():
    with pytest.raises(RuntimeError, match="invalid argument for remove"):
        functionalize(program, remove="views")
