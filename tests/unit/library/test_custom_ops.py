"""Operators of users: eager, gradients, vmap, programs, compiled autograd, against the same function without one."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

import weft
from weft import Tensor, library
from weft import compiled_autograd as ca
from weft.autograd import grad, gradcheck, gradgradcheck
from weft.library.operators import USER_OPERATORS
from weft.ops.op import OPS, PACKETS


@pytest.fixture(autouse=True)
def catalogue() -> Iterator[None]:
    """What a test defines is gone after it."""
    yield
    for user in list(USER_OPERATORS.values()):
        user.destroy()
    assert not [name for name in (*OPS, *PACKETS) if name.startswith(("lab::", "yard::"))]


def mix() -> library.CustomOpDef:
    """a = x * ys[0], b = x +- ys[1], by NumPy."""

    @library.custom_op("lab::mix", mutates_args=())
    def mixed(x: Tensor, ys: list[Tensor], scale: float, *, minus: bool = False) -> tuple[Tensor, Tensor]:
        """Two results."""
        assert type(ys) is list and type(minus) is bool
        a, b = x.numpy() * ys[0].numpy(), ys[1].numpy() * scale
        return weft.from_numpy(a), weft.from_numpy(x.numpy() + (-b if minus else b))

    @mixed.register_fake
    def _(x, ys, scale, *, minus=False):
        return x.new_empty(x.shape), weft.empty_like(x)

    def setup(ctx, inputs, output, keyword_only_inputs):
        x, ys, ctx.scale = inputs
        ctx.save_for_backward(x, *ys)
        ctx.sign = -1 if keyword_only_inputs["minus"] else 1

    def backward(ctx, a, b):
        x, y0, _ = ctx.saved_tensors
        return a * y0 + b, [a * x, b * ctx.scale * ctx.sign], None

    mixed.register_autograd(backward, setup_context=setup)
    return mixed


def expected(x, ys, scale, minus=False):
    return x * ys[0], x - ys[1] * scale if minus else x + ys[1] * scale


def inputs(rng, n, wants=True):
    return [weft.tensor(rng.standard_normal(n), requires_grad=wants) for _ in range(3)]


def test_calls_in_eager_mode_and_gradients_of_two_orders(rng):
    op, n, scale = mix(), int(rng.integers(1, 9)), float(rng.standard_normal())
    x, *ys = inputs(rng, n)
    for minus in (False, True):
        for got, want in zip(op(x, ys, scale, minus=minus), expected(x, ys, scale, minus), strict=True):
            np.testing.assert_allclose(got.detach().numpy(), want.detach().numpy())
    assert weft.ops.lab.mix is not None
    np.testing.assert_allclose(
        weft.ops.lab.mix(x, ys, scale)[0].detach(), weft.ops.lab.mix.default(x, ys, scale)[0].detach()
    )
    assert op(x, ys, scale)[0].grad_fn.name() == "GeneratedBackwardFor_lab_mix_defaultBackward"

    def product(x, a, b):
        first, second = op(x, [a, b], scale, minus=True)
        return first * second

    assert gradcheck(product, (x, *ys)) and gradgradcheck(product, (x, *ys))


@pytest.mark.parametrize("backend", ["llvm", "interpret", "numpy"])
def test_programs_call_it_where_it_stands_for_every_size(rng, backend):
    op = mix()

    def step(x, a, b, scale):
        first, second = op(x, [a, b], scale, minus=True)
        return grad((first * second).sum(), [x, a, b])

    compiled = weft.compile(step, backend=backend)
    before = weft.counters.captures
    for n in (3, int(rng.integers(4, 40)), 1):
        args = (*inputs(rng, n), 0.5)
        for got, want in zip(compiled(*args), step(*args), strict=True):
            np.testing.assert_allclose(got.numpy(), want.numpy(), rtol=1e-6)
    assert weft.counters.captures == before + 1
    assert "lab::mix" in str(compiled.stages(*args)["captured"])


def test_a_program_without_backward_hands_the_gradient_out(rng):
    op = mix()
    x, *ys = inputs(rng, 4)
    compiled = weft.compile(lambda x, a, b: op(x, [a, b], 2.0)[0].sum())
    got = grad(compiled(x, *ys), [x, ys[0]])
    np.testing.assert_allclose(got[0].numpy(), ys[0].detach().numpy())
    np.testing.assert_allclose(got[1].numpy(), x.detach().numpy())


def test_compiled_autograd_calls_its_backward_once_for_each_run(rng):
    op, runs = mix(), []
    user = USER_OPERATORS["lab::mix"]
    inner = user.backward
    op.register_autograd(lambda *args: (runs.append(1), inner(*args))[1], setup_context=user.setup_context)
    ca.reset()
    before = weft.counters.captures
    for n in (2, 5, 1):
        x, *ys = inputs(rng, n)
        want = grad(expected(x * 2, ys, 2.0)[0].sum(), x)[0]
        with ca.enable():
            got = grad(op(x * 2, ys, 2.0)[0].sum(), x)[0]
        np.testing.assert_allclose(got.numpy(), want.numpy())
    assert (len(runs), weft.counters.captures - before) == (3, 1)


def test_transforms_nest_through_it(rng):
    op = mix()
    rows = weft.tensor(rng.standard_normal((3, 4)))
    np.testing.assert_allclose(weft.vmap(lambda x: op(x, [x, x], 1.0)[0])(rows).numpy(), (rows * rows).numpy())
    np.testing.assert_allclose(
        weft.vmap(weft.func.grad(lambda x: op(x, [x, x], 1.0)[0].sum()))(rows).numpy(), 2 * rows.numpy()
    )
    seen = []

    @op.register_vmap
    def _(info, in_dims, x, ys, scale, *, minus):
        seen.append((info.batch_size, in_dims))
        return op(x, ys, scale, minus=minus), (0, 0)

    np.testing.assert_allclose(weft.vmap(lambda x: op(x, [x, x], 1.0)[0])(rows).numpy(), (rows * rows).numpy())
    assert seen == [(3, (0, [0, 0], None))]


@pytest.mark.parametrize("backend", ["llvm", "interpret"])
def test_what_it_writes_is_written_and_counted(rng, backend):
    @library.custom_op("lab::shift", mutates_args={"x"})
    def shift(x: Tensor, by: Tensor) -> Tensor:
        x.numpy()[...] += by.numpy()
        return x.sum()

    shift.register_fake(lambda x, by: x.new_empty(()))

    def run(x, by):
        double = x * 2
        total = shift(x[1:], by)
        return double + x, total

    values = rng.standard_normal(int(rng.integers(2, 7)))
    by = weft.tensor(rng.standard_normal(len(values) - 1))
    x, y = weft.tensor(values), weft.tensor(values)
    version = x._version
    want, got = run(x, by), weft.compile(run, backend=backend)(y, by)
    assert x._version > version and y._version > version
    np.testing.assert_allclose(x.numpy()[1:], values[1:] + by.numpy())
    for a, b in zip((*got, y), (*want, x), strict=True):
        np.testing.assert_allclose(a.numpy(), b.numpy())
    saved = weft.tensor(values, requires_grad=True) * 1
    loss = (saved * saved).sum()
    shift(saved.detach(), weft.tensor(values))
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()
    np.testing.assert_allclose(
        weft.func.functionalize(lambda x: run(x.clone(), by)[0])(weft.tensor(values)).numpy(), want[0].numpy()
    )


def test_effects_keep_their_order_and_happen_once(rng):
    log = []

    @library.custom_op("lab::note", mutates_args=())
    def note(x: Tensor, tag: str) -> None:
        log.append((tag, x))

    def run(x):
        y = x * 2
        note(y, "first")
        z = y + 1
        note(z, "second")
        return z.sum()

    compiled = weft.compile(run)
    sizes = [int(n) for n in rng.integers(1, 30, 4)]
    for n in sizes:
        compiled(weft.ones(n))
    assert [(tag, t.tolist()) for tag, t in log] == [
        entry for n in sizes for entry in (("first", [2.0] * n), ("second", [3.0] * n))
    ]


def test_sizes_that_hang_on_values(rng):
    @library.custom_op("lab::places", mutates_args=())
    def places(x: Tensor) -> Tensor:
        return weft.from_numpy(np.flatnonzero(x.numpy()))

    @places.register_fake
    def _(x):
        return x.new_empty([library.get_ctx().new_dynamic_size()], dtype=weft.int64)

    compiled = weft.compile(lambda x: places(x) * 2 + 1)
    before = weft.counters.captures
    for _ in range(3):
        x = weft.tensor(rng.integers(0, 2, int(rng.integers(2, 9))))
        assert compiled(x).tolist() == (np.flatnonzero(x.numpy()) * 2 + 1).tolist()
    assert weft.counters.captures == before + 1


def test_a_library_defines_and_implements_by_text():
    lib = library.Library("yard", "DEF")
    assert lib.define("foo(Tensor x, SymInt[] s=[1, 2]) -> Tensor") == "foo"
    with pytest.raises(RuntimeError, match="multiple times"):
        lib.define("foo(Tensor x) -> Tensor")
    with pytest.raises(RuntimeError, match="Only a single"):
        library.Library("yard", "DEF")
    with pytest.raises(NotImplementedError, match="Could not run 'yard::foo'"):
        weft.ops.yard.foo(weft.ones(2))
    lib.impl("foo", lambda x, s: x * sum(s), "CPU")
    assert weft.ops.yard.foo(weft.ones(2)).tolist() == [3.0, 3.0]
    assert weft.ops.yard.foo(weft.ones(2), [4]).tolist() == [4.0, 4.0]
    lib.define("wave(Tensor x) -> Tensor")
    lib.impl("wave", lambda x: x.sin() * x, "CompositeImplicitAutograd")
    x = weft.ones(2, requires_grad=True)
    np.testing.assert_allclose(grad(weft.ops.yard.wave(x).sum(), x)[0].numpy(), np.sin(1) + np.cos(1), rtol=1e-6)
    lib.define("up_(Tensor(a!) x) -> Tensor(a!)")
    lib.impl("up_", lambda x: x.add_(1))
    y = weft.ones(2)
    assert weft.ops.yard.up_(y) is y and y.tolist() == [2.0, 2.0]
    assert weft.compile(lambda t: weft.ops.yard.up_(t[1:]) * 2)(y).tolist() == [6.0]
    assert y.tolist() == [2.0, 3.0]
    lib._destroy()
    with pytest.raises(AttributeError, match="no operator is defined in yard::"):
        weft.ops.yard.foo  # noqa: B018
    library.define("yard::later", "(Tensor x) -> Tensor")
    library.impl("yard::later", "cpu", lambda x: x + 1)
    library.register_fake("yard::later", lambda x: weft.empty_like(x))
    assert weft.compile(weft.ops.yard.later)(weft.ones(1)).tolist() == [2.0]


def test_wrong_definitions_are_refused():
    def of(function, **fields):
        return library.custom_op("lab::wrong", function, **fields)

    with pytest.raises(ValueError, match="Parameter x must have a type annotation"):
        of(lambda x: x)
    with pytest.raises(ValueError, match="unsupported type <class 'object'>"):
        def strange(x: object) -> Tensor: ...
        of(strange)
    with pytest.raises(ValueError, match="No return type annotation"):
        def silent(x: Tensor): ...
        of(silent)
    with pytest.raises(ValueError, match="were not found in the custom op's signature"):
        def plain(x: Tensor) -> Tensor: ...
        of(plain, mutates_args={"y"})
    with pytest.raises(ValueError, match="namespace::name"):
        library.custom_op("wrong", plain)
    with pytest.raises(ValueError, match="reserved namespace"):
        library.custom_op("aten::wrong", plain)
    with pytest.raises(ValueError, match="Unsupported kind: FOO"):
        library.Library("lab", "FOO")
    with pytest.raises(RuntimeError, match="operator lab::nothing does not exist"):
        library.register_fake("lab::nothing", plain)


def test_broken_promises_are_errors():
    @library.custom_op("lab::same", mutates_args=())
    def same(x: Tensor) -> Tensor:
        return x

    x = weft.ones(3)
    with pytest.raises(RuntimeError, match="must not also be an input"):
        same(x)
    with pytest.raises(NotImplementedError, match="no fake impl registered for lab::same"):
        weft.compile(lambda x: same(x) + 1)(x)
    with pytest.raises(RuntimeError, match="no autograd formula was registered"):
        library.custom_op("lab::free", lambda x: x * 2, schema="(Tensor x) -> Tensor")(
            weft.ones(2, requires_grad=True)
        ).sum().backward()

    @library.custom_op("lab::total", mutates_args=())
    def total(x: Tensor) -> Tensor:
        return x.sum()

    total.register_fake(lambda x: weft.empty_like(x))
    with pytest.raises(RuntimeError, match=r"register_fake promises f32\[3\], the implementation gave f32\[\]"):
        weft.compile(lambda x: total(x) + 1)(x)
    with pytest.raises(library.OpCheckError, match="test_faketensor failed"):
        library.opcheck(total, (x,))

    @library.custom_op("lab::quiet", mutates_args=())
    def quiet(x: Tensor) -> Tensor:
        x.add_(1)
        return x * 2

    quiet.register_fake(lambda x: weft.empty_like(x))
    report = library.opcheck(quiet, (x,), raise_exception=False)
    assert "argument x is written into" in str(report["test_schema"]) and report["test_faketensor"] == "SUCCESS"

    @library.custom_op("lab::write", mutates_args={"x"})
    def write(x: Tensor) -> None:
        x.add_(1)

    with pytest.raises(RuntimeError, match="Cannot register autograd formula for non-functional operator"):
        write.register_autograd(lambda ctx, g: None)


def test_opcheck_accepts_what_holds(rng):
    x, *ys = inputs(rng, 3)
    assert set(library.opcheck(mix(), (x, ys, 0.5), {"minus": True}).values()) == {"SUCCESS"}


def test_an_exception_of_the_implementation_comes_once_as_it_is():
    runs = []

    @library.custom_op("lab::fail", mutates_args=())
    def fail(x: Tensor) -> Tensor:
        runs.append(1)
        raise KeyError("of the user's")

    fail.register_fake(lambda x: weft.empty_like(x))
    with pytest.raises(KeyError, match="of the user's"):
        fail(weft.ones(2))
    with pytest.raises(KeyError, match="of the user's"):
        weft.compile(lambda x: fail(x) + 1)(weft.ones(2))
    assert len(runs) == 2
