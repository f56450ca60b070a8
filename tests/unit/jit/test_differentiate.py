"""differentiate: f and df as graphs, run by the interpreter, give what the engine gives for the program."""

from __future__ import annotations

import os

import numpy as np
import pytest

import weft
import weft.jit
import weft.nn.functional as F
from tests.jit_programs.orders import arguments
from tests.jit_programs.random_programs import program
from weft import Tensor
from weft.support.errors import StateError

COUNT = 25 * int(os.environ.get("WEFT_AGREE", "1"))
X = np.random.default_rng(3).uniform(0.3, 1.7, (3, 4))


def product(a: Tensor, b: Tensor):
    return a * b * a + b


def twice(a: Tensor, b: Tensor):
    return a.sin() * 2, (a @ b.t()).exp(), a


def broadcast(a: Tensor, b: Tensor):
    return (a + b[0]) * b[:, :1] / (a.sum() + 3)


def chosen(a: Tensor, b: Tensor):
    if a.sum() > b.sum():
        c = a * b
    elif a.sum() > 100:
        c = a
    else:
        c = (a - b).tanh()
    return c * a


def looped(a: Tensor, b: Tensor, n: int):
    c = a
    for i in range(n):
        c = (c * b).tanh() + i
        if i % 2 == 0:
            c = c * a
    return c * c


def stopped(a: Tensor, b: Tensor):
    c = a
    while c.sum() < 50:
        for _ in range(2):
            c = c * 1.3 + b
    return c


def pieces(a: Tensor, b: Tensor):
    c, d = (a * b).chunk(2, 1)
    return c * 3, d * 5


def parts(a: Tensor, b: Tensor):
    pair = (a * 2, [b, a * b])
    return weft.cat(pair[1]) * weft.stack([pair[0], b]).sum(0).mean(), a.softmax(1), F.layer_norm(b, [4])


def called(a: Tensor, b: Tensor):
    return product(a, b).sum(), a.max(1)[0], b.unsqueeze(0).expand(2, 3, 4)


CASES = [
    (product, ()), (twice, ()), (broadcast, ()), (chosen, ()), (looped, (0,)), (looped, (5,)), (stopped, ()),
    (pieces, ()), (parts, ()), (called, ()),
]  # fmt: skip


def inputs():
    return [weft.from_numpy(X.copy()).requires_grad_(), weft.from_numpy(X[::-1] * 0.7).requires_grad_()]


def backward(gradient, f_args, seeds):
    """f's results, and df's for gradients of them, by the lists of positions."""
    f = weft.jit.create_function_from_graph("f", gradient.f)
    df = weft.jit.create_function_from_graph("df", gradient.df)
    outs = f(*f_args)
    outs = outs if isinstance(outs, tuple) else (outs,)
    given = [seeds[i] if i < gradient.f_real_outputs else None for i in gradient.df_input_vjps]
    captured = [f_args[i] for i in gradient.df_input_captured_inputs]
    found = df(*given, *captured, *(outs[i] for i in gradient.df_input_captured_outputs))
    found = found if isinstance(found, tuple) else (found,)
    return outs[: gradient.f_real_outputs], dict(zip(gradient.df_output_vjps, found, strict=True))


@pytest.mark.parametrize("function, more", CASES, ids=lambda c: getattr(c, "__name__", None))
def test_first_and_second_gradients(function, more) -> None:
    args = inputs()
    gradient = weft.jit.differentiate(weft.jit.script(function).graph)
    gradient.f.lint()
    gradient.df.lint()
    expected = function(*args, *more)
    expected = expected if isinstance(expected, tuple) else (expected,)
    rng = np.random.default_rng(1)
    seeds = [weft.from_numpy(np.asarray(rng.normal(size=tuple(e.shape)))) for e in expected]
    first = weft.autograd.grad(expected, args, seeds, create_graph=True, allow_unused=True)
    outs, found = backward(gradient, [*args, *more], seeds)
    for a, b in zip(outs, expected, strict=True):
        assert np.allclose(a.detach(), b.detach())
    wanted = [(i, g) for i, g in enumerate(first) if g is not None]
    for i, g in wanted:
        assert np.allclose(found[i].detach(), g.detach()), (function, i)
    pairs = [(g, found[i]) for i, g in wanted if g.requires_grad]
    if pairs:
        second = weft.autograd.grad([(g * g).sum() for g, _ in pairs], args, allow_unused=True)
        again = weft.autograd.grad([(g * g).sum() for _, g in pairs], args, allow_unused=True)
        for a, b in zip(second, again, strict=True):
            assert (a is None) == (b is None) or b is None or a is None
            if a is not None and b is not None:
                assert np.allclose(a, b), function


