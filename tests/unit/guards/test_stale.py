"""Nothing goes stale: whatever the function read, a change of it is noticed, and said with line, old and new value;
nothing else is."""

from __future__ import annotations

import functools
import types
from collections.abc import Callable
from typing import Any

import pytest

from weft.guards import Kinds, Observation, observe

# each case: program, the function to record (an expression), the statement that changes something, the guard's path,
# irrelevant changes
CASES: dict[str, tuple[str, str, str, str, str]] = {
    "global number": ("A = 1.5\nB = 2\ndef f(x): return x * A", "f", "A = new", "global A", "B = new"),
    "global shadowing a builtin": ("def f(x): return abs(x)", "f", "abs = float", "global abs", "len = float"),
    "bool to int": ("A = True\ndef f(x): return x if A else -x", "f", "A = 1", "global A", ""),
    "int to float": ("A = 2\ndef f(x): return x * A", "f", "A = 2.0", "global A", ""),
    "signed zero": ("A = 0.0\ndef f(x): return x + A", "f", "A = -0.0", "global A", ""),
    "tuple": (
        "A = (1, 2.5, 'a')\ndef f(x): return x * A[1]",
        "f",
        "A = (1, new, 'a')",
        "global A",
        "A = (1, float('2.5'), 'a')",
    ),
    "closure cell": (
        "def make(k):\n    def f(x): return x * k\n    def put(v):\n        nonlocal k\n        k = v\n"
        "    return f, put\nf, put = make(1.25)",
        "f",
        "put(new)",
        "closure cell 'k'",
        "",
    ),
    "closure cell of a nested function": (
        "def make(k):\n    def f(x):\n        g = lambda y: y * k\n        return g(x)\n    def put(v):\n"
        "        nonlocal k\n        k = v\n    return f, put\nf, put = make(1.25)",
        "f",
        "put(new)",
        "closure cell 'k'",
        "",
    ),
    "closure cell of a helper": (
        "def make(k):\n    def g(x): return x * k\n    def put(v):\n        nonlocal k\n        k = v\n"
        "    return g, put\ng, put = make(1.25)\ndef f(x): return [h(x) for h in (g,)][0]",
        "f",
        "put(new)",
        "closure cell 'k'",
        "",
    ),
    "attribute of self": (
        "class M:\n    def __init__(self): self.t, self.u = 0.5, 1\n    def f(self, x): return x / self.t\nm = M()",
        "m.f",
        "m.t = new",
        "self.t",
        "m.u = new",
    ),
    "attribute through a call": (
        "class M:\n    def __init__(self): self.t = 0.5\n    def __call__(self, x): return x / self.t\nm = M()\n"
        "def f(x): return m(x)",
        "f",
        "m.t = new",
        "self.t",
        "m.other = new",
    ),
    "slot": (
        "class M:\n    __slots__ = ('t',)\nm = M()\nm.t = 1.5\ndef f(x): return x * m.t",
        "f",
        "m.t = new",
        "m.t",
        "",
    ),
    "class attribute": (
        "class M:\n    t = 0.5\nm = M()\ndef f(x): return x * m.t",
        "f",
        "M.t = new",
        "m.t",
        "M.u = new",
    ),
    "class attribute hidden by an instance": (
        "class M:\n    t = 0.5\nm = M()\ndef f(x): return x * m.t",
        "f",
        "m.t = new",
        "m.t",
        "",
    ),
    "attribute of the class itself": ("class M:\n    t = 0.5\ndef f(x): return x * M.t", "f", "M.t = new", "M.t", ""),
    "config dict": (
        "cfg = {'lr': 0.5, 'step': 0}\ndef f(x): return x * cfg['lr']",
        "f",
        "cfg['lr'] = new",
        "cfg['lr']",
        "cfg['step'] = 7; cfg['z'] = 1",
    ),
    "config dict by get": (
        "cfg = {'lr': 0.5}\ndef f(x): return x * cfg.get('lr', 1)",
        "f",
        "cfg['lr'] = new",
        "cfg['lr']",
        "",
    ),
    "config dict by an unknown key": (
        "cfg = {'lr': 0.5}\ndef f(x):\n    for k in ('lr',): x = x * cfg[k]\n    return x",
        "f",
        "cfg['lr'] = new",
        "cfg['lr']",
        "",
    ),
    "a key that was absent": (
        "cfg = {}\ndef f(x): return x * 2 if 'lr' in cfg else x",
        "f",
        "cfg['lr'] = new",
        "len(cfg)",
        "",
    ),
    "nested config": (
        "class C: pass\nc = C(); c.d = {'a': [C()]}; c.d['a'][0].v = 0.5\ndef f(x): return x * c.d['a'][0].v",
        "f",
        "c.d['a'][0].v = new",
        "c.d['a'][0].v",
        "c.d['b'] = 3",
    ),
    "dataclass field": (
        "import dataclasses\n@dataclasses.dataclass\nclass C:\n    lr: float = 0.5\n    n: int = 3\nc = C()\n"
        "def f(x): return x * c.lr",
        "f",
        "c.lr = new",
        "c.lr",
        "c.n = 4",
    ),
    "user module": (
        "import types\ncfg = types.ModuleType('cfg_of_user'); cfg.LR = 0.5\ndef f(x): return x * cfg.LR",
        "f",
        "cfg.LR = new",
        "cfg.LR",
        "cfg.N = 1",
    ),
    "namespace object": (
        "import argparse\na = argparse.Namespace(lr=0.5, n=2)\ndef f(x): return x * a.lr",
        "f",
        "a.lr = new",
        "a.lr",
        "a.n = 3",
    ),
    "list of numbers": (
        "A = [1.0, 2.0, 3.0]\ndef f(x):\n    for a in A: x = x * a\n    return x",
        "f",
        "A[1] = new",
        "A[1]",
        "A[1] = float('2')",
    ),
    "list length": ("A = [1.0, 2.0]\ndef f(x): return x * len(A)", "f", "A.append(new)", "len(A)", ""),
    "dict values": ("A = {'a': 1.0}\ndef f(x): return x * sum(A.values())", "f", "A['a'] = new", "A['a']", ""),
    "dict keys": (
        "A = {'a': 1.0}\ndef f(x):\n    for k in A: x = x * len(k)\n    return x",
        "f",
        "del A['a']; A['bc'] = 1.0",
        "keys of A",
        "",
    ),
    "set": (
        "A = {1, 2}\ndef f(x): return x * (1 in A)",
        "f",
        "A.remove(1); A.add(True); A.add(7); A.remove(2)",
        "A",
        "A.remove(1); A.add(1)",
    ),
    "deque": (
        "from collections import deque\nA = deque([1.0])\ndef f(x): return x * sum(A)",
        "f",
        "A[0] = new",
        "A[0]",
        "",
    ),
    "loop over blocks": (
        "class B:\n    def __init__(self): self.s = 1.5\nclass M:\n    def __init__(self): self.bs = [B(), B(), B()]\n"
        "    def f(self, x):\n        for b in self.bs: x = x * b.s\n        return x\nm = M()",
        "m.f",
        "m.bs[1].s = new",
        "self.bs[1].s",
        "m.bs[1].z = new",
    ),
    "loop over enumerate": (
        "class B:\n    def __init__(self): self.s = 1.5\nbs = [B(), B()]\ndef f(x):\n"
        "    for i, b in enumerate(bs): x = x * b.s + i\n    return x",
        "f",
        "bs[0].s = new",
        "bs[0].s",
        "",
    ),
    "comprehension": (
        "class B:\n    def __init__(self): self.s = 1.5\nbs = (B(), B())\ndef f(x): return sum([x * b.s for b in bs])",
        "f",
        "bs[1].s = new",
        "bs[1].s",
        "",
    ),
    "generator expression": (
        "class B:\n    def __init__(self): self.s = 1.5\nbs = {'p': B()}\n"
        "def f(x): return sum(x * b.s for b in bs.values())",
        "f",
        "bs['p'].s = new",
        "bs['p'].s",
        "",
    ),
    "map over a lambda": (
        "class B:\n    def __init__(self): self.s = 1.5\nbs = [B(), B()]\n"
        "def f(x): return sum(map(lambda b: b.s * x, bs))",
        "f",
        "bs[1].s = new",
        "b.s",
        "",
    ),
    "what a helper returns": (
        "class C: pass\nc = C(); c.d = C(); c.d.v = 0.5\ndef get(): return c.d\ndef f(x): return x * get().v",
        "f",
        "c.d.v = new",
        "get().v",
        "",
    ),
    "what a generator yields": (
        "class C: pass\nc = C(); c.v = 0.5\ncs = [c]\ndef gen():\n    for each in cs: yield each\ndef f(x):\n"
        "    for each in gen(): x = x * each.v\n    return x",
        "f",
        "c.v = new",
        "v",
        "",
    ),
    "alias in a local": (
        "class C: pass\nc = C(); c.d = C(); c.d.v = 0.5\ndef f(x):\n    d = c.d\n    return x * d.v",
        "f",
        "c.d.v = new",
        "c.d.v",
        "",
    ),
    "reassigned local": (
        "class C: pass\nc = C(); c.n = C(); c.v = c.n.v = 0.5\ndef f(x):\n    d = c\n    x = x * d.v\n    d = d.n\n"
        "    return x * d.v",
        "f",
        "c.n.v = new",
        "c.n.v",
        "",
    ),
    "getattr with a constant": (
        "class C: pass\nc = C(); c.v = 0.5\ndef f(x): return x * getattr(c, 'v')",
        "f",
        "c.v = new",
        "c.v",
        "c.w = 1",
    ),
    "getattr with a default": (
        "class C: pass\nc = C()\ndef f(x): return x * getattr(c, 'v', 1.0)",
        "f",
        "c.v = new",
        "c.v",
        "c.w = 1",
    ),
    "getattr with a computed name": (
        "class C: pass\nc = C(); c.v0 = 0.5\ndef f(x):\n    for i in range(1): x = x * getattr(c, 'v%d' % i)\n"
        "    return x",
        "f",
        "c.v0 = new",
        "c.v0",
        "",
    ),
    "hasattr": ("class C: pass\nc = C()\ndef f(x): return -x if hasattr(c, 'v') else x", "f", "c.v = new", "c.v", ""),
    "function redefined": ("def g(x): return x * 2\ndef f(x): return g(x)", "f", "g = lambda x: x * 3", "global g", ""),
    "code of a function": (
        "def g(x): return x * 2\ndef f(x): return g(x)",
        "f",
        "g.__code__ = (lambda x: x * 3).__code__",
        "code of g",
        "",
    ),
    "code of the function itself": (
        "def f(x): return x * 2",
        "f",
        "f.__code__ = (lambda x: x * 3).__code__",
        "code of f",
        "",
    ),
    "default argument": (
        "def g(x, k=2.0): return x * k\ndef f(x): return g(x)",
        "f",
        "g.__defaults__ = (new,)",
        "default arguments of g",
        "",
    ),
    "keyword default": (
        "def g(x, *, k=2.0): return x * k\ndef f(x): return g(x)",
        "f",
        "g.__kwdefaults__['k'] = new",
        "default arguments of g",
        "",
    ),
    "list as default argument": (
        "def g(x, k=[2.0]): return x * k[0]\ndef f(x): return g(x)",
        "f",
        "g.__defaults__[0][0] = new",
        "k[0]",
        "",
    ),
    "method replaced on the class": (
        "class M:\n    def g(self, x): return x * 2\nm = M()\ndef f(x): return m.g(x)",
        "f",
        "M.g = lambda self, x: x * 3",
        "M.g",
        "M.h = 1",
    ),
    "method replaced on the instance": (
        "class M:\n    def g(self, x): return x * 2\nm = M()\ndef f(x): return m.g(x)",
        "f",
        "m.g = lambda x: x * 3",
        "m.g",
        "",
    ),
    "method overridden between": (
        "class A:\n    def g(self, x): return x * 2\nclass M(A): pass\nm = M()\ndef f(x): return m.g(x)",
        "f",
        "M.g = lambda s, x: x",
        "M.g",
        "",
    ),
    "super": (
        "class A:\n    def g(self, x): return x * self.s\nclass M(A):\n    def g(self, x): return super().g(x) + 1\n"
        "m = M(); m.s = 1.5\ndef f(x): return m.g(x)",
        "f",
        "m.s = new",
        "self.s",
        "",
    ),
    "property source": (
        "class M:\n    def __init__(self): self._v = 0.5\n    @property\n    def v(self): return self._v\nm = M()\n"
        "def f(x): return x * m.v",
        "f",
        "m._v = new",
        "self._v",
        "",
    ),
    "property replaced": (
        "class M:\n    @property\n    def v(self): return 2.0\nm = M()\ndef f(x): return x * m.v",
        "f",
        "M.v = property(lambda self: new)",
        "M.v",
        "",
    ),
    "object from a property": (
        "class C: pass\nclass M:\n    def __init__(self): self._c = C(); self._c.v = 0.5\n    @property\n"
        "    def c(self): return self._c\nm = M()\ndef f(x): return x * m.c.v",
        "f",
        "m._c.v = new",
        "c().v",
        "",
    ),
    "classmethod": (
        "class M:\n    s = 0.5\n    @classmethod\n    def g(cls, x): return x * cls.s\ndef f(x): return M.g(x)",
        "f",
        "M.s = new",
        "cls.s",
        "",
    ),
    "staticmethod": (
        "S = 0.5\nclass M:\n    @staticmethod\n    def g(x): return x * S\ndef f(x): return M.g(x)",
        "f",
        "S = new",
        "global S",
        "",
    ),
    "partial": (
        "import functools\ndef g(k, x): return x * k['a']\nd = {'a': 0.5}\nf = functools.partial(g, d)",
        "f",
        "d['a'] = new",
        "k['a']",
        "",
    ),
    "decorated": (
        "import functools\nS = 0.5\ndef deco(fn):\n    @functools.wraps(fn)\n    def wrapper(*a): return fn(*a) * S\n"
        "    return wrapper\n@deco\ndef f(x): return x + 1",
        "f",
        "S = new",
        "global S",
        "",
    ),
    "inside a decorated function": (
        "import contextlib\nS = 0.5\n@contextlib.contextmanager\ndef cm():\n    yield S\ndef f(x):\n"
        "    with cm() as s: return x * s",
        "f",
        "S = new",
        "global S",
        "",
    ),
    "bound method kept in an attribute": (
        "class A:\n    def __init__(self): self.v = 0.5\n    def g(self, x): return x * self.v\nclass M: pass\n"
        "m = M(); m.act = A().g\ndef f(x): return m.act(x)",
        "f",
        "m.act.__self__.v = new",
        "self.v",
        "",
    ),
    "import inside": ("S = 0.5\ndef f(x):\n    import sys\n    return x * S", "f", "S = new", "global S", ""),
    "numpy array": (
        "import numpy as np\nA = np.ones(3)\ndef f(x): return x * float(A[1])",
        "f",
        "A[1] = new",
        "content of A",
        "A[1] = 1",
    ),
    "while loop and try": (
        "S = 2\nT = {'e': 0.5}\ndef f(x):\n    i = 0\n    while i < S:\n        try:\n            x = x * T['e']\n"
        "        finally:\n            i += 1\n    return x",
        "f",
        "T['e'] = new",
        "T['e']",
        "",
    ),
    "conditional expression": (
        "class C: pass\nc = C(); c.a = 0.5; c.b = 1\ndef f(x): return x * (c if x else None).a",
        "f",
        "c.a = new",
        "c.a",
        "c.b = 2",
    ),
    "argument object": (
        "class C: pass\nc = C(); c.v = 0.5\ndef g(c, x): return x * c.v\nimport functools\nf = functools.partial(g, c)",
        "f",
        "c.v = new",
        "c.v",
        "",
    ),
    "enum member": (
        "import enum\nclass E(enum.Enum):\n    P = 1\n    Q = 2\nmode = E.P\ndef f(x): return x if mode is E.P else -x",
        "f",
        "mode = E.Q",
        "global mode",
        "mode = E.P",
    ),
    "named tuple": (
        "import collections\nN = collections.namedtuple('N', 'a b')\nn = N(0.5, 2)\ndef f(x): return x * n.a",
        "f",
        "n = N(new, 2)",
        "global n",
        "",
    ),
    "object inside a tuple": (
        "class C: pass\nn = (C(), 1); n[0].v = 0.5\ndef f(x): return x * n[0].v",
        "f",
        "n[0].v = new",
        "n[0].v",
        "",
    ),
    "weakref": (
        "import weakref\nclass C: pass\nc = C(); c.v = 0.5\nw = weakref.ref(c)\ndef g(o, x): return x * o.v\n"
        "def f(x): return g(w(), x)",
        "f",
        "c.v = new",
        "o.v",
        "",
    ),
    "mapped through __getattr__": (
        "class M:\n    def __init__(self): self.d = {'v': 0.5}\n    def __getattr__(self, name): return self.d[name]\n"
        "m = M()\ndef f(x): return x * m.v",
        "f",
        "m.d['v'] = new",
        "self.d['v']",
        "",
    ),
    "__getattr__ fallback shadowed": (
        "class M:\n    def __getattr__(self, name): return 0.5\nm = M()\ndef f(x): return x * m.v",
        "f",
        "m.v = new",
        "m.v",
        "",
    ),
    "inherited slots and dict": (
        "class A:\n    __slots__ = ('p',)\nclass M(A): pass\nm = M(); m.p = 0.5; m.q = 1\ndef f(x): return x * m.p",
        "f",
        "m.p = new",
        "m.p",
        "m.q = 2",
    ),
    "subscript of an object": (
        "class S:\n    def __init__(self): self.xs = [0.5]\n    def __getitem__(self, i): return self.xs[i]\ns = S()\n"
        "def f(x): return x * s[0]",
        "f",
        "s.xs[0] = new",
        "self.xs[0]",
        "",
    ),
    "walrus and starred": (
        "class C: pass\nc = C(); c.v = 0.5; cs = [c]\ndef f(x):\n    if (d := c): x = x * d.v\n    a, *_ = cs\n"
        "    return x * a.v",
        "f",
        "c.v = new",
        "c.v",
        "",
    ),
}


