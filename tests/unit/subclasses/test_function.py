"""`__weft_function__`: subclasses of Tensor and classes that are no tensors take public calls over."""

from __future__ import annotations

import abc
import copy
import pickle
import subprocess
import sys
from typing import Any, ClassVar, Generic, TypeVar

import numpy as np
import pytest

import weft
from weft import nn, overrides
from weft.nn import functional as F
from weft.nn.parameter import Parameter


class Meters(weft.Tensor):
    """Keeps its class by the default implementation."""


class Kilo(Meters):
    pass


class Seconds(weft.Tensor):
    pass


class Logged(weft.Tensor):
    calls: ClassVar[list[str]] = []

    @classmethod
    def __weft_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        cls.calls.append(overrides.resolve_name(func) or func.__name__)
        return super().__weft_function__(func, types, args, kwargs)


@pytest.fixture
def log() -> list[str]:
    Logged.calls.clear()
    return Logged.calls


def numbers(rng: np.random.Generator, *shape: int) -> weft.Tensor:
    return weft.from_numpy(rng.standard_normal(shape))


# ---- the default keeps the class
def test_results_keep_the_class(rng: np.random.Generator) -> None:
    x = numbers(rng, 3, 4)
    m = x.as_subclass(Meters)
    for out in (
        m + 1, 1 + m, x + m, m - x, 2 / m, m**2, -m, abs(m), m @ m.T, m[0], m[:, 1:], m.sum(), weft.sum(m),
        weft.cat([x, m]), F.relu(m), m.clone(), m.double(), m.to(weft.float32), weft.zeros_like(m), m.new_ones(2),
        m.detach(), m.data, m.T, m.max(0).values, m.split(2)[0], m > 0, m.reshape(12), next(iter(m)), Parameter(x) + m,
        m * Parameter(x), F.pairwise_distance(m, x), weft.where(m > 0, x, 0.0),
    ):
        assert type(out) is Meters
    assert type(m.shape) is weft.Size and type(m.item if False else m.ndim) is int and m.dtype is weft.float64
    np.testing.assert_array_equal((x + m * 2).numpy(), x.numpy() * 3)


def test_lists_are_looked_into_whatever_was_called_before() -> None:
    plain, m = weft.ones(1), weft.ones(1).as_subclass(Meters)
    with overrides.DisableWeftFunctionSubclass():
        weft.cat([plain, m])
    weft.stack([plain, plain])
    assert (
        type(weft.cat([plain, m])) is Meters and type(weft.cat((m, plain))) is Meters
        and type(plain[[(m - 1).long()]]) is Meters
    )


def test_the_most_derived_class_wins_and_strangers_do_not_mix() -> None:
    one = weft.ones(2)
    assert type(one.as_subclass(Meters) + one.as_subclass(Kilo)) is Kilo
    assert type(one.as_subclass(Kilo) + one.as_subclass(Meters)) is Kilo
    with pytest.raises(TypeError, match=r"weft.add.*Meters.*Seconds"):
        one.as_subclass(Meters) + one.as_subclass(Seconds)


def test_in_place_calls_and_out() -> None:
    m, x = weft.ones(3).as_subclass(Meters), weft.ones(3)
    same = m.add_(x)
    assert same is m and m.tolist() == [2.0, 2.0, 2.0]
    m += 1
    assert type(m) is Meters
    assert type(x.add_(m)) is Meters and x.tolist() == [4.0, 4.0, 4.0]
    m[0] = 7
    x[1] = m[0]
    assert x.tolist() == [4.0, 7.0, 4.0]
    target = weft.empty(3)
    assert type(weft.add(m, 1, out=target)) is Meters and target.tolist() == [8.0, 4.0, 4.0]