def test_captures_are_inputs_before_outputs_without_constants_or_repeats() -> None:
    gradient = weft.jit.differentiate(weft.jit.script(looped).graph)
    assert gradient.df_input_captured_inputs == sorted(set(gradient.df_input_captured_inputs))
    captured = gradient.df_input_captured_outputs
    assert captured == sorted(set(captured)) and gradient.f_real_outputs == 1
    given = (gradient.df_input_vjps, gradient.df_input_captured_inputs, captured)
    assert len(gradient.df.inputs()) == sum(map(len, given))


def test_equal_sizes_are_captured_as_none() -> None:
    gradient = weft.jit.differentiate(weft.jit.script(product).graph)
    f = weft.jit.create_function_from_graph("f", gradient.f)
    names = [n.outputs()[0].debugName() for n in gradient.f.findAllNodes("prim::metadata_if_not_equal")]
    places = [i for i, v in enumerate(gradient.f.outputs()) if v.debugName() in names]
    same, other = f(weft.ones(2, 3), weft.ones(2, 3)), f(weft.ones(2, 3), weft.ones(3))
    assert places and all(same[i] is None for i in places) and any(other[i] is not None for i in places)


def test_undefined_members_become_zeros_and_wholly_undefined_ones_nothing() -> None:
    gradient = weft.jit.differentiate(weft.jit.script(pieces).graph)
    a, b = inputs()
    _, found = backward(gradient, [a, b], [None, weft.ones(3, 2, dtype=weft.float64)])
    expected = np.concatenate([np.zeros((3, 2)), 5 * b.detach().numpy()[:, 2:]], 1)
    assert np.allclose(found[0].detach(), expected)
    _, found = backward(gradient, [a, b], [None, None])
    assert set(found.values()) == {None}


def written(a: Tensor, b: Tensor, n: int):
    c = a * 2
    c.add_(b)
    row = c[0]
    row.mul_(0.5)
    for i in range(n):
        c[:, i % 4] = a[:, 1] * b[:, 0] + i
        if i > 1:
            c.view(-1)[:3].sin_()
    c[1:] += a[0] * b[0]
    return c * a, row


def changed(a: Tensor):
    a.mul_(2)
    return a * a


def held(a: Tensor):
    b = a * 2
    items = [b]
    b.add_(a)
    return items[0]


def left_early(a: Tensor, b: Tensor, n: int):
    for i in range(n):
        if i == 2:
            return a * b * i
        a = a * b
    return a


@pytest.mark.parametrize("n", (0, 1, 5))
@pytest.mark.parametrize("function", (written, left_early), ids=lambda f: f.__name__)
def test_writes_and_early_ends(function, n) -> None:
    test_first_and_second_gradients(function, (n,))


def drawn(a: Tensor, b: Tensor, n: int):
    for i in range(n):
        c = a * weft.rand(1, dtype=weft.float64)
        if i % 2 == 0:
            c = F.dropout(c, 0.5, True) * weft.rand_like(b)
            for _ in range(i):
                c = (c * weft.rand(4, dtype=weft.float64)).sin()
        a = c * b + a
    return F.dropout(a, 0.25, True) * weft.rand(1, dtype=weft.float64), weft.rand(1)


