"""Backward calls over wrappers under compiled autograd: eager's classes and values, one capture for every size, and no
code of the classes at capture."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import numpy as np
import pytest
from wrappers import Scaled, Two, calls, drawn

import weft
from weft import compiled_autograd as ca
from weft.autograd import grad

Rng = np.random.Generator
Case = Callable[[Rng, int], tuple[list[Any], Callable[[], weft.Tensor]]]


def pair(rng: Rng, n: int, wants: bool = True) -> Two:
    return Two(*drawn(rng, n, 3)).requires_grad_(wants)


def plain(rng: Rng, *shape: int) -> weft.Tensor:
    return weft.from_numpy(rng.standard_normal(shape)).requires_grad_()


def wrapped_leaf(rng: Rng, n: int) -> Any:
    x = pair(rng, n)
    return [x], lambda: (x * x + x.sin()).sum()


def plain_leaf(rng: Rng, n: int) -> Any:
    """A plain parameter whose gradient is a wrapper."""
    x, w = pair(rng, n, False), plain(rng, n, 3)
    return [w], lambda: (x * w).tanh().sum()


def mixed(rng: Rng, n: int) -> Any:
    x, w, v = pair(rng, n), plain(rng, n, 3), plain(rng, n, 3)
    return [x, w, v], lambda: (x * w + (v * v)).sum()


def nested(rng: Rng, n: int) -> Any:
    x = Two(pair(rng, n, False), pair(rng, n, False)).requires_grad_()
    w = plain(rng, n, 3)
    return [x, w], lambda: (x * x * w).sum()


def other_dtype(rng: Rng, n: int) -> Any:
    """The class computes with other types than it shows."""
    q = weft.from_numpy(rng.integers(-9, 9, (4, 3)).astype(np.int8))
    x, w = weft.from_numpy(rng.standard_normal((n, 3)).astype(np.float32)).requires_grad_(), Scaled(q, 0.25)
    return [x], lambda: (x @ w.t()).square().sum()


class Padded(weft.Tensor):
    """A row that is kept with a zero before it: its inner tensor has another shape than it shows."""

    inner: weft.Tensor

    @staticmethod
    def __new__(cls: Any, inner: weft.Tensor, requires_grad: bool = False) -> Any:
        out = weft.Tensor._make_wrapper_subclass(
            cls, (inner.shape[0] - 1,), dtype=inner.dtype, requires_grad=requires_grad
        )
        out.inner = inner
        return out

    def __tensor_flatten__(self) -> Any:
        return ["inner"], None

    @staticmethod
    def __tensor_unflatten__(inner: Any, context: Any, size: Any, stride: Any) -> Any:
        return Padded(inner["inner"])

    @classmethod
    def __weft_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        calls.append(str(func))
        given = [a.inner[1:] if isinstance(a, Padded) else a for a in args]
        out = func(*given, **(kwargs or {}))
        is_row = isinstance(out, weft.Tensor) and out.ndim == 1
        return Padded(weft.cat([out.new_zeros(1), out])) if is_row else out


def other_shape(rng: Rng, n: int) -> Any:
    x = Padded(weft.cat([weft.zeros(1, dtype=weft.float64), plain(rng, n).detach()])).requires_grad_()
    w = plain(rng, n)
    return [x, w], lambda: (x * x * w).sum()


CASES = [wrapped_leaf, plain_leaf, mixed, nested, other_dtype, other_shape]


def parts(value: Any) -> Any:
    """Class and values, inside out."""
    if isinstance(value, Two):
        return [type(value).__name__, parts(value.a), parts(value.b)]
    if isinstance(value, Padded):
        return [type(value).__name__, parts(value.inner)]
    return None if value is None else [type(value).__name__, value.detach().numpy()]


def same(got: Any, want: Any) -> None:
    if isinstance(got, list):
        assert len(got) == len(want)
        for a, b in zip(got, want, strict=True):
            same(a, b)
    elif isinstance(got, np.ndarray):
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)
    else:
        assert got == want


def backward(case: Case, seed: int, n: int, times: int) -> list[Any]:
    leaves, function = case(np.random.default_rng(seed), n)
    for _ in range(times):
        function().backward()
    return [parts(leaf.grad) for leaf in leaves]


@pytest.mark.parametrize("compiler", [ca.native, ca.interpret], ids=["native", "interpret"])
@pytest.mark.parametrize("case", CASES, ids=lambda f: f.__name__)
def test_t_ca_8_gradients_have_the_classes_and_values_of_eager_mode(rng, case, compiler):
    ca.reset()
    before = weft.counters.captures
    for n in (2, int(rng.integers(3, 20)), 1):
        seed, times = int(rng.integers(1 << 30)), int(rng.integers(1, 3))
        want = backward(case, seed, n, times)
        with ca.enable(compiler):
            same(backward(case, seed, n, times), want)
    assert weft.counters.captures == before + 1


@pytest.mark.parametrize("case", [wrapped_leaf, plain_leaf, mixed, nested], ids=lambda f: f.__name__)
def test_second_gradients_agree_too(rng, case):
    def second(seed: int) -> list[Any]:
        leaves, function = case(np.random.default_rng(seed), 3)
        first = grad(function(), leaves, create_graph=True, allow_unused=True)
        squares = [(g * g).sum() for g in first if g is not None and g.requires_grad]
        total = squares[0] if len(squares) == 1 else squares[0] + sum(squares[1:])
        return [parts(g) for g in (*first, *grad(total, leaves, allow_unused=True))]

    seed = int(rng.integers(1 << 30))
    want = second(seed)
    with ca.enable():
        same(second(seed), want)


def test_a_compiled_forward_has_one_construction_for_each_wrapper(rng):
    compiled = weft.compile(lambda x: x * x + 1)
    nested_compiled = weft.compile(lambda x, w: (x * x * w).sum())
    graphs: list[Any] = []
    before = 0

    def note(graph: Any) -> Any:
        assert len(calls) == before  # nothing of the class has run
        graphs.append(graph)
        return ca.native(graph)

    ca.reset()
    for n in (2, int(rng.integers(3, 30))):
        x = pair(rng, n)
        y, seed = compiled(x), Two(*drawn(rng, n, 3))
        before = len(calls)
        with ca.enable(note):
            y.backward(seed)
        assert type(x.grad) is Two
        for name in ("a", "b"):
            want = 2 * getattr(x, name).detach().numpy() * getattr(seed, name).numpy()
            np.testing.assert_allclose(getattr(x.grad, name).numpy(), want)
    (graph,) = graphs
    made = [node for node in graph.graph.nodes if node.op.base == "make_subclass"]
    assert len(made) == 1 and len(made[0].args[1]) == 2
    assert [node.op.base for node in graph.graph.nodes].count("inner_tensors") == 1

    x, w = Two(pair(rng, 2, False), pair(rng, 2, False)).requires_grad_(), plain(rng, 2, 3)
    want = grad((x * x * w).sum(), [x, w], grad_outputs=None)
    with ca.enable():
        same([parts(g) for g in grad(nested_compiled(x, w), [x, w])], [parts(g) for g in want])
    names = [node.op.base for node in ca.last_graph().graph.nodes]
    assert names.count("make_subclass") >= 3  # inside out: two pairs, and the pair of them


def test_a_plain_parameter_of_a_compiled_forward_gets_a_wrapper(rng):
    """Every part of such a forward's backward is copied: no call of a whole backward is left. Second gradients of
    wrappers are those of eager mode; one of the plain tensor would be of inner tensors alone, and is refused."""
    w = plain(rng, 2, 3)
    held = pair(rng, 2, False)
    for f in (lambda x, w: (x * w).sin(), lambda x, w: (held * w).exp() * x):
        compiled = weft.compile(f)
        for _ in range(2):
            x = pair(rng, 2)

            def orders(f: Any, x: Any = x) -> list[Any]:
                first = grad((f(x, w) * f(x, w * 2)).sum(), [x, w], create_graph=True)
                return [parts(g) for g in (*first, *grad(sum((g * g).sum() for g in first), x))]

            want = orders(f)
            for is_captured in (False, True):
                with ca.enable() if is_captured else nullcontext():
                    found = orders(compiled)
                    same(found, want)
                    first = grad(compiled(x, w).sum(), [x, w], create_graph=True)
                    with pytest.raises(RuntimeError, match="compile the whole step"):
                        grad(sum((g * g).sum() for g in first), [x, w])
            with ca.enable():
                compiled(x, w).sum().backward()
            names = [node.op.base for node in ca.last_graph().graph.nodes]
            assert "call_backward" not in names and names.count("make_subclass") >= 2
            assert type(w.grad) is Two
            w.grad = None
