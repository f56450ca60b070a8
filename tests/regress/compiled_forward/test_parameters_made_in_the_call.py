"""A tensor that a compiled function makes keeps its class when it comes back: Parameters, and classes that take no
calls over, were plain Tensors; and as leaves they keep what gradient they have, and get what a later backward gives
them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import weft
from weft.errors import StateError
from weft.nn import Parameter
from weft.ops.overrides import disabled_weft_function

Make = Callable[[Any], Any]


class Kept(weft.Tensor):
    pass


class Quiet(weft.Tensor):
    __weft_function__ = disabled_weft_function


class Special(Parameter):
    pass


def _leaf_of(kind: type) -> Make:
    if issubclass(kind, Parameter):
        return lambda t: kind(t)
    return lambda t: t.detach().as_subclass(kind).requires_grad_()


KINDS = [weft.Tensor, Kept, Quiet, Parameter, Special]
# of a leaf's making, an argument, a parameter among the arguments, and one of Python's state
PROGRAMS: dict[str, Callable[[Make, Any, Any, Any], Any]] = {
    "computed": lambda make, x, p, w: (make(p * x),),
    "over an argument": lambda make, x, p, w: (make(x),),
    "over a parameter": lambda make, x, p, w: (make(p),),
    "over state": lambda make, x, p, w: (make(w),),
    "over a part": lambda make, x, p, w: (make(p[1:]),),
    "twice": lambda make, x, p, w: _twice(make(p * 2)),
    "with what it gives": lambda make, x, p, w: _and_its_square(make(p)),
    "and a product of its own": lambda make, x, p, w: _and_its_square(make(p * x)),
    "after backward": lambda make, x, p, w: _after_backward(make(p)),
    "after backward, computed": lambda make, x, p, w: _after_backward(make(x * 3)),
}


def _twice(q: Any) -> Any:
    return q, [q], q.detach()


def _and_its_square(q: Any) -> Any:
    return q, (q * q).sum()


def _after_backward(q: Any) -> Any:
    (q * q * q).sum().backward()
    return (q,)


def _seen(tensor: Any) -> Any:
    gradient = tensor.grad if tensor.is_leaf else None
    values = None if gradient is None else gradient.tolist()
    return type(tensor), tensor.requires_grad, tensor.is_leaf, tensor.tolist(), values


def _calls(compiled: bool, program: Any, kind: type, draw: Callable[[], Any]) -> list[Any]:
    make, w = _leaf_of(kind), weft.tensor(draw()).requires_grad_()

    def function(x: Any, p: Any) -> Any:
        return program(make, x, p, w)

    call = weft.compile(function) if compiled else function
    notes: list[Any] = []
    for _ in range(3):
        x, p = weft.tensor(draw()), Parameter(weft.tensor(draw()))
        results = call(x, p)
        flat = [r for part in results for r in (part if isinstance(part, list) else [part])]
        sum(r.sum() for r in flat if r.requires_grad).backward()
        notes.append([_seen(t) for t in (*flat, x, p, w)] + [results[0] is flat[1 % len(flat)]])
        with weft.no_grad():
            results[0].mul_(2)
        notes.append([_seen(t) for t in (*flat, x, p, w)])
    return notes


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("program", PROGRAMS)
def test_results_have_the_class_that_eager_mode_gives(program: str, kind: type, rng: np.random.Generator) -> None:
    n, seed = int(rng.integers(2, 6)), int(rng.integers(1 << 30))

    def drawing() -> Callable[[], Any]:
        values = np.random.default_rng(seed)
        return lambda: values.integers(-4, 5, n).astype(np.float64)

    expected, actual = (_calls(compiled, PROGRAMS[program], kind, drawing()) for compiled in (False, True))
    assert actual == expected


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_each_call_makes_its_own_in_one_program(kind: type, rng: np.random.Generator) -> None:
    layer, make = weft.nn.Linear(2, 3), _leaf_of(kind)
    compiled = weft.compile(lambda: make(layer.weight))
    first = compiled()
    before = weft.counters.captures
    second = compiled()
    assert weft.counters.captures == before and first is not second
    second.sum().backward()
    assert first.grad is None and layer.weight.grad is None
    assert first.data_ptr() == second.data_ptr() == layer.weight.data_ptr()
    with weft.no_grad():
        layer.weight.fill_(float(rng.integers(2, 9)))
    assert compiled().tolist() == layer.weight.tolist()


def test_parameters_of_a_layer_made_in_the_call() -> None:
    compiled = weft.compile(lambda: dict(weft.nn.Linear(3, 2).named_parameters()))
    weft.manual_seed(3)
    expected = dict(weft.nn.Linear(3, 2).named_parameters())
    for _ in range(2):
        weft.manual_seed(3)
        actual = compiled()
        assert {name: type(p) for name, p in actual.items()} == {"weight": Parameter, "bias": Parameter}
        assert {name: p.tolist() for name, p in actual.items()} == {name: p.tolist() for name, p in expected.items()}


def test_an_argument_is_of_its_class_within() -> None:
    compiled = weft.compile(lambda x: (type(x).__name__, x * 2))
    plain = weft.ones(3)
    for tensor in (plain, plain.as_subclass(Quiet), plain.as_subclass(Kept), Parameter(plain), plain):
        name, double = compiled(tensor)
        assert name == type(tensor).__name__
        assert type(double) is type(tensor * 2)


def _with_number(x: Any) -> Any:
    out = (x * 2).as_subclass(Kept)
    out.note = x.shape[0]
    return out


def _with_tensor(x: Any) -> Any:
    out = Parameter(x * 2)
    out.note = x * 3
    return out


def _on_the_argument(x: Any) -> Any:
    x.note = x.shape[0] + 1
    return x * 2


@pytest.mark.parametrize("function", [_with_number, _with_tensor, _on_the_argument])
def test_attributes_are_of_the_call_that_gives_them(function: Callable[[Any], Any], rng: np.random.Generator) -> None:
    compiled = weft.compile(function)
    for n in rng.integers(2, 6, 3).tolist():
        notes = []
        for call in (function, compiled):
            x = weft.full((n,), 2.0).as_subclass(Kept)
            out = call(x)
            notes.append([
                None if note is None else note.tolist() if isinstance(note, weft.Tensor) else note
                for note in (getattr(t, "note", None) for t in (x, out))
            ])
        assert notes[0] == notes[1]


def test_gradients_are_no_function_of_a_leaf_made_in_the_call() -> None:
    """(They had no second gradient by it, in silence.) Once nobody has the leaf they are."""
    w = weft.ones(3, requires_grad=True)
    compiled = weft.compile(lambda x: _and_its_square(Parameter(x)))
    leaf, square = compiled(w)
    with pytest.raises(StateError, match="makes a leaf"):
        weft.autograd.grad(square, leaf, create_graph=True)
    weft.autograd.grad(square, leaf, retain_graph=True)
    product = weft.compile(lambda x: (Parameter(x) * x * x).sum())(w)
    (gradient,) = weft.autograd.grad(product, w, create_graph=True)
    (second,) = weft.autograd.grad(gradient.sum(), w)
    assert second.tolist() == [2.0] * 3
