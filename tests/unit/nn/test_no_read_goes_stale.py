"""Whatever way a step reads Python state, the next call sees that it changed, and that it changed back;
where nothing changed nothing is captured."""

from __future__ import annotations

import sys
import types
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

import weft


@dataclass(frozen=True)
class Read:
    """A program whose `step(x)` reads something, a statement that changes it, and one that changes it back."""

    program: str
    change: str
    back: str


READS = {
    "an attribute of a parameter": Read(
        "w = weft.nn.Parameter(weft.ones(3)); w.decay = True\ndef step(x): return x * (2 if w.decay else 3)",
        "w.decay = False", "w.decay = True",
    ),
    "an attribute that parameters may have": Read(
        """
        m = weft.nn.Sequential(weft.nn.Linear(3, 3), weft.nn.Linear(3, 3))
        def step(x): return x * sum(1 for p in m.parameters() if getattr(p, 'no_decay', False))
        """,
        "m[1].bias.no_decay = True",
        "del m[1].bias.no_decay",
    ),
    "an attribute of the argument": Read(
        "y = weft.ones(3); y.scale = 2\ndef step(x): return x * inner(y)\ndef inner(y): return getattr(y, 'scale', 1)",
        "y.scale = 5", "y.scale = 2",
    ),
    "an attribute of an optimizer's parameters": Read(
        """
        ps = [weft.nn.Parameter(weft.ones(3)) for _ in range(3)]
        o = weft.optim.SGD(ps, lr=0.1)
        def step(x):
            for group in o.param_groups:
                for p in group['params']:
                    x = x * (3 if hasattr(p, 'frozen') else 2)
            return x
        """,
        "ps[1].frozen = True",
        "del ps[1].frozen",
    ),
    "a class attribute of a tensor": Read(
        "class T(weft.Tensor): k = 2.\ns = weft.ones(3).as_subclass(T)\ndef step(x): return x * s.k",
        "T.k = 3.", "T.k = 2.",
    ),
    "a class attribute with a default": Read(
        "class A: pass\na = A()\ndef step(x): return x * getattr(a, 'k', 2.)", "A.k = 7.", "del A.k"
    ),
    "a class attribute asked for": Read(
        "class A: pass\na = A()\ndef step(x): return x * (3 if hasattr(a, 'k') else 2)", "A.k = 7.", "del A.k"
    ),
    "a class attribute tried": Read(
        """
        class A: pass
        a = A()
        def step(x):
            try: return x * a.k
            except AttributeError: return x
        """,
        "A.k = 7.",
        "del A.k",
    ),
    "a class attribute of a class behind": Read(
        "class A: k = 2.\nclass B(A): pass\nclass C(B): pass\na = C()\ndef step(x): return x * a.k",
        "B.k = 7.", "del B.k",
    ),
    "a __getattr__ that appears": Read(
        "class A: pass\na = A()\ndef step(x): return x * getattr(a, 'k', 2.)", "A.__getattr__ = lambda s, n: 7.",
        "del A.__getattr__",
    ),
    "a property over an attribute": Read(
        "class A: pass\na = A(); a.k = 2.\ndef step(x): return x * a.k", "A.k = property(lambda s: 7.)", "del A.k"
    ),
    "a class's own attribute": Read(
        "class A: k = 2.\nclass B(A): pass\ndef step(x): return x * B.k", "B.k = 7.", "del B.k"
    ),
    "a truth value": Read(
        "class A:\n    def __len__(s): return 0\na = A()\ndef step(x): return x * (2 if a else 3)",
        "A.__bool__ = lambda s: True", "del A.__bool__",
    ),
    "an equality": Read(
        "class A: pass\na, b = A(), A()\ndef step(x): return x * (2 if a == b else 3)", "A.__eq__ = lambda s, o: True",
        "del A.__eq__",
    ),
    "an operator": Read(
        "class A:\n    def __add__(s, o): return 2.\nclass B(A): pass\na = B()\ndef step(x): return x * (a + 1)",
        "B.__add__ = lambda s, o: 7.", "del B.__add__",
    ),
    "a static method": Read(
        """
        class A:
            @staticmethod
            def g(x): return x + 1
        class B(A): pass
        def step(x): return B.g(x)
        """,
        "B.g = staticmethod(lambda x: x - 1)",
        "del B.g",
    ),
    "the order of a ModuleDict": Read(
        """
        m = weft.nn.ModuleDict({'a': weft.nn.Tanh(), 'b': weft.nn.Hardtanh(-.3, .3)})
        def step(x):
            for k in m: x = m[k](x) * 2
            return x
        """,
        "t = m.pop('a'); m['a'] = t",
        "t = m.pop('b'); m['b'] = t",
    ),
    "the order of a Sequential": Read(
        "m = weft.nn.Sequential(weft.nn.Tanh(), weft.nn.Hardtanh(-.3, .3))\ndef step(x): return m(x)",
        "m._modules['0'] = m._modules.pop('0')",
        "m._modules['1'] = m._modules.pop('1')",
    ),
    "the order of parameters": Read(
        """
        m = weft.nn.Module(); m.a = weft.nn.Parameter(weft.ones(3)); m.b = weft.nn.Parameter(weft.ones(3) * 3)
        def step(x):
            for p in m.parameters(): x = x * 2 + p
            return x
        """,
        "m._parameters['a'] = m._parameters.pop('a')",
        "m._parameters['b'] = m._parameters.pop('b')",
    ),
    "saved tensors hooks": Read(
        """
        w = weft.ones(3, requires_grad=True)
        h = weft.autograd.graph.saved_tensors_hooks(lambda t: t * 2, lambda t: t)
        def step(x):
            w.grad = None
            (w * w * x).sum().backward()
            return w.grad.clone()
        """,
        "h.__enter__()",
        "h.__exit__(None, None, None)",
    ),
    "a function of weft": Read(
        "def step(x): return weft.relu(x)", "old = weft.relu; weft.relu = lambda x: x * 2", "weft.relu = old"
    ),
    "a function of weft.nn.functional": Read(
        "F = weft.nn.functional\ndef step(x): return F.relu(x)", "old = F.relu; F.relu = lambda x: x * 2",
        "F.relu = old",
    ),
    "a method of Tensor": Read(
        "def step(x): return (x + 1).sigmoid()", "old = weft.Tensor.sigmoid; weft.Tensor.sigmoid = lambda x: x * 2",
        "weft.Tensor.sigmoid = old",
    ),
    "an operator of Tensor": Read(
        "def step(x): return x * 2.5", "old = weft.Tensor.__mul__; weft.Tensor.__mul__ = lambda x, y: x + y",
        "weft.Tensor.__mul__ = old",
    ),
    "a method of an optimizer's class": Read(
        """
        w = weft.nn.Parameter(weft.ones(3)); o = weft.optim.SGD([w], lr=0.5)
        def step(x):
            o.zero_grad(); (w * x).sum().backward(); o.step()
            return w.detach() * 1
        """,
        "old = weft.optim.SGD.step; weft.optim.SGD.step = lambda s: None",
        "weft.optim.SGD.step = old",
    ),
    "a method of an optimizer": Read(
        """
        w = weft.nn.Parameter(weft.ones(3)); o = weft.optim.SGD([w], lr=0.5)
        def step(x):
            o.zero_grad(); (w * x).sum().backward(); o.step()
            return w.detach() * 1
        """,
        "o.step = lambda: None",
        "del o.step",
    ),
    "a function of math": Read(
        "import math\nk = 0.5\ndef step(x): return x * math.cos(k)", "old = math.cos; math.cos = lambda x: 9.",
        "math.cos = old",
    ),
    "a computed name, shadowed": Read(
        "class A: ka = 2.\na = A(); n = 'a'\ndef step(x): return x * getattr(a, 'k' + n)", "a.ka = 9.", "del a.ka"
    ),
    "a computed name of a class": Read(
        "class A: ka = 2.\nclass B(A): pass\nn = 'a'\ndef step(x): return x * getattr(B, 'k' + n)",
        "B.ka = 9.", "del B.ka",
    ),
    "a computed name that appears": Read(
        "class A: pass\na = A(); n = 'a'\ndef step(x): return x * getattr(a, 'k' + n, 2.)", "A.ka = 9.", "del A.ka"
    ),
    "a match": Read(
        """
        class P:
            __match_args__ = ('a',)
            def __init__(s, a): s.a = a
        p = P(2.)
        def step(x):
            match p:
                case P(a): return x * a
        """,
        "p.a = 4.",
        "p.a = 2.",
    ),
    "a match by keyword": Read(
        """
        class P: pass
        p = P(); p.b = 'x'; q = [p]
        def step(x):
            match q:
                case [P(b='x')]: return x * 2
                case [P(b='y')]: return x * 3
        """,
        "p.b = 'y'",
        "p.b = 'x'",
    ),
    "the backward of a Function": Read(
        """
        class Fn(weft.autograd.Function):
            @staticmethod
            def forward(ctx, a): return a * 2
            @staticmethod
            def backward(ctx, g): return g * 7
        w = weft.ones(3, requires_grad=True)
        def step(x):
            w.grad = None
            Fn.apply(w * x).sum().backward()
            return w.grad.clone()
        old = Fn.__dict__['backward']
        """,
        "Fn.backward = staticmethod(lambda ctx, g: g * 11)",
        "Fn.backward = old",
    ),
    "dataclasses.asdict": Read(
        (
            "import dataclasses\n@dataclasses.dataclass\nclass P: a: float = 2.\np = P()\n"
            "def step(x): return x * dataclasses.asdict(p)['a']"
        ),
        "p.a = 4.", "p.a = 2.",
    ),
    "dataclasses.replace": Read(
        "import dataclasses\n@dataclasses.dataclass\nclass P:\n    a: float = 2.\n    b: int = 1\np = P()\n"
        "def step(x): return x * dataclasses.replace(p, b=3).a",
        "p.a = 4.",
        "p.a = 2.",
    ),
    "dataclasses.astuple, nested": Read(
        """
        import dataclasses
        @dataclasses.dataclass
        class P: a: float = 2.
        @dataclasses.dataclass
        class Q: p: P
        q = Q(P())
        def step(x): return x * dataclasses.astuple(q)[0][0]
        """,
        "q.p.a = 4.",
        "q.p.a = 2.",
    ),
    "map with attrgetter": Read(
        """
        import operator
        class A:
            def __init__(s, k): s.k = k
        L = [A(1.), A(2.)]
        def step(x): return x * sum(map(operator.attrgetter('k'), L))
        """,
        "L[0].k = 5.",
        "L[0].k = 1.",
    ),
    "max by attrgetter": Read(
        """
        from operator import attrgetter
        class A:
            def __init__(s, k, v): s.k, s.v = k, v
        L = [A(1., 3), A(2., 4)]
        def step(x): return x * max(L, key=attrgetter('k')).v
        """,
        "L[0].k = 5.",
        "L[0].k = 1.",
    ),
    "sorted by itemgetter": Read(
        "from operator import itemgetter\nL = [{'k': 1, 'v': 5}, {'k': 2, 'v': 6}]\n"
        "def step(x): return x * sorted(L, key=itemgetter('k'))[0]['v']",
        "L[0]['k'] = 9",
        "L[0]['k'] = 1",
    ),
    "a method by name": Read(
        """
        from operator import methodcaller
        class A:
            def __init__(s, k): s.k = k
            def get(s): return s.k
        L = [A(1.), A(2.)]
        def step(x): return x * sum(map(methodcaller('get'), L))
        """,
        "L[0].k = 5.",
        "L[0].k = 1.",
    ),
    "a context variable": Read(
        (
            "import contextvars\nv = contextvars.ContextVar('v', default=2.)\nt = v.set(2.)\n"
            "def step(x): return x * v.get()"
        ),
        "v.set(3.)", "v.set(2.)",
    ),
    "a context variable's default": Read(
        "import contextvars\nv = contextvars.ContextVar('v', default=2.)\ndef step(x): return x * v.get()",
        "t = v.set(3.)", "v.reset(t)",
    ),
    "threading.local": Read(
        "import threading\nv = threading.local(); v.k = 2.\ndef step(x): return x * v.k", "v.k = 3.", "v.k = 2."
    ),
    "an absent threading.local": Read(
        "import threading\nv = threading.local()\ndef step(x): return x * getattr(v, 'k', 2.)", "v.k = 3.", "del v.k"
    ),
    "MappingProxyType": Read(
        "import types\nd = {'k': 2.}; p = types.MappingProxyType(d)\ndef step(x): return x * p['k']", "d['k'] = 3.",
        "d['k'] = 2.",
    ),
    "a view of a dict": Read(
        "d = {'k': 2.}; p = d.values()\ndef step(x): return x * sum(p)", "d['k'] = 3.", "d['k'] = 2."
    ),
    "bytearray": Read("a = bytearray(b'\\2\\3')\ndef step(x): return x * a[0]", "a[0] = 5", "a[0] = 2"),
    "array.array": Read(
        "import array\na = array.array('d', [2.])\ndef step(x): return x * a[0]", "a[0] = 5.", "a[0] = 2."
    ),
    "memoryview": Read(
        "b = bytearray(b'\\2\\3'); a = memoryview(b)\ndef step(x): return x * a[1]", "b[1] = 5", "b[1] = 3"
    ),
    "an abstract class": Read(
        (
            "import abc\nclass P(abc.ABC): pass\nclass A: pass\na = A()\n"
            "def step(x): return x * (3 if isinstance(a, P) else 2)"
        ),
        "P.register(A)", "P = abc.ABCMeta('P', (), {})",
    ),
    "a hook that unpacks": Read(
        """
        k = [2.]
        def step(x):
            x = x.requires_grad_()
            with weft.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: t * k[0]):
                y = (x * x).sin().sum()
            return weft.autograd.grad(y, (x,))[0]
        """,
        "k[0] = 5.",
        "k[0] = 2.",
    ),
    "a weak reference": Read(
        (
            "import weakref\nclass A: pass\na = A(); r = weakref.ref(a)\n"
            "def step(x): return x * (2 if r() is not None else 3)"
        ),
        "del a", "a = A(); r = weakref.ref(a)",
    ),
    "an attribute behind a weak reference": Read(
        (
            "import weakref\nclass A: k = 2.\na = A(); a.k = 2.; r = weakref.ref(a)\n"
            "def step(x): return x * (r().k if r() is not None else 3)"
        ),
        "del a", "a = A(); r = weakref.ref(a)",
    ),
    "a weak dictionary": Read(
        """
        import weakref
        class A: pass
        a, d = A(), weakref.WeakValueDictionary()
        d['a'] = a
        def step(x): return x * (2 if 'a' in d else 3)
        """,
        "del a",
        "a = A(); d['a'] = a",
    ),
    "the size of a queue": Read(
        "import queue\nq = queue.Queue()\ndef step(x): return x * (1 + q.qsize())", "q.put(1)", "q.get()"
    ),
    "a UserDict": Read(
        "import collections\nd = collections.UserDict(k=2.)\ndef step(x): return x * d.get('k', 1.)", "d['k'] = 5.",
        "d['k'] = 2.",
    ),
    "a module imported inside": Read(
        "import sys, types\nsys.modules['zmod'] = m1 = types.ModuleType('zmod'); m1.k = 2.\ndef step(x):\n"
        "    import zmod\n    return x * zmod.k",
        "m2 = types.ModuleType('zmod'); m2.k = 5.; sys.modules['zmod'] = m2",
        "sys.modules['zmod'] = m1",
    ),
    "a name imported inside": Read(
        "import sys, types\nsys.modules['zmod'] = m1 = types.ModuleType('zmod'); m1.k = 2.\ndef step(x):\n"
        "    from zmod import k\n    return x * k",
        "m1.k = 5.",
        "m1.k = 2.",
    ),
    "the number of threads": Read(
        "before = weft.get_num_threads(); weft.set_num_threads(1)\ndef step(x): return x * weft.get_num_threads()",
        "weft.set_num_threads(2)", "weft.set_num_threads(1)",
    ),
}


