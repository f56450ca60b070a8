"""Whatever way a step reads Python state, the next call sees that it changed, and that it changed back; where nothing changed nothing is captured."""

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
        "w = weft.nn.Parameter(weft.ones(3)); w.decay = True\ndef step(x): return x * (2 if w.decay else 3)", "w.decay = False", "w.decay = True"
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
        "y = weft.ones(3); y.scale = 2\ndef step(x): return x * inner(y)\ndef inner(y): return getattr(y, 'scale', 1)", "y.scale = 5", "y.scale = 2"
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
        "class T(weft.Tensor): k = 2.\ns = weft.ones(3).as_subclass(T)\ndef step(x): return x * s.k", "T.k = 3.", "T.k = 2."
    ),
    "a class attribute with a default": Read("class A: pass\na = A()\ndef step(x): return x * getattr(a, 'k', 2.)", "A.k = 7.", "del A.k"),
    "a class attribute asked for": Read("class A: pass\na = A()\ndef step(x): return x * (3 if hasattr(a, 'k') else 2)", "A.k = 7.", "del A.k"),
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
        "class A: k = 2.\nclass B(A): pass\nclass C(B): pass\na = C()\ndef step(x): return x * a.k", "B.k = 7.", "del B.k"
    ),
    "a __getattr__ that appears": Read(
        "class A: pass\na = A()\ndef step(x): return x * getattr(a, 'k', 2.)", "A.__getattr__ = lambda s, n: 7.", "del A.__getattr__"
    ),
    "a property over an attribute": Read(
        "class A: pass\na = A(); a.k = 2.\ndef step(x): return x * a.k", "A.k = property(lambda s: 7.)", "del A.k"
    ),
    "a class's own attribute": Read("class A: k = 2.\nclass B(A): pass\ndef step(x): return x * B.k", "B.k = 7.", "del B.k"),
    "a truth value": Read("class A:\n    def __len__(s): return 0\na = A()\ndef step(x): return x * (2 if a else 3)", "A.__bool__ = lambda s: True", "del A.__bool__"),
    "an equality": Read("class A: pass\na, b = A(), A()\ndef step(x): return x * (2 if a == b else 3)", "A.__eq__ = lambda s, o: True", "del A.__eq__"),
    "an operator": Read(
        "class A:\n    def __add__(s, o): return 2.\nclass B(A): pass\na = B()\ndef step(x): return x * (a + 1)", "B.__add__ = lambda s, o: 7.", "del B.__add__"
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
    "a function of weft": Read("def step(x): return weft.relu(x)", "old = weft.relu; weft.relu = lambda x: x * 2", "weft.relu = old"),
    "a function of weft.nn.functional": Read("F = weft.nn.functional\ndef step(x): return F.relu(x)", "old = F.relu; F.relu = lambda x: x * 2", "F.relu = old"),
    "a method of Tensor": Read("def step(x): return (x + 1).sigmoid()", "old = weft.Tensor.sigmoid; weft.Tensor.sigmoid = lambda x: x * 2", "weft.Tensor.sigmoid = old"),
    "an operator of Tensor": Read(
        "def step(x): return x * 2.5", "old = weft.Tensor.__mul__; weft.Tensor.__mul__ = lambda x, y: x + y", "weft.Tensor.__mul__ = old"
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
    "a function of math": Read("import math\nk = 0.5\ndef step(x): return x * math.cos(k)", "old = math.cos; math.cos = lambda x: 9.", "math.cos = old"),
    "a module imported inside": Read(
        "import sys, types\nsys.modules['zmod'] = m1 = types.ModuleType('zmod'); m1.k = 2.\ndef step(x):\n    import zmod\n    return x * zmod.k",
        "m2 = types.ModuleType('zmod'); m2.k = 5.; sys.modules['zmod'] = m2",
        "sys.modules['zmod'] = m1",
    ),
    "a name imported inside": Read(
        "import sys, types\nsys.modules['zmod'] = m1 = types.ModuleType('zmod'); m1.k = 2.\ndef step(x):\n    from zmod import k\n    return x * k",
        "m1.k = 5.",
        "m1.k = 2.",
    ),
    "the number of threads": Read(
        "before = weft.get_num_threads(); weft.set_num_threads(1)\ndef step(x): return x * weft.get_num_threads()", "weft.set_num_threads(2)", "weft.set_num_threads(1)"
    ),
}


@pytest.fixture(autouse=True)
def _keep() -> Iterator[None]:
    threads, modules = weft.get_num_threads(), set(sys.modules)
    yield
    weft.set_num_threads(threads)
    for name in set(sys.modules) - modules:
        if name.startswith("zmod"):
            del sys.modules[name]


def _run(read: Read, compiled: bool) -> tuple[list[Any], list[int]]:
    """The results of two calls before the change, after it, and after the change back; and the captures before each pair's second call."""
    module = types.ModuleType("user_reads")
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
    indent = min((len(line) - len(line.lstrip()) for line in lines[1:] if line.strip()), default=0) if not lines[0] else 0
    return "\n".join(line[indent:] for line in lines)


@pytest.mark.parametrize("name", READS)
def test_the_next_call_equals_eager(name: str) -> None:
    expected, _ = _run(READS[name], False)
    results, captures = _run(READS[name], True)
    assert expected[0] != expected[2], "the change changes nothing"
    for found, wanted in zip(results, expected, strict=True):
        assert found == pytest.approx(wanted), (results, expected)
    assert captures[0] == captures[1] and captures[2] == captures[3] and captures[4] == captures[5], captures