def run(module: types.ModuleType, statement: str, number: Callable[[], float]) -> None:
    module.__dict__["new"] = number()
    exec(statement, module.__dict__)


@pytest.mark.parametrize("name", CASES)
def test_a_change_is_noticed(name: str, program: Any, number: Any) -> None:
    source, fn, change, path, irrelevant = CASES[name]
    module = program(source)
    result, observation = observe(eval(fn, module.__dict__), (2.0,))
    assert result == eval(fn, module.__dict__)(2.0)
    assert observation.guards.check() and observation.guards.first_miss() is None
    run(module, irrelevant, number)
    assert observation.guards.check(), observation.guards.first_miss()
    run(module, change, number)
    assert not observation.guards.check()
    paths = [m.path for m in observation.guards.misses()]
    assert any(p.endswith(path) for p in paths), paths
    miss = observation.guards.first_miss()
    assert miss is not None and miss.where.file == f"{module.__name__}.py" and miss.where.line > 0
    assert str(miss).startswith(f"{module.__name__}.py:")


@pytest.mark.parametrize("name", [n for n, case in CASES.items() if case[2].endswith("= new")])
def test_number_misses_can_be_undone(name: str, program: Any, number: Any) -> None:
    source, fn, change, _, _ = CASES[name]
    module = program(source)
    _, observation = observe(eval(fn, module.__dict__), (2.0,))
    run(module, change, number)
    misses = observation.guards.misses()
    for miss in misses:
        assert miss.is_number == (miss.lift_target is not None)
        if miss.lift_target is not None:
            assert miss.lift_target.get() == miss.new == module.new
    for miss in misses:  # (a place may have two: of the item, and of the container)
        if miss.lift_target is not None:
            miss.lift_target.put(miss.old)
    assert observation.guards.check() == any(m.is_number for m in misses), observation.guards.misses()