def test_gradients_flow_through_subclasses(rng: np.random.Generator) -> None:
    data = rng.standard_normal(5)
    leaf = weft.tensor(data, requires_grad=True)
    m = leaf.as_subclass(Meters)
    (g,) = weft.autograd.grad((m * m * m).sum(), leaf, create_graph=True)
    np.testing.assert_allclose(g.detach().numpy(), 3 * data**2)
    (gg,) = weft.autograd.grad(g.sum(), leaf)
    np.testing.assert_allclose(gg.numpy(), 6 * data)
    own = weft.tensor(data).as_subclass(Meters).requires_grad_()
    seen: list[type] = []
    y = own * 2
    y.register_hook(lambda gradient: seen.append(type(gradient)))
    y.sum().backward()
    assert (
        type(own.grad) is weft.Tensor and own.grad is own.grad and own.grad.tolist() == [2.0] * 5
        and seen == [weft.Tensor]
    )
    assert own.is_leaf and not y.is_leaf
    assert type(weft.autograd.grad(own.sum(), own)[0]) is Meters


def test_as_subclass_shares_memory_and_history() -> None:
    leaf = weft.ones(3, requires_grad=True)
    m = leaf.as_subclass(Meters)
    assert m.data_ptr() == leaf.data_ptr() and not m.is_leaf
    m.sum().backward()
    assert leaf.grad is not None and leaf.grad.tolist() == [1.0] * 3
    made = weft.Tensor._make_subclass(Meters, leaf, True)
    assert made.is_leaf and made.requires_grad and made.data_ptr() == leaf.data_ptr()
    with pytest.raises(TypeError, match="subclass of Tensor"):
        leaf.as_subclass(int)
    with weft.no_grad():
        made.add_(1)
    assert leaf.tolist() == [2.0] * 3
    with pytest.raises(weft.WeftError, match="modified by an inplace operation"):
        squared = leaf * leaf
        with weft.no_grad():
            made.mul_(2)
        squared.sum().backward()


def test_constructors() -> None:
    class Tagged(weft.Tensor):
        def __new__(cls, data: Any, tag: str) -> Any:
            return super().__new__(cls, data)

        def __init__(self, data: Any, tag: str) -> None:
            self.tag = tag

    class Plain(weft.Tensor):
        def __init__(self, data: Any, unit: str = "m") -> None:
            super().__init__(data)
            self.unit = unit

    t = Tagged([1, 2], "a")
    assert type(t) is Tagged and t.tag == "a" and t.tolist() == [1.0, 2.0] and t.dtype is weft.float32
    assert Plain(weft.ones(2)).unit == "m" and type(Plain(np.ones(2)) * 2) is Plain
    assert Meters(weft.arange(2)).dtype is weft.int64
    assert (
        type(Meters(2, 3)) is Meters and Meters(2, 3).shape == (2, 3) and Meters(np.ones(2)).dtype is weft.float32
        and Meters().shape == (0,)
    )


def test_copies_and_pickles() -> None:
    m = weft.ones(2).as_subclass(Meters).requires_grad_()
    m.note = "n"
    for other in (copy.deepcopy(m), copy.copy(m), pickle.loads(pickle.dumps(m))):
        assert type(other) is Meters and other.note == "n" and other.requires_grad and other.tolist() == [1.0, 1.0]


def test_printing() -> None:
    m = weft.ones(2).as_subclass(Meters)
    assert repr(m) == "Meters([1., 1.])" and repr(Parameter(m)) == "Parameter(Meters([1., 1.], requires_grad=True))"


# ---- a handler of one's own
def test_the_handler_sees_the_public_function(log: list[str]) -> None:
    x, y = weft.ones(3).as_subclass(Logged), weft.ones(3)
    x + 1, y + x, 1 - x, weft.add(y, x), F.relu(
        x
    ), x.sum(), weft.sum(x), x.shape, x.grad, x.add_(1), x[0], weft.linalg.norm(x), F.hinge_embedding_loss(x, y)
    y.type_as(x), y.where(x > 0, y)
    x.grad = weft.ones(3)
    assert log == [
        "weft.Tensor.add", "weft.Tensor.add", "weft.Tensor.__rsub__", "weft.add", "weft.nn.functional.relu",
        "weft.Tensor.sum", "weft.sum", "weft.Tensor.shape.__get__", "weft.Tensor.grad.__get__", "weft.Tensor.add_",
        "weft.Tensor.__getitem__", "weft.linalg.norm", "weft.nn.functional.hinge_embedding_loss", "weft.Tensor.type_as",
        "weft.Tensor.gt", "weft.Tensor.where", "__set__",
    ]