@pytest.mark.parametrize("n", (0, 1, 4))
def test_what_is_run_again_draws_what_it_drew(n) -> None:
    gradient = weft.jit.differentiate(weft.jit.script(drawn).graph)
    a, b = inputs()
    weft.manual_seed(n)
    expected = drawn(a, b, n)
    seed = weft.from_numpy(np.random.default_rng(n).normal(size=(3, 4)))
    wanted = weft.autograd.grad(expected[0], [a, b], seed, allow_unused=True)
    after = weft.rand(1)
    weft.manual_seed(n)
    outs, found = backward(gradient, [a, b, n], [seed, None])
    assert all(np.allclose(x.detach(), y.detach()) for x, y in zip(outs, expected, strict=True))
    assert weft.equal(weft.rand(1), after)  # the stream goes on where it was
    for i, g in enumerate(wanted):
        if g is not None:
            np.testing.assert_allclose(found[i].detach().numpy(), g.numpy(), rtol=1e-9)


def test_what_has_no_backward_is_named_with_its_line() -> None:
    with pytest.raises(StateError, match=r"aten::mul_.Tensor writes in place \(line \d+\), to a tensor that its"):
        weft.jit.differentiate(weft.jit.script(changed).graph)
    with pytest.raises(StateError, match=r"aten::add_.Tensor writes in place \(line \d+\), and .* may be the same"):
        weft.jit.differentiate(weft.jit.script(held).graph)


def test_a_loop_runs_again_once_and_a_branch_stays_one() -> None:
    """A step of a loop runs once more in df, however many there are; the backward of a branch is a branch."""
    df = weft.jit.differentiate(weft.jit.script(stopped).graph).df
    assert [n.kind() for n in df.nodes()].count("prim::gradients_of") == 1
    assert not [n for n in df.nodes() if n.kind() in ("prim::Loop", "prim::append")]
    df = weft.jit.differentiate(weft.jit.script(chosen).graph).df
    assert [n.kind() for n in df.nodes()].count("prim::If") == 1
    assert not df.findAllNodes("prim::gradients_of")


def handed_on(a: Tensor, b: Tensor, n: int):
    c = a * b
    with weft.no_grad():
        d = b
        for i in range(n):
            d = c if i > 2 else d
            c = c * 1 if i > 5 else c
    return d * a + c * b


@pytest.mark.parametrize("n", (0, 2, 5))
def test_a_loop_without_history_hands_on_what_has_one(n) -> None:
    test_first_and_second_gradients(handed_on, (n,))


def test_a_function_of_a_transform_is_refused_with_its_line() -> None:
    traced = weft.jit.trace(lambda x: x * weft.func.grad(lambda z: (z**3).sum())(x), (weft.ones(2),))
    with pytest.raises(StateError, match=r"prim::Transform has no derivative as a part of a graph \(line \d+\)"):
        weft.jit.differentiate(traced.graph)


def test_random_programs() -> None:
    start, refused = int(np.random.default_rng(23).integers(1 << 30)), 0
    for seed in range(start, start + COUNT):
        text = program(seed)
        space = {"weft": weft, "F": F}
        exec(text, space)
        try:
            gradient = weft.jit.differentiate(weft.jit.CompilationUnit(text).f.graph)
        except StateError:  # a write to a list within a branch or loop
            refused += 1
            continue
        x, *rest = arguments(np.random.default_rng(seed))
        x.requires_grad_()
        found = space["f"](x, *rest)
        seeds = [2 * v.detach() if isinstance(v, Tensor) else None for v in found]
        flowing = [v for v in found if isinstance(v, Tensor) and v.requires_grad]
        try:
            wanted = weft.autograd.grad(sum((v * v).sum() for v in flowing), [x])[0].numpy() if flowing else 0
        except RuntimeError:  # what was saved has been written, or nothing hangs on x
            continue
        with weft.jit.optimized_execution(False):
            _, grads = backward(gradient, [x, *rest], seeds)
        given = 0 if grads.get(0) is None else grads[0].detach().numpy()
        np.testing.assert_allclose(given, wanted, rtol=1e-7, atol=1e-9, err_msg=text)
    assert refused < COUNT * 0.6