def test_the_line_is_that_of_the_read(program: Any, line: Any, number: Any) -> None:
    module = program(
        """
        class M:
            def __init__(self):
                self.temperature = 0.5
            def forward(self, x):
                y = x + 1
                return y / self.temperature  # here
        m = M()
        def step(x):
            return m.forward(x)
        """
    )
    _, observation = observe(module.step, (1.0,))
    module.m.temperature = new = number()
    miss = observation.guards.first_miss()
    assert miss is not None
    assert (miss.where.line, miss.path, miss.old, miss.new) == (line(module, "# here"), "self.temperature", 0.5, new)
    assert str(miss) == f"{module.__name__}.py:{miss.where.line}: self.temperature was 0.5, is now {new!r}"
    assert miss.is_number and miss.lift_target is not None and miss.lift_target.get() == new


def test_objects_that_the_call_makes_are_not_guarded(program: Any) -> None:
    module = program(
        """
        class C:
            def __init__(self, v):
                self.v = v
                self.items = [v]
        def use(c, d, xs):
            xs.append(1)
            d['k'] = 2
            c.v += 1
            return c.v * c.items[0]
        def step(x):
            return [use(C(i), {}, []) for i in range(3)], C(3)
        """
    )
    result, observation = observe(module.step, (1.0,))
    assert result[0] == [0, 2, 6] and observation.writes == []
    result[0].append(1)
    result[1].v = 9
    assert observation.guards.check(), observation.guards.misses()


