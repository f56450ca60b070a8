"""`__weft_dispatch__`: wrapper subclasses say below autograd what operators do,
so that their gradients are wrappers too."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest
from wrappers import Scaled, Two, calls, drawn

import weft
from weft import nn
from weft.nn import functional as F
from weft.nn.parameter import Parameter
from weft.utils import checkpoint
from weft.utils.dispatch import is_traceable_wrapper_subclass, transform_subclass
from weft.utils.pytree import tree_map, tree_map_only

aten = weft.ops.aten


@pytest.fixture(autouse=True)
def fresh_log() -> None:
    calls.clear()


def same(left: weft.Tensor, right: weft.Tensor) -> None:
    np.testing.assert_allclose(left.detach().numpy(), right.detach().numpy(), rtol=1e-10)


FUNCTIONS: list[Any] = [
    lambda x: x * x + 1, lambda x: F.softmax(x, -1).log(), lambda x: x.t() @ x, lambda x: x[0] * x[:, :1].sum(),
    lambda x: x.view(-1).exp().mean(), lambda x: weft.cat([x, x * 2], 1), lambda x: weft.where(x > 0, x, -x),
    lambda x: x.max(1).values * x.sum(1, keepdim=True), lambda x: F.gelu(F.layer_norm(x, x.shape[1:])),
    lambda x: x.clone().mul_(2).add_(x), lambda x: weft.stack(x.unbind(0)).std(),
    lambda x: F.linear(x, weft.ones(2, 3, dtype=x.dtype)) - weft.arange(2), lambda x: F.mse_loss(x, weft.zeros_like(x)),
    lambda x: 2 / (1 + x**2),
]


@pytest.mark.parametrize("at", range(len(FUNCTIONS)))
def test_values_and_gradients_are_those_of_the_parts(at: int, rng: np.random.Generator) -> None:
    function = FUNCTIONS[at]
    a, b = drawn(rng, 4, 3)
    x = Two(a.clone(), b.clone(), requires_grad=True)
    out = function(x)
    assert type(out) is Two and out.requires_grad
    (first,) = weft.autograd.grad((out * out).sum(), x, create_graph=True)
    (second,) = weft.autograd.grad((first * first).sum(), x)
    assert type(first) is Two and type(second) is Two
    for part, value in (("a", a), ("b", b)):
        leaf = value.clone().requires_grad_()
        expected = function(leaf)
        same(getattr(out, part), expected)
        (g,) = weft.autograd.grad((expected * expected).sum(), leaf, create_graph=True)
        (gg,) = weft.autograd.grad((g * g).sum(), leaf)
        same(getattr(first, part), g)
        same(getattr(second, part), gg)


def test_the_class_sees_operators(rng: np.random.Generator) -> None:
    x = Two(*drawn(rng, 2, 2), requires_grad=True)
    y = (x * 3 + 1).relu()
    assert calls == ["aten.mul.Tensor", "aten.add.Tensor", "aten.relu.default"]
    calls.clear()
    y.sum().backward()
    assert "aten.sum.default" in calls and "aten.mul.Tensor" in calls
    assert type(x.grad) is Two
    same(x.grad.a, 3.0 * (x.a * 3 + 1 > 0))


def test_operators_as_users_name_them() -> None:
    seen: list[Any] = []

    class Seeing(weft.Tensor):
        @classmethod
        def __weft_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            seen.append((func, types, args, kwargs))
            return weft.ones(2)

    x = weft.Tensor._make_wrapper_subclass(Seeing, (2,))
    x + 1, weft.add(x, x, alpha=2), x.sum(0), x.sum(0, dtype=weft.float64), x.clamp(max=3), weft.cat([x, x])
    assert (
        [s[0] for s in seen]
        == [aten.add.Tensor, aten.add.Tensor, aten.sum.default, aten.sum.default, aten.clamp.default, aten.cat.default]
    )
    assert all(s[1] == (Seeing,) for s in seen)
    assert (
        seen[0][2:] == ((x, 1), {}) and seen[1][3] == {"alpha": 2} and seen[2][2:] == ((x, (0,)), {})
        and seen[3][3] == {"dtype": weft.float64}
    )
    assert seen[4][2] == (x, None, 3) and seen[5][2] == ((x, x),)
    func = seen[0][0]
    assert (
        (str(func), func.name(), func.__name__, func.overloadpacket is aten.add, func.namespace)
        == ("aten.add.Tensor", "aten::add.Tensor", "add.Tensor", True, "aten")
    )
    assert aten.add_.Tensor is not aten.add.Tensor and aten.add_.Tensor.overloadpacket is aten.add_
    t = weft.ones(2)
    assert aten.add_.Tensor(t, 1) is t and t.tolist() == [2.0, 2.0]
    with pytest.raises(TypeError, match="first argument is written"):
        aten.add_(1, 2)


# ---- leaves, mixtures, other shapes and dtypes
def test_mixed_with_plain_tensors(rng: np.random.Generator) -> None:
    a, b = drawn(rng, 3)
    plain = weft.from_numpy(rng.standard_normal(3)).requires_grad_()
    x = Two(a, b, requires_grad=True)
    (plain * x + x).sum().backward()
    same(x.grad.a, plain.detach() + 1)
    assert type(plain.grad) is Two  # what reaches a plain leaf from a wrapper's operator is the class's answer
    same(plain.grad.a, a)
    same(plain.grad.b, b)


def test_nested_wrappers(rng: np.random.Generator) -> None:
    a, b = drawn(rng, 2, 2)
    x = Two(Two(a, b), Two(b, a), requires_grad=True)
    (x * x).sum().backward()
    assert type(x.grad) is Two and type(x.grad.a) is Two
    same(x.grad.a.a, 2 * a)
    same(x.grad.b.a, 2 * b)


def test_a_class_that_changes_dtype(rng: np.random.Generator) -> None:
    q = weft.tensor(rng.integers(-9, 9, (3, 2)), dtype=weft.int8)
    w = Scaled(q, 0.5)
    x = weft.tensor(rng.standard_normal((4, 3)).astype(np.float32), requires_grad=True)
    out = x @ (w * 2)
    assert type(out) is weft.Tensor and (w * 2).scale == 1.0 and w.dtype is weft.float32
    same(out, x @ q.float())
    out.sum().backward()
    assert type(x.grad) is weft.Tensor
    same(x.grad, q.float().sum(1).expand(4, 3))


def test_a_class_that_changes_the_shape(rng: np.random.Generator) -> None:
    class Diagonal(weft.Tensor):
        @staticmethod
        def __new__(cls: Any, d: weft.Tensor, requires_grad: bool = False) -> Any:
            out = weft.Tensor._make_wrapper_subclass(cls, (len(d), len(d)), dtype=d.dtype, requires_grad=requires_grad)
            out.d = d
            return out

        @classmethod
        def __weft_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            if func in (aten.mul.Tensor, aten.add.Tensor) and all(isinstance(a, Diagonal) for a in args):
                return Diagonal(func(args[0].d, args[1].d))
            args, kwargs = tree_map_only(Diagonal, lambda t: weft.diag(t.d), (args, kwargs or {}))
            return func(*args, **kwargs)

    d = weft.from_numpy(rng.standard_normal(3))
    x = Diagonal(d, requires_grad=True)
    m = weft.from_numpy(rng.standard_normal((3, 3))).requires_grad_()
    assert type(x * x) is Diagonal and (x @ m).shape == (3, 3)
    (x @ m).sum().backward()
    same(m.grad, d[:, None].expand(3, 3))
    same(x.grad, m.detach().sum(1).expand(3, 3))


# ---- in place, views, copies
def test_in_place_and_views(rng: np.random.Generator) -> None:
    a, b = drawn(rng, 3, 2)
    x = Two(a.clone(), b.clone())
    before = x._version
    assert x.add_(1) is x and x._version == before + 1
    x[0] = 5
    view = x.view(6)
    view.mul_(2)
    x += weft.ones(3, 2, dtype=x.dtype)
    expected = (a + 1) * 2 + 1
    expected[0] = 11
    same(x.a, expected)
    assert view._base is x and view._version == x._version
    leaf = Two(a.clone(), b.clone(), requires_grad=True)
    y = leaf * 1
    y[1].mul_(3)
    assert y.grad_fn.name() == "CopySlices"
    y.sum().backward()
    assert leaf.grad.a.tolist() == [[1.0, 1.0], [3.0, 3.0], [1.0, 1.0]]
    with pytest.raises(RuntimeError, match="leaf Variable"):
        leaf.add_(1)
    plain = weft.zeros(3, 2, dtype=a.dtype)
    with pytest.raises(RuntimeError):
        saved = leaf * leaf.exp()
        with weft.no_grad():
            leaf.add_(1)
        saved.sum().backward()
    assert plain.sum().item() == 0


def test_writes_through_strided_views_of_wrappers(rng: np.random.Generator) -> None:
    a, b = drawn(rng, 3, 4)

    def function(x: weft.Tensor) -> weft.Tensor:
        y = (x * 1).t()  # not row-major
        weft.as_strided(y, (2, 3), (4, 1), 1).mul_(3)
        return (y.exp() * y).t()

    x = Two(a.clone(), b.clone(), requires_grad=True)
    out = function(x)
    out.backward(Two(b, a))
    for part, seed in (("a", b), ("b", a)):
        leaf = (a if part == "a" else b).clone().requires_grad_()
        expected = function(leaf)
        expected.backward(seed)
        same(getattr(out, part), expected)
        same(getattr(x.grad, part), leaf.grad)


def test_detach_clone_and_copies(rng: np.random.Generator) -> None:
    x = Two(*drawn(rng, 2), requires_grad=True)
    for other in (
        x.detach(), x.data, x.clone(), copy.copy(x), copy.deepcopy(x), pickle.loads(pickle.dumps(x)),
        x.detach().requires_grad_(),
    ):
        assert type(other) is Two
        same(other.a, x.a)
    d = x.detach()
    assert d.a is x.a and not d.requires_grad and d._version == x._version
    deep = copy.deepcopy(x)
    assert deep.requires_grad and deep.a is not x.a
    deep.detach().add_(1)
    same(deep.a, x.a + 1)
    p = Parameter(Two(*drawn(rng, 2)))
    assert type(p) is Two and isinstance(p, Parameter) and p.requires_grad
    assert repr(weft.Tensor._make_wrapper_subclass(Plain, (2, 3))) == "Plain(size=(2, 3), dtype=weft.float32)"
    with pytest.raises(NotImplementedError, match="wrapper"):
        x.tolist()


class Plain(weft.Tensor):
    @classmethod
    def __weft_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return NotImplemented


def test_not_implemented_and_mistakes() -> None:
    p = weft.Tensor._make_wrapper_subclass(Plain, (2,))
    with pytest.raises(TypeError, match=r"no implementation found for 'aten.add.Tensor' .*Plain"):
        p + 1

    class Absent(weft.Tensor):
        pass

    with pytest.raises(TypeError, match="must define __weft_dispatch__"):
        weft.Tensor._make_wrapper_subclass(Absent, (2,))

    class Careless(weft.Tensor):
        pass

    with pytest.raises(TypeError, match="subclass of Tensor"):
        weft.Tensor._make_wrapper_subclass(int, (2,))


def test_subclasses_are_asked_before_their_bases() -> None:
    asked: list[str] = []

    class Base(weft.Tensor):
        @classmethod
        def __weft_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            asked.append(cls.__name__)
            return NotImplemented if cls is Base.__subclasses__()[0] else weft.ones(1)

    class Derived(Base):
        pass

    base, derived = (weft.Tensor._make_wrapper_subclass(c, (1,)) for c in (Base, Derived))
    assert weft.add(base, derived).tolist() == [1.0] and asked == ["Derived", "Base"]


def test_the_class_may_return_what_it_was_given(rng: np.random.Generator) -> None:
    class Careless(weft.Tensor):
        @classmethod
        def __weft_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            return args[0]

    x = weft.Tensor._make_wrapper_subclass(Careless, (2,), requires_grad=True)
    y = x.clone()
    assert y is not x and x.is_leaf and y.grad_fn.name() == "CloneBackward0"


# ---- around operators
def test_hooks_functions_and_checkpoints(rng: np.random.Generator) -> None:
    class Cube(weft.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: weft.Tensor) -> weft.Tensor:
            ctx.save_for_backward(x)
            return x * x * x

        @staticmethod
        def backward(ctx: Any, g: weft.Tensor) -> weft.Tensor:
            (x,) = ctx.saved_tensors
            assert type(x) is Two
            return g * 3 * x * x

    a, b = drawn(rng, 3)
    x = Two(a, b, requires_grad=True)
    seen: list[type] = []
    y = Cube.apply(x)
    y.register_hook(lambda g: seen.append(type(g)))
    y.retain_grad()
    x.register_post_accumulate_grad_hook(lambda t: seen.append(type(t.grad)))
    checkpoint.checkpoint(lambda t: (t * t).exp(), y, use_reentrant=False).sum().backward()
    assert seen == [Two, Two] and type(y.grad) is Two
    same(x.grad.a, (a**6).exp() * 6 * a**5)
    with weft.autograd.graph.saved_tensors_hooks(lambda t: (seen.append(type(t)), t)[1], lambda t: t):
        z = (x * x).exp()
    z.sum().backward()
    assert seen[2:] == [Two, Two, Two, Two]


def test_modules_train(rng: np.random.Generator) -> None:
    weft.manual_seed(int(rng.integers(1 << 30)))
    parts = [nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1)) for _ in range(2)]
    both = copy.deepcopy(parts[0])
    for (name, p), q in zip(list(both.named_parameters()), list(parts[1].parameters()), strict=True):
        owner, _, last = name.rpartition(".")
        setattr(both.get_submodule(owner), last, Parameter(Two(p.detach().clone(), q.detach().clone())))
    assert all(type(p) is Two for p in both.parameters())
    data = weft.from_numpy(rng.standard_normal((5, 3)).astype(np.float32))
    for model in (both, *parts):
        optimizer = weft.optim.Adam(model.parameters(), lr=0.1)
        for _ in range(3):
            optimizer.zero_grad()
            model(data).pow(2).mean().backward()
            optimizer.step()
    for p, q, r in zip(both.parameters(), parts[0].parameters(), parts[1].parameters(), strict=True):
        np.testing.assert_allclose(p.a.detach().numpy(), q.detach().numpy(), rtol=2e-4, atol=1e-6)
        np.testing.assert_allclose(p.b.detach().numpy(), r.detach().numpy(), rtol=2e-4, atol=1e-6)


def test_objects_made_from_plain_tensors(rng: np.random.Generator) -> None:
    seen: list[str] = []

    class Logging(weft.Tensor):
        @classmethod
        def __weft_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            seen.append(str(func))
            out = super().__weft_dispatch__(func, types, args, kwargs)
            return tree_map_only(weft.Tensor, lambda t: t.as_subclass(cls), out)

    data = weft.from_numpy(rng.standard_normal(3))
    x = data.as_subclass(Logging).requires_grad_()
    y = (x * x + data).sum()
    y.backward()
    assert (
        type(y) is Logging and type(x.grad) is Logging
        and seen[:3] == ["aten.mul.Tensor", "aten.add.Tensor", "aten.sum.default"]
    )
    np.testing.assert_allclose(x.grad.numpy(), 2 * data.numpy())
    z = x.detach()
    z.add_(1)
    np.testing.assert_allclose(x.detach().tolist(), z.numpy())
    assert type(copy.deepcopy(z)) is Logging


def test_both_protocols_on_one_class() -> None:
    above: list[str] = []

    class Both(Two):
        @classmethod
        def __weft_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            above.append(func.__name__)
            return super().__weft_function__(func, types, args, kwargs)

    x = Both(weft.ones(2), weft.zeros(2))
    weft.add(x, 1)
    assert above == ["add"] and calls[-1:] == ["aten.add.Tensor"]


def test_taking_apart(rng: np.random.Generator) -> None:
    x = Two(*drawn(rng, 2))
    assert is_traceable_wrapper_subclass(x) and not is_traceable_wrapper_subclass(x.a)
    doubled = transform_subclass(x, lambda name, t: t * 2)
    same(doubled.b, x.b * 2)


def test_masked_values(rng: np.random.Generator) -> None:
    class Masked(weft.Tensor):
        """Values of which some are missing: sums leave them out, pointwise operators keep the mask."""

        @staticmethod
        def __new__(cls: Any, value: weft.Tensor, mask: weft.Tensor, requires_grad: bool = False) -> Any:
            out = weft.Tensor._make_wrapper_subclass(cls, value.shape, dtype=value.dtype, requires_grad=requires_grad)
            out.value, out.mask = value, mask
            return out

        @classmethod
        def __weft_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            kwargs = kwargs or {}
            masks = [a.mask for a in args if isinstance(a, Masked)]
            if func.overloadpacket is aten.sum:
                return func(weft.where(args[0].mask, args[0].value, 0.0), *args[1:], **kwargs)
            out = func(*tree_map_only(Masked, lambda t: t.value, args), **kwargs)
            mask = masks[0] if len(masks) == 1 else masks[0] & masks[1]
            return cls(out, mask.expand(out.shape))

    value, mask = weft.from_numpy(rng.standard_normal(5)), weft.tensor([True, False, True, True, False])
    x = Masked(value, mask, requires_grad=True)
    total = (x * x).sum()
    assert type(total) is weft.Tensor
    np.testing.assert_allclose(total.item(), (value.numpy() ** 2 * mask.numpy()).sum())
    total.backward()
    assert type(x.grad) is Masked
    same(x.grad.value, 2 * value)
    assert (x * Masked(value, ~mask)).mask.sum().item() == 0


def test_what_a_wrapper_shows_may_be_replaced(rng: np.random.Generator) -> None:
    a, b = drawn(rng, 2, 3)
    x = Two(a, b, requires_grad=True)
    x.data = Two(b, a)
    same(x.a, b)
    assert x.is_leaf and x.requires_grad
    x.detach_().transpose_(0, 1).unsqueeze_(0)
    assert x.shape == (1, 3, 2) and x.a.shape == (1, 3, 2)
    same(x.a[0], b.t())
    layer = nn.Linear(3, 2)
    layer.weight = Parameter(Two(layer.weight.detach(), layer.weight.detach() * 2))
    layer.double()
    assert (
        type(layer.weight) is Two and layer.weight.a.dtype is weft.float64
        and layer(weft.ones(1, 3, dtype=weft.float64)).dtype is weft.float64
    )
    saved = {name: t.clone() for name, t in layer.state_dict().items()}
    with weft.no_grad():
        layer.weight.zero_()
    layer.load_state_dict(saved)
    same(layer.weight.a * 2, layer.weight.b)
    assert layer.weight.a.abs().sum().item() > 0
    with pytest.raises(RuntimeError, match="cannot be made to show"):
        weft.ones(2).data = Two(a, b)


def test_numbers_are_asked_of_the_class() -> None:
    x = Two(weft.tensor(3.0), weft.tensor(4.0))
    assert x.item() == 3.0 and float(x) == 3.0 and bool(x > 2) and int(x) == 3
    assert calls[0] == "aten._local_scalar_dense.default"


def test_under_transforms(rng: np.random.Generator) -> None:
    a, b = drawn(rng, 3)
    x = Two(a, b)
    same(weft.func.grad(lambda t: (t * t * t).sum())(x).b, 3 * b * b)
    assert type(weft.func.vmap(lambda t: t * 2)(x)) is Two
    out, tangent = weft.func.jvp(lambda t: t * t, (x,), (Two(weft.ones(3, dtype=a.dtype), b),))
    same(out.a, a * a)
    same(tangent.a, 2 * a)
    same(tangent.b, 2 * b * b)


def test_attributes_in_slots(rng: np.random.Generator) -> None:
    class Slotted(weft.Tensor):
        __slots__ = ["inner"]

        @staticmethod
        def __new__(cls, inner: weft.Tensor) -> Any:
            out = weft.Tensor._make_wrapper_subclass(cls, inner.shape, dtype=inner.dtype)
            out.inner = inner
            return out

        @classmethod
        def __weft_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            plain = tree_map(lambda v: v.inner if isinstance(v, Slotted) else v, (args, kwargs or {}))
            return tree_map(lambda v: Slotted(v) if isinstance(v, weft.Tensor) else v, func(*plain[0], **plain[1]))

    data, _ = drawn(rng, 3)
    x = Slotted(data).requires_grad_()
    (x.sin() * x.detach()).sum().backward()
    same(x.grad.inner, data.cos() * data)
    same(copy.deepcopy(x).inner, data)


def test_names_that_weft_uses_itself(rng: np.random.Generator) -> None:
    class Mine(weft.Tensor):
        def __init__(self, data: weft.Tensor) -> None:
            self._data = data

    with pytest.raises(RuntimeError, match=r"Mine\._data = tensor.*inner_data"):
        Mine(weft.ones(2))