def test_a_table_of_functions_on_a_class_that_is_no_tensor() -> None:
    handled: dict[Any, Any] = {}

    class Diagonal:
        def __init__(self, n: int, value: float) -> None:
            self.n, self.value = n, value

        @classmethod
        def __weft_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            if func not in handled or not all(issubclass(t, (weft.Tensor, Diagonal)) for t in types):
                return NotImplemented
            return handled[func](*args, **(kwargs or {}))

    def dense(d: Any) -> weft.Tensor:
        return d.value * weft.eye(d.n) if isinstance(d, Diagonal) else d

    handled[weft.mean] = lambda d: d.value / d.n
    handled[weft.add] = lambda a, b: Diagonal(a.n, a.value + b.value) if isinstance(a, Diagonal) and isinstance(
        b, Diagonal
    ) else dense(a) + dense(b)
    handled[weft.Tensor.add] = handled[weft.add]
    handled[F.mse_loss] = lambda a, b: ((dense(a) - dense(b)) ** 2).mean()
    handled[weft.cat] = lambda listed, dim=0: weft.cat([dense(d) for d in listed], dim)

    d = Diagonal(2, 3.0)
    assert weft.mean(d) == 1.5 and weft.add(d, d).value == 6.0
    assert (weft.ones(2, 2) + d).tolist() == [[4.0, 1.0], [1.0, 4.0]]
    assert weft.add(weft.ones(2, 2), d).tolist() == [[4.0, 1.0], [1.0, 4.0]]
    assert F.mse_loss(d, weft.zeros(2, 2)).item() == 4.5
    assert weft.cat([weft.zeros(1, 2), d], dim=0).shape == (3, 2)
    handled[weft.relu_] = handled[weft.as_strided] = lambda *args: "in hand"
    assert weft.relu_(d) == "in hand" and weft.as_strided(d, (1,), (1,)) == "in hand" and weft.relu_ is weft.relu_
    with pytest.raises(TypeError, match=r"no implementation found for 'weft.mul' .*Diagonal"):
        weft.mul(d, 2)
    with pytest.raises(TypeError, match="no implementation"):
        weft.pow(2, d)


def test_units_are_carried(rng: np.random.Generator) -> None:
    class Quantity(weft.Tensor):
        unit: dict[str, int]

        @staticmethod
        def of(data: weft.Tensor, **unit: int) -> Any:
            out = data.as_subclass(Quantity)
            out.unit = unit
            return out

        @classmethod
        def __weft_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            out = super().__weft_function__(func, types, args, kwargs)
            if not isinstance(out, Quantity):
                return out
            units = [dict(getattr(a, "unit", {})) for a in args]
            if func in (weft.add, weft.Tensor.add, weft.Tensor.sub) and units[0] != units[1]:
                raise TypeError(f"units differ: {units}")
            unit = units[0] if units else {}
            if func in (weft.mul, weft.Tensor.mul):
                unit = {k: units[0].get(k, 0) + units[1].get(k, 0) for k in units[0] | units[1]}
            out.unit = unit
            return out

    x = Quantity.of(numbers(rng, 3), m=1)
    t = Quantity.of(numbers(rng, 3), s=-1)
    speed = x * t
    assert speed.unit == {"m": 1, "s": -1} and (speed + speed).sum().unit == {"m": 1, "s": -1}
    with pytest.raises(TypeError, match="units differ"):
        x + t


def test_order_of_asking_and_not_implemented() -> None:
    asked: list[str] = []

    class A(weft.Tensor):
        @classmethod
        def __weft_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            asked.append(f"{cls.__name__}{[t.__name__ for t in types]}")
            return NotImplemented

    class B(A):
        pass

    class C:
        @classmethod
        def __weft_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            asked.append("C")
            return "c"

    a, b = weft.ones(1).as_subclass(A), weft.ones(1).as_subclass(B)
    asked.clear()
    assert weft.stack([a, b, a, C()]) == "c"
    assert asked == ["B['B', 'A', 'C']", "A['B', 'A', 'C']", "C"]
    with pytest.raises(TypeError, match="no implementation found"):
        weft.add(a, b)