def test_older_objects_are_guarded_behind_objects_that_the_call_makes(program: Any, number: Any) -> None:
    module = program(
        """
        class Config:
            def __init__(self, scale): self.scale = scale
        class View:
            def __init__(self, config): self.config, self.kept = config, None
        def use(view, x): return x * view.config.scale
        def step(x):
            views = [View(c) for c in configs]
            kept.view = views[0]
            for view in views: x = use(view, x)
            return x
        class Kept: pass
        kept = Kept()
        """
    )
    module.configs = [module.Config(number()), module.Config(number())]
    _, observation = observe(module.step, (1.0,))
    assert [w.target.text for w in observation.writes] == ["kept.view"]
    assert observation.guards.check()
    module.kept.view.kept = 3
    assert observation.guards.check()
    module.configs[1].scale = number()
    assert [m.path for m in observation.guards.misses()] == ["view.config.scale"]


def test_arguments_that_are_containers_are_the_callers_to_guard(program: Any) -> None:
    module = program("def step(batch): return batch['x'] * batch['ks'][0]")
    batch = {"x": 2.0, "ks": [1.5, 2.5]}
    _, observation = observe(module.step, (batch,))
    batch["ks"][0], batch["x"], batch["y"] = 3.5, 1.0, 1.0
    assert observation.guards.check(), observation.guards.misses()


