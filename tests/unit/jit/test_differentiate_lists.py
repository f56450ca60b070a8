"""differentiate of programs that make, read and write lists and dicts of tensors."""

from __future__ import annotations

import numpy as np
import pytest

import weft
import weft.jit
from weft import Tensor
from weft.support.errors import StateError

X = np.array([0.5, 1.5, -0.7, 0.2])


def stacked(x: Tensor, n: int):
    xs: list[Tensor] = []
    for i in range(n):
        xs.append(x * i + x * x)
    return weft.stack(xs)


def states(x: Tensor, n: int):
    h = x
    hs: list[Tensor] = []
    for _ in range(n):
        h = (h * x + 0.1).sin()
        hs.append(h)
    return weft.cat(hs, 0) * weft.stack(hs).sum()


def carried(x: Tensor, n: int):
    a = [x, x * 2]
    for _ in range(n):
        a = [a[1], a[0] * a[1] + x]
    return a[0] + a[1]


def written(x: Tensor, n: int):
    a = [x, x * 2]
    for _ in range(n):
        a[0] = a[1] * x + a[0].sin()
        a[1] = a[0] + 1
    return a[0] * a[1]


def read_back(x: Tensor, n: int):
    a = [x]
    for i in range(n):
        a.append(a[-1] * x + a[i // 2])
    return a[-1] + a[0]


def in_branches(x: Tensor, n: int):
    a: list[Tensor] = []
    if float(x.sum()) > 0:
        a.append(x * 2)
    else:
        a.append(x * x)
        a.append(x.sin())
    return weft.stack(a).sum(0) * len(a)


def in_a_branch_in_a_loop(x: Tensor, n: int):
    a: list[Tensor] = []
    for i in range(n):
        if i % 2 == 0:
            a.append(x * i)
        elif i % 3 == 0:
            a.append(x.cos())
    return weft.stack(a).prod(0)


def popped(x: Tensor, n: int):
    a = [x, x * 2, x * x]
    t = x * 0
    while len(a) > 0:
        t = t * 0.5 + a.pop()
    return t


def of_a_dict(x: Tensor, n: int):
    d = {"a": x, "b": x * 2, "c": x}
    for i in range(n):
        d["a"] = d["a"] * d["b"] + i
        d["c"] = d["a"].sin()
    return d["a"] + d["c"]


def of_ints(x: Tensor, n: int):
    ks: list[int] = []
    for i in range(n):
        ks.append(i * 2)
    t = x
    for k in ks:
        t = t * x + k
    return t


def comprehended(x: Tensor, n: int):
    ys = [x * i for i in range(n)]
    return weft.stack([y.sin() * y for y in ys]).sum(0)


def given(xs: list[Tensor], n: int):
    t = xs[0]
    for x in xs:
        t = t * x + 1
    return t


def nested(x: Tensor, n: int):
    rows: list[list[Tensor]] = []
    for i in range(n):
        row: list[Tensor] = []
        for j in range(i + 1):
            row.append(x * j + i)
        rows.append(row)
    t = x * 0
    for r in rows:
        t = t + weft.stack(r).sum(0).sin()
    return t


def unbound(x: Tensor, n: int):
    t = x[0]
    for r in x.unbind(0):
        t = t * r + 1
    return t


def of_pieces(x: Tensor, n: int):
    out: list[Tensor] = []
    for c in x.chunk(2):
        out.append(c.sin() * c)
    return weft.cat(out)


def stopped(x: Tensor, n: int):
    a: list[Tensor] = []
    for i in range(n + 5):
        a.append(x * i)
        if i >= n:
            break
    a[0] = a[0] + a[-1]
    return weft.stack(a).sum(0) * a[0]


def between(x: Tensor, n: int):
    a = [x]
    b = (x * 3).sin()
    a.append(b * x)
    c = b.exp()
    for i in range(n):
        print("step", i)
        a.append(a[i] * c)
    return weft.stack(a).sum(0), c, a[1] * b


def drawn(x: Tensor, n: int):
    a: list[Tensor] = []
    for _ in range(n):
        a.append(x * weft.rand(4, dtype=weft.float64))
    return weft.stack(a).sum(0) * x


PROGRAMS = (
    stacked, states, carried, written, read_back, in_branches,
    in_a_branch_in_a_loop, popped, of_a_dict, of_ints, comprehended, given,
    nested, unbound, of_pieces, stopped, between, drawn,
)


def leaf():
    return weft.tensor(X, requires_grad=True)


def applied(gradient, args, seeds):
    """What f gives, and what df gives for seeds of its tensors."""
    f = weft.jit.create_function_from_graph("f", gradient.f)
    df = weft.jit.create_function_from_graph("df", gradient.df)
    outputs = f(*args)
    outputs = outputs if isinstance(outputs, tuple) else (outputs,)
    real = [i for i in gradient.df_input_vjps if i < gradient.f_real_outputs]
    vjps = [seeds(outputs[i]) for i in real] + [None] * (len(gradient.df_input_vjps) - len(real))
    captured = [args[i] for i in gradient.df_input_captured_inputs]
    captured += [outputs[i] for i in gradient.df_input_captured_outputs]
    found = df(*vjps, *captured)
    return outputs[: gradient.f_real_outputs], found if isinstance(found, tuple) else (found,)


def tensors(value):
    return [value] if isinstance(value, Tensor) else [t for v in value for t in tensors(v)] if value is not None else []


def seed(value):
    return [seed(v) for v in value] if isinstance(value, list) else weft.full_like(value, 0.5)


def arguments(program, n):
    return ([leaf(), leaf() * 2] if program is given else leaf()), n


@pytest.mark.parametrize("n", [0, 1, 4])
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda f: f.__name__)
def test_gradients_of_two_orders_are_the_engines(program, n) -> None:
    if n == 0 and program in (stacked, states, in_a_branch_in_a_loop, comprehended, drawn):
        pytest.skip("joins no tensors")
    gradient = weft.jit.differentiate(weft.jit.script(program).graph)
    args = arguments(program, n)
    sources = tensors(args[0])
    weft.manual_seed(5)
    out, found = applied(gradient, args, seed)
    weft.manual_seed(5)
    expected = tensors(program(*args))
    for a, b in zip(tensors(out), expected, strict=True):
        np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=1e-12)
    first = weft.autograd.grad(sum((y * 0.5).sum() for y in expected), sources, create_graph=True, allow_unused=True)
    for a, b in zip(tensors(found), tensors(first), strict=True):
        np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=1e-12)
    orders = [[g for g in tensors(gs) if g.requires_grad] for gs in (found, first)]
    if orders[1]:
        second = [
            weft.autograd.grad(sum((g * g).sum() for g in gs), sources, allow_unused=True) for gs in orders
        ]
        for a, b in zip(*second, strict=True):
            np.testing.assert_allclose(*[np.zeros(4) if t is None else t.numpy() for t in (a, b)], rtol=1e-10)