def test_blocks_that_ask_nobody(log: list[str]) -> None:
    x = weft.ones(2).as_subclass(Logged)
    with overrides.DisableWeftFunctionSubclass():
        out = x + 1
    assert type(out) is weft.Tensor and log == []
    with overrides.DisableWeftFunction(), overrides.DisableWeftFunctionSubclass():
        assert type(weft.sum(x)) is weft.Tensor
    assert log == [] and type(x + 1) is Logged


def test_classes_that_opt_out() -> None:
    class Out(weft.Tensor):
        __weft_function__ = overrides.disabled_weft_function

    out = weft.Tensor._make_subclass(Out, weft.ones(2))
    assert type(out + 1) is weft.Tensor and type(weft.ones(2) * out) is weft.Tensor
    assert not overrides.has_weft_function((out,))


def test_questions() -> None:
    x, m = weft.ones(1), weft.ones(1).as_subclass(Meters)
    assert overrides.has_weft_function((x, m)) and not overrides.has_weft_function((x, 3, Parameter(x)))
    assert overrides.is_tensor_like(x) and overrides.is_tensor_like(m) and not overrides.is_tensor_like(3)
    assert (
        overrides.resolve_name(weft.add) == "weft.add" and overrides.resolve_name(weft.Tensor.add) == "weft.Tensor.add"
    )
    assert (
        [f.__name__ for f in (weft.Tensor.__getitem__, weft.Tensor.__setitem__, weft.Tensor.type)]
        == ["__getitem__", "__setitem__", "type"]
    )
    assert (
        overrides.resolve_name(weft.Tensor.shape.__get__) == "weft.Tensor.shape.__get__"
        and overrides.resolve_name(print) is None
    )
    listed = overrides.get_overridable_functions()
    assert weft.matmul in listed[weft] and F.softmax in listed[F] and weft.Tensor.add_ in listed[weft.Tensor]
    assert (
        overrides.is_tensor_method_or_property(weft.Tensor.shape.__get__)
        and not overrides.is_tensor_method_or_property(weft.add)
    )


def test_wrapping_functions_of_ones_own(log: list[str]) -> None:
    @overrides.wrap_weft_function(lambda a, b=None: (a, b))
    def double(a: Any, b: Any = None) -> Any:
        return a * 2

    assert type(double(weft.ones(1))) is weft.Tensor
    assert type(double(weft.ones(1), weft.ones(1).as_subclass(Logged))) is Logged and log == ["double"]

    def manual(a: Any) -> Any:
        if overrides.has_weft_function((a,)):
            return overrides.handle_weft_function(manual, (a,), a)
        return a + 1

    assert type(manual(weft.ones(1).as_subclass(Logged))) is Logged and log == ["double", "manual"]


# ---- modules
@pytest.mark.parametrize("make", [
    lambda: nn.LSTM(4, 4, batch_first=True), lambda: nn.GRUCell(4, 4), lambda: nn.Tanh(), lambda: nn.Sigmoid(),
    lambda: nn.BatchNorm1d(3), lambda: nn.MultiheadAttention(4, 2, batch_first=True),
    lambda: nn.TransformerEncoderLayer(4, 2, 8, batch_first=True), lambda: nn.Conv1d(3, 2, 2),
    lambda: nn.MaxPool1d(2), lambda: nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.LayerNorm(4), nn.Dropout(0.5)),
    lambda: nn.Flatten(), lambda: nn.GELU(),
])
def test_modules_keep_the_class(make: Any) -> None:
    module = make()
    shape = (3, 4) if isinstance(module, nn.GRUCell) else (2, 3, 4)
    x = weft.ones(*shape).as_subclass(Meters)
    out = module(x, x, x) if isinstance(module, nn.MultiheadAttention) else module(x)
    assert type(out[0] if isinstance(out, tuple) else out) is Meters