def test_equal_values_in_other_objects_do_not_miss(program: Any, number: Any) -> None:
    module = program("def f(x): return x * A * B[0] * C['k']", A=(number(), "a"), B=[number()], C={"k": number()})
    module.f = program("def f(x): return x * A[0] * B[0] * C['k'] + len(B)", **{k: module.__dict__[k] for k in "ABC"}).f
    _, observation = observe(module.f, (1.0,))
    scope = module.f.__globals__
    for _ in range(3):
        scope["A"] = (float(repr(scope["A"][0])), "a")
        scope["B"][0] = float(repr(scope["B"][0]))
        scope["C"]["k"] = float(repr(scope["C"]["k"]))
        assert observation.guards.check(), observation.guards.misses()
    scope["C"]["k"] += 1
    assert [m.path for m in observation.guards.misses()] == ["C['k']"]


def test_nan_is_equal_to_itself(program: Any) -> None:
    module = program("A = float('nan')\ndef f(x): return x * A")
    _, observation = observe(module.f, (1.0,))
    module.A = float("nan")
    assert observation.guards.check()
    module.A = 1.0
    assert not observation.guards.check()


def test_declared_leaves_are_not_opened(program: Any) -> None:
    module = program(
        "class T:\n    __slots__ = ('__dict__', 'version')\n    def __init__(self): self.version = 0\nt = T()\n"
        "def f(x): return x * t.version"
    )
    _, observation = observe(module.f, (1.0,), kinds=Kinds(leaves=(module.T,)))
    module.t.version += 1
    assert observation.guards.check()
    module.t = module.T()
    assert not observation.guards.check()


def test_what_the_user_gives_a_leaf_is_guarded(program: Any, number: Any) -> None:
    module = program("class T: pass\nt = T()\ndef f(x): return x * getattr(t, 'scale', 2.0)")
    _, observation = observe(module.f, (1.0,), kinds=Kinds(leaves=(module.T,)))
    module.t.scale = number()
    assert [m.path for m in observation.guards.misses()] == ["t.scale"]


def test_a_partial_keeps_its_function_guarded(program: Any, number: Any) -> None:
    module = program("S = 0.5\ndef g(k, x): return x * k * S")
    observation: Observation = observe(functools.partial(module.g, number()), (2.0,))[1]
    module.S = number()
    assert [m.path for m in observation.guards.misses()] == ["global S"]