@pytest.mark.parametrize("program", [states, written, popped, of_a_dict, nested], ids=lambda f: f.__name__)
def test_the_backward_can_be_differentiated_as_a_graph(program) -> None:
    gradient = weft.jit.differentiate(weft.jit.script(program).graph)
    assert str(weft.jit.parse_ir(str(gradient.df))) == str(gradient.df)
    again = weft.jit.differentiate(gradient.df)
    f, df = (weft.jit.create_function_from_graph(n, g) for n, g in (("f", gradient.f), ("df", gradient.df)))
    outputs = [v.detach() if isinstance(v, Tensor) else v for v in f(weft.tensor(X), 3)]
    seeds = [weft.full_like(outputs[0], 1.5), *(None for _ in gradient.df_input_vjps[1:])]
    args = [*seeds, *((leaf(), 3)[i] for i in gradient.df_input_captured_inputs)]
    args += [outputs[i] for i in gradient.df_input_captured_outputs]
    args = [v.requires_grad_() if isinstance(v, Tensor) else v for v in args]
    expected = weft.autograd.grad(df(*args).sum() * 0.5, [v for v in args if isinstance(v, Tensor)], allow_unused=True)
    wanted = dict(zip([i for i, v in enumerate(args) if isinstance(v, Tensor)], expected, strict=True))
    _, found = applied(again, args, seed)
    for i, g in zip(again.df_output_vjps, found, strict=True):
        known = wanted.get(i)
        np.testing.assert_allclose(*[0 * X if v is None else v.detach().numpy() for v in (g, known)], rtol=1e-10)


def test_a_list_has_a_list_of_gradients() -> None:
    @weft.jit.script
    def f(xs: list[Tensor], n: int):
        made: list[Tensor] = []
        for i in range(n):
            made.append(xs[i] * xs[0])
        return made, xs[1] * 2

    gradient = weft.jit.differentiate(f.graph)
    xs = [weft.tensor(X), weft.tensor(X + 1), weft.tensor(X - 1)]
    _, ((first, second, third),) = applied(gradient, (xs, 2), seed)
    np.testing.assert_allclose(first.numpy(), 0.5 * (2 * X + X + 1))
    np.testing.assert_allclose(second.numpy(), 0.5 * X + 1)
    assert third is None


def test_a_compiled_backward_is_native() -> None:
    gradient = weft.jit.differentiate(weft.jit.script(states).graph)

    def both(x, n):
        return applied(gradient, (x, n), weft.ones_like)[1][0]

    compiled = weft.compile(both)
    for n in (3, 5):
        compiled(weft.tensor(X), n)
    weft.counters.reset()
    for n in (4, 9):
        x = leaf()
        expected = weft.autograd.grad(states(x, n).sum(), [x])[0]
        np.testing.assert_allclose(compiled(weft.tensor(X), n).numpy(), expected.numpy(), rtol=1e-12)
    assert (weft.counters.captures, weft.counters.foreign_segments) == (0, 0)


def test_writes_that_others_may_see_are_refused_with_their_line() -> None:
    @weft.jit.script
    def f(xs: list[Tensor], n: int):
        for _ in range(n):
            xs.append(xs[-1] * 2)
        return xs[-1]

    with pytest.raises(StateError, match=r"append may write %xs, which was given to the program \(line \d+\)"):
        weft.jit.differentiate(f.graph)