def test_parameters_of_a_subclass_train(rng: np.random.Generator) -> None:
    class Layer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.w = Parameter(weft.tensor(rng.standard_normal((3, 2)).astype(np.float32)).as_subclass(Meters))
            self.linear = nn.Linear(2, 1)

        def forward(self, x: weft.Tensor) -> weft.Tensor:
            return self.linear(x @ self.w)

    model = Layer()
    assert [type(p) for p in model.parameters()] == [Meters, Parameter, Parameter]
    assert isinstance(model.w, Parameter) and not isinstance(weft.ones(1).as_subclass(Meters), Parameter)
    before = model.w.detach().clone()
    out = model(weft.ones(4, 3))
    assert type(out) is Meters
    out.sum().backward()
    gradient = model.w.grad.clone()
    weft.optim.SGD(model.parameters(), lr=0.5).step()
    np.testing.assert_allclose(model.w.detach().numpy(), (before - 0.5 * gradient).numpy(), rtol=1e-6)
    assert type(copy.deepcopy(model).w) is Meters and isinstance(copy.deepcopy(model).w, Parameter)
    model.load_state_dict(model.state_dict())


def test_custom_functions_and_checkpoint(rng: np.random.Generator) -> None:
    class Square(weft.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: weft.Tensor) -> weft.Tensor:
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx: Any, g: weft.Tensor) -> weft.Tensor:
            (x,) = ctx.saved_tensors
            return 2 * g * x

    data = rng.standard_normal(3)
    x = weft.tensor(data).as_subclass(Meters).requires_grad_()
    y = weft.utils.checkpoint.checkpoint(lambda t: weft.exp(Square.apply(t)), x, use_reentrant=False)
    y.sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), 2 * data * np.exp(data**2))


def test_a_process_without_such_classes_looks_for_none() -> None:
    code = (
        "import weft, weft.nn, weft.optim, weft.func, weft.utils, weft.overrides\n"
        "from weft.ops import overrides\nfrom weft.tensor.wrapper import wrapper_classes\n"
        "model = weft.nn.Linear(2, 2)\nmodel(weft.ones(1, 2)).sum().backward()\n"
        "assert not overrides.override_classes and not wrapper_classes and weft.nn.Parameter in overrides.plain_kinds\n"
        "class Mine(weft.Tensor): pass\n"
        "assert overrides.override_classes == [Mine]"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)


# ---- how classes may be defined
class Greeting:
    def hello(self) -> str:
        return "hello"


T = TypeVar("T")


def test_mixins_generics_metaclasses_and_several_bases() -> None:
    class Mixed(Greeting, weft.Tensor):
        pass

    class Abstract(weft.Tensor, metaclass=abc.ABCMeta):
        pass

    class Listed(weft.Tensor, Generic[T]):
        pass

    class Slotted(weft.Tensor):
        __slots__ = ("tag",)

    class Both(Meters, Seconds):
        pass

    assert (Mixed([1.0]) + 1).hello() == "hello"
    for kind in (Abstract, Listed, Slotted, Both):
        assert type(kind([1.0]) * 2) is kind
    assert type(Both([1.0]) + Meters([1.0])) is Both
    slotted = Slotted([1.0])
    slotted.tag = 3
    assert slotted.tag == 3


def test_methods_of_the_class_go_before_those_of_tensor() -> None:
    class Own(weft.Tensor):
        def __repr__(self) -> str:
            return "own"

        @property
        def shape(self) -> Any:
            return "mine"

        def sum(self) -> Any:
            return super().sum() * 2

        def __add__(self, other: Any) -> Any:
            return "plus"

    own = Own([1.0, 2.0])
    assert (
        (repr(own), own.shape, own + 1, own.sum().tolist(), weft.sum(own).tolist()) == ("own", "mine", "plus", 6.0, 3.0)
    )


def test_classes_derived_from_parameter() -> None:
    seen: list[str] = []

    class Tagged(Parameter):
        def __init__(self, data: weft.Tensor, tag: str) -> None:
            super().__init__(data)
            self.tag = tag

    class Asked(Parameter):
        @classmethod
        def __weft_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            seen.append(func.__name__)
            with overrides.DisableWeftFunctionSubclass():
                return func(*args, **(kwargs or {}))

    p = Tagged(weft.ones(2), "x")
    assert (
        p.tag == "x" and p.requires_grad and isinstance(p, Parameter) and type(p * 2) is weft.Tensor
        and copy.deepcopy(p).tag == "x"
    )
    q = Asked(weft.ones(2))
    seen.clear()
    (q * 2).sum().backward()
    assert seen == ["mul"] and q.grad is not None and q.grad.tolist() == [2.0, 2.0]