def test_a_cached_function_is_asked_again_once_its_cache_is_cleared() -> None:
    state, scope = [2.0], {"functools": __import__("functools")}
    scope["state"] = state
    exec("@functools.lru_cache\ndef k(): return state[0]\ndef step(x): return x * k()", scope)
    step, clear = weft.compile(scope["step"], backend="interpret"), scope["k"].cache_clear
    x = weft.ones(3)
    assert step(x)[0].item() == step(x)[0].item() == 2.0
    state[0] = 5.0
    assert step(x)[0].item() == 2.0
    clear()
    assert step(x)[0].item() == 5.0
    before = weft.counters.captures
    assert step(x)[0].item() == 5.0 and weft.counters.captures == before


@pytest.fixture(autouse=True)
def _keep() -> Iterator[None]:
    threads, modules = weft.get_num_threads(), set(sys.modules)
    yield
    weft.set_num_threads(threads)
    for name in set(sys.modules) - modules:
        if name.startswith("zmod"):
            del sys.modules[name]


def _run(read: Read, compiled: bool) -> tuple[list[Any], list[int]]:
    """The results of two calls before the change, after it, and after the change back;
    and the captures before each pair's second call."""
    module = sys.modules["zmod_user"] = types.ModuleType("zmod_user")
    scope = module.__dict__
    scope["weft"] = weft
    exec(_dedent(read.program), scope)
    if compiled:
        scope["step"] = weft.compile(scope["step"], backend="interpret")
    results, captures = [], []
    for statement in ("", read.change, read.back):
        exec(statement, scope)
        for _ in range(2):
            results.append(scope["step"](weft.arange(1.0, 4.0) / 2).detach().tolist())
            captures.append(weft.counters.captures)
    return results, captures


def _dedent(text: str) -> str:
    lines = text.splitlines()
    indent = (
        min((len(line) - len(line.lstrip()) for line in lines[1:] if line.strip()), default=0) if not lines[0] else 0
    )
    return "\n".join(line[indent:] for line in lines)


@pytest.mark.parametrize("name", READS)
def test_the_next_call_equals_eager(name: str) -> None:
    expected, _ = _run(READS[name], False)
    results, captures = _run(READS[name], True)
    assert expected[0] != expected[2], "the change changes nothing"
    for found, wanted in zip(results, expected, strict=True):
        assert found == pytest.approx(wanted), (results, expected)
    assert captures[0] == captures[1] and captures[2] == captures[3] and captures[4] == captures[5], captures
