"""What the call writes: numbers, objects and what containers hold are reported, the rest is refused by line,
and a failed call leaves no trace."""

from __future__ import annotations

import random
from collections import deque
from typing import Any

import numpy as np
import pytest

from weft.guards import MISSING, Kinds, NumberWrite, ObjectWrite, SideEffectError, observe

NUMBER_WRITES = {
    "attribute": (
        (
            "class M:\n    def __init__(self): self.n = 3\n    def f(self, x):\n        self.n += 1  # here\n"
            "        return x\nm = M()\nf = m.f"
        ),
        "self.n", "m.n",
    ),
    "attribute of an attribute": (
        "class C: pass\nc = C(); c.d = C(); c.d.n = 3\ndef f(x):\n    c.d.n += 1  # here\n    return x",
        "c.d.n", "c.d.n",
    ),
    "attribute in a loop": (
        (
            "class C: pass\nc = C(); c.n = 3; cs = [c]\ndef f(x):\n    for each in cs:\n        each.n += 1  # here\n"
            "    return x"
        ),
        "cs[0].n", "c.n",
    ),
    "slot": (
        "class C: __slots__ = ('n',)\nc = C(); c.n = 3\ndef f(x):\n    c.n += 1  # here\n    return x", "c.n", "c.n"
    ),
    "global": ("n = 3\ndef f(x):\n    global n\n    n += 1  # here\n    return x", "global n", "n"),
    "cell": (
        (
            "def make(n):\n    def f(x):\n        nonlocal n\n        n += 1  # here\n        return x\n"
            "    return f, lambda: n\nf, get = make(3)"
        ),
        "closure cell 'n'", "get()",
    ),
    "cell from a nested function": (
        "def make(n):\n    def f(x):\n        def g():\n            nonlocal n\n            n += 1\n"
        "        g()  # here\n        return x\n"
        "    return f, lambda: n\nf, get = make(3)", "closure cell 'n'", "get()"),
    "dict item": ("d = {'n': 3, 'm': 1}\ndef f(x):\n    d['n'] += 1  # here\n    return x", "d['n']", "d['n']"),
    "dict item by a computed key": (
        "d = {'n': 3, 'm': 1}\ndef f(x, k='n'):\n    d[k] += 1  # here\n    return x", "d['n']", "d['n']"
    ),
    "list item": ("l = [3, 4]\ndef f(x):\n    l[0] += 1  # here\n    return x", "l[0]", "l[0]"),
    "class attribute": ("class C: n = 3\ndef f(x):\n    C.n += 1  # here\n    return x", "C.n", "C.n"),
    "module attribute": (
        "import types\nm = types.ModuleType('state_of_user'); m.n = 3\ndef f(x):\n    m.n += 1  # here\n    return x",
        "m.n", "m.n",
    ),
    "in a method called twice": (
        "class C:\n    def __init__(self): self.n = 2\n    def g(self):\n        self.n += 1\n"
        "        return self.n\nc = C()\n"
        "def f(x):\n    c.g()\n    c.n -= 1  # here\n    return x * c.g()", "c.n", "c.n + 1"),
    "through setattr": (
        "class C: pass\nc = C(); c.n = 3\ndef f(x):\n    setattr(c, 'n', c.n + 1)\n    return x  # here", "c.n", "c.n"
    ),
}


@pytest.mark.parametrize("name", NUMBER_WRITES)
def test_number_writes_are_reported_and_undone(name: str, program: Any, line: Any) -> None:
    source, path, expression = NUMBER_WRITES[name]
    module = program(source)
    _, observation = observe(module.f, (1.0,))
    (write,) = observation.writes
    assert isinstance(write, NumberWrite)
    assert (write.target.text, write.value) == (path, 4 if "twice" not in name else 3)
    if name not in ("cell from a nested function", "through setattr"):
        assert write.where.line == line(module, "# here")
    assert write.target.get() == write.value
    observation.rollback()
    assert eval(expression, module.__dict__) == 3
    write.target.put(17)
    assert write.target.get() == 17


def test_an_attribute_that_was_not_there(program: Any) -> None:
    module = program("class C: pass\nc = C()\ndef f(x):\n    c.n = 5\n    return x")
    _, observation = observe(module.f, (1.0,))
    (write,) = observation.writes
    assert isinstance(write, NumberWrite) and write.old is MISSING and write.value == 5
    observation.rollback()
    assert not hasattr(module.c, "n")


def test_object_writes(program: Any) -> None:
    module = program(
        """
        class T: pass
        class M:
            def __init__(self): self.hidden, self.keep = T(), T()
            def f(self, x):
                old = self.hidden
                self.hidden = T()
                self.extra = T()
                return old
        m = M()
        """
    )
    before = module.m.hidden
    result, observation = observe(module.m.f, (1.0,), kinds=Kinds(leaves=(module.T,)))
    assert result is before
    found = {w.target.name: w for w in observation.writes}
    assert set(found) == {"hidden", "extra"} and all(isinstance(w, ObjectWrite) for w in observation.writes)
    assert found["hidden"].old is before and found["hidden"].value is module.m.hidden
    assert [m.path for m in observation.guards.misses()] == ["self.hidden"]
    assert observation.guards.without(slots=[w.target for w in observation.writes]).check()
    observation.rollback()
    assert observation.guards.check()
    assert module.m.hidden is before and not hasattr(module.m, "extra")


WRITTEN = {
    "append": "L = []\ndef f(x):\n    L.append(x)  # here\n    return x",
    "append through self": (
        "class M:\n    def __init__(self): self.l = []\n    def f(self, x):\n        self.l.append(x)  # here\n"
        "        return x\nf = M().f"
    ),
    "append in a loop": (
        "class C: pass\nc = C(); c.l = []\ncs = [c]\ndef f(x):\n    for each in cs:\n        each.l.append(x)  # here\n"
        "    return x"
    ),
    "append to what a helper returns": (
        "L = []\ndef get(): return L\ndef f(x):\n    get().append(x)  # here\n    return x"
    ),
    "append to a nested list": "L = [[1], [2]]\ndef f(x):\n    for l in L:\n        l.append(x)  # here\n    return x",
    "append in a helper": "L = []\ndef g(l, x):\n    l.append(x)  # here\ndef f(x):\n    g(L, x)\n    return x",
    "append to a default argument": "def f(x, acc=[]):\n    acc.append(x)  # here\n    return x",
    "append to a class attribute": "class M:\n    log = []\ndef f(x):\n    M.log.append(x)  # here\n    return x",
    "append through the class": "L = []\ndef f(x):\n    list.append(L, x)  # here\n    return x",
    "append by a bound method": "L = []\nput = L.append\ndef f(x):\n    put(x)  # here\n    return x",
    "extend": "L = [1]\ndef f(x):\n    L.extend([x])  # here\n    return x",
    "plus equals": "L = [1]\ndef f(x):\n    global L\n    L += [x]  # here\n    return x",
    "heap": (
        "import heapq\nL = [3]\ndef f(x):\n    own = [0]\n    own[0] = x\n    heapq.heappush(L, 1)  # here\n"
        "    return x"
    ),
    "pop": "L = [1, 2]\ndef f(x):\n    return x * L.pop()  # here",
    "clear": "D = {1: 2}\ndef f(x):\n    D.clear()  # here\n    return x",
    "update": "D = {}\ndef f(x):\n    D.update(a=x)  # here\n    return x",
    "setdefault": "D = {}\ndef f(x):\n    return D.setdefault('a', x)  # here",
    "new key": "D = {}\ndef f(x):\n    D['a'] = x  # here\n    return x",
    "computed new key": "D = {}\ndef f(x):\n    for k in 'ab':\n        D[k] = x  # here\n    return x",
    "item to an object": "D = {'a': None}\ndef f(x):\n    D['a'] = [x]  # here\n    return x",
    "list item to an object": "L = [None]\ndef f(x):\n    L[0] = [x]  # here\n    return x",
    "slice": "L = [1, 2]\ndef f(x):\n    L[:] = [x]  # here\n    return x",
    "del item": "L = [1, 2]\ndef f(x):\n    del L[0]  # here\n    return x",
    "set add": "S = {1}\ndef f(x):\n    S.add(x)  # here\n    return x",
    "deque": "from collections import deque\nQ = deque([1])\ndef f(x):\n    Q.appendleft(x)  # here\n    return x",
    "ordered dict": (
        "from collections import OrderedDict\nD = OrderedDict(a=1, b=2)\ndef f(x):\n    D.move_to_end('a')  # here\n"
        "    return x"
    ),
    "item in an argument": "def g(d, x):\n    d['a'] = x  # here\n    return x\nD = {}\ndef f(x): return g(D, x)",
    "swallowed": (
        "L = []\ndef f(x):\n    try:\n        L.append(x)  # here\n    except Exception:\n        pass\n    return x"
    ),
}


@pytest.mark.parametrize("name", WRITTEN)
def test_what_a_container_holds_is_written_back(name: str, program: Any, line: Any) -> None:
    module = program(WRITTEN[name])

    def shown() -> dict[str, str]:
        found = {
            k: repr(v) for k, v in module.__dict__.items() if isinstance(v, (list, dict, set, deque)) and k[0] != "_"
        }
        return {**found, "defaults": repr(getattr(module.f, "__defaults__", None))}

    before = shown()
    _, observation = observe(module.f, (2.0,))
    after = shown()
    assert {str(w.where) for w in observation.writes} == {f"{module.__name__}.py:{line(module, '# here')}"}
    observation.rollback()
    assert shown() == before and observation.guards.check()
    for write in observation.writes:
        write.target.put(write.value)
    assert shown() == after


REFUSED = {
    "numpy array": (
        "import numpy as np\nA = np.zeros(3)\ndef f(x):\n    A[0] = 1  # here\n    return x * A[0]",
        "changes a NumPy array",
    ),
    "older generator": (
        "g = (i for i in range(3))\ndef f(x):\n    return x * next(g)  # here", "draws from an iterator"
    ),
    "for over an older iterator": (
        "g = iter([1, 2, 3])\ndef f(x):\n    for i in g:  # here\n        x = x * i\n    return x",
        "draws from an iterator",
    ),
    "older zip": (
        "z = zip([1, 2], [3, 4])\ndef f(x):\n    for a, b in z:  # here\n        x = x * a\n    return x",
        "draws from an iterator",
    ),
    "older count": (
        (
            "import itertools\nclass C: pass\nc = C(); c.i = itertools.count()\ndef f(x):\n    for a in (1,):\n"
            "        x = x * next(c.i)  # here\n    return x"
        ),
        "draws from an iterator",
    ),
    "lines of an older file": (
        "h = open(__import__('os').__file__)\ndef f(x):\n    for l in h: x = x * len(l)  # here\n    return x",
        "draws from",
    ),
    "print": ("def f(x):\n    print(x)  # here\n    return x", "prints"),
    "print in a helper": ("def g(x):\n    print(x)  # here\ndef f(x):\n    g(x)\n    return x", "prints"),
    "open": ("import os\ndef f(x):\n    with open(os.devnull) as h:  # here\n        return x", "opens a file"),
    "write": (
        "import os\nh = open(os.devnull, 'w')\ndef f(x):\n    h.write('x')  # here\n    return x",
        "reads or writes a file",
    ),
    "json to a file": (
        "import os, json\nh = open(os.devnull, 'w')\ndef f(x):\n    json.dump([1], h)  # here\n    return x",
        "reads or writes a file",
    ),
    "pathlib": (
        "import os, pathlib\np = pathlib.Path(os.devnull)\ndef f(x):\n    p.read_text()  # here\n    return x", "files"
    ),
    "logging": (
        "import logging\nlog = logging.getLogger('user')\ndef f(x):\n    log.warning('x')  # here\n    return x", "logs"
    ),
    "time": ("import time\ndef f(x):\n    return x * time.time()  # here", "reads the clock"),
    "perf_counter": (
        "from time import perf_counter\ndef f(x):\n    return x * perf_counter()  # here", "reads the clock"
    ),
    "datetime": ("import datetime\ndef f(x):\n    return x * datetime.datetime.now().year  # here", "reads the clock"),
    "sleep": ("import time\ndef f(x):\n    time.sleep(0)  # here\n    return x", "sleeps"),
    "random": ("import random\ndef f(x):\n    return x * random.random()  # here", "random"),
    "gauss": ("import random\ndef f(x):\n    return x * random.gauss(0, 1)  # here", "random"),
    "shuffle": ("import random\ndef f(x):\n    l = [1, 2]\n    random.shuffle(l)  # here\n    return x", "random"),
    "own Random": ("import random\nr = random.Random(3)\ndef f(x):\n    return x * r.uniform(0, 1)  # here", "random"),
    "numpy.random": ("import numpy as np\ndef f(x):\n    return x * np.random.rand()  # here", "foreign random"),
    "numpy.random by name": (
        "from numpy.random import normal\ndef f(x):\n    return x * normal()  # here", "foreign random"
    ),
    "older numpy generator": (
        "import numpy as np\nr = np.random.default_rng(0)\ndef f(x):\n    return x * r.normal()  # here",
        "foreign random",
    ),
    "older numpy generator of self": (
        "import numpy as np\nclass M:\n    def __init__(self): self.r = np.random.default_rng(0)\n    def f(self, x):\n"
        "        return x * self.r.normal()  # here\nf = M().f", "foreign random"),
    "fresh numpy generator": (
        "import numpy as np\ndef f(x):\n    return x * np.random.default_rng().normal()  # here", "random"
    ),
    "urandom": ("import os\ndef f(x):\n    return x * os.urandom(1)[0]  # here", "random bytes"),
    "uuid": ("import uuid\ndef f(x):\n    return (x, uuid.uuid4())  # here", "random identifier"),
    "input": ("def f(x):\n    return x * float(input())  # here", "reads the user's input"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_repeated_is_refused_by_line(name: str, program: Any, line: Any) -> None:
    source, deed = REFUSED[name]
    module = program(
        "n = 3\n"
        + source.replace("def f(x):\n", "def f(x):\n    global n\n    n += 1\n").replace(
            "global n\n    n += 1\n    global L", "global L"
        )
    )
    shown = {
        k: repr(v)
        for k, v in module.__dict__.items()
        if isinstance(v, (list, dict, set, int)) and not k.startswith("__")
    }
    states = (random.getstate(), repr(np.random.get_state()))
    with pytest.raises(SideEffectError) as caught:
        observe(module.f, (2.0,))
    text = str(caught.value)
    assert text.startswith(f"{module.__name__}.py:{line(module, '# here')} "), text
    assert deed in text
    assert {k: repr(module.__dict__[k]) for k in shown} == shown
    assert (random.getstate(), repr(np.random.get_state())) == states


ALLOWED = {
    "own list": "def f(x):\n    l = []\n    l.append(x)\n    l += [x]\n    l[0] = x\n    del l[1]\n    return l",
    "own list through a helper": (
        "def g(l, x):\n    l.append(x)\n    l[0] = x\ndef f(x):\n    l = [1]\n    g(l, x)\n    return l"
    ),
    "own dict and set": (
        "def f(x):\n    d = {}\n    d['a'] = x\n    d.update(b=x)\n    s = set()\n    s.add(x)\n    return d, s"
    ),
    "copy of an older list": "L = [1]\ndef f(x):\n    l = list(L)\n    l.append(x)\n    return l",
    "own object": (
        "class C:\n    def __init__(self): self.l, self.n = [], 0\ndef f(x):\n    c = C()\n    c.l.append(x)\n"
        "    c.n += 1\n    return c.n"
    ),
    "own array": "import numpy as np\ndef f(x):\n    a = np.zeros(2)\n    a[0] = 1\n    return x * a[0]",
    "seeded generator": "import numpy as np\ndef f(x):\n    return x * np.random.default_rng(3).normal()",
    "print not reached": "debug = False\ndef f(x):\n    if debug:\n        print(x)\n    return x",
    "import": "def f(x):\n    import colorsys\n    return x",
    "own text file": "import io\ndef f(x):\n    h = io.StringIO()\n    h.write('a')\n    return x, h.getvalue()",
    "sum and sort of own": "A = [2, 1]\ndef f(x):\n    return x * sum(sorted(A))",
    "writing back the same": "class C: pass\nc = C(); c.n = 1\ndef f(x):\n    c.n = 1\n    return x",
    "user method called append": (
        "class L:\n    def append(self, x): return x\nl = L()\ndef f(x):\n    return l.append(x)"
    ),
    "iterating an own iterator": "A = [1, 2]\ndef f(x):\n    i = iter(A)\n    return x * next(i)",
}


@pytest.mark.parametrize("name", ALLOWED)
def test_what_stays_inside_the_call_is_allowed(name: str, program: Any) -> None:
    module = program(ALLOWED[name])
    _, observation = observe(module.f, (2.0,))
    assert observation.writes == []
    assert observation.guards.check(), observation.guards.misses()
    observe(module.f, (3.0,))
    assert observation.guards.check(), observation.guards.misses()


def test_a_flag_that_the_call_sets_is_seen_set_next_time(program: Any) -> None:
    module = program(
        "class C: pass\nc = C(); c.ready = False\ndef f(x):\n    if not c.ready: x = x + 1\n    c.ready = True\n"
        "    return x"
    )
    result, observation = observe(module.f, (1.0,))
    (write,) = observation.writes
    assert result == 2.0 and isinstance(write, ObjectWrite) and (write.old, write.value) == (False, True)
    assert not observation.guards.check()
    assert observe(module.f, (1.0,))[1].guards.check()


def test_an_array_argument_may_change_between_calls_but_not_inside(program: Any, rng: np.random.Generator) -> None:
    module = program("def f(a): return a.sum()\ndef g(a):\n    a[0] = 1\n    return a")
    a = rng.normal(size=3)
    _, observation = observe(module.f, (a,))
    a += 1
    assert observation.guards.check()
    before = a.copy()
    with pytest.raises(SideEffectError):
        observe(module.g, (a,))
    assert (a == before).all()


def test_an_import_inside_runs_as_it_would_eagerly(
    program: Any, tmp_path: Any, monkeypatch: Any, capsys: Any, rng: np.random.Generator
) -> None:
    name = f"imported_{rng.integers(10**9)}"
    (tmp_path / f"{name}.py").write_text("print('hello')\nK = 1.5\nL = []\nL.append(K)\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    module = program(f"def f(x):\n    import {name}\n    return x * {name}.K")
    assert observe(module.f, (2.0,))[0] == 3.0
    assert capsys.readouterr().out == "hello\n"
    _, observation = observe(module.f, (2.0,))
    assert observation.guards.check()
    __import__(name).K = 2.5
    assert [m.path for m in observation.guards.misses()] == [f"{name}.K"]


def test_an_exception_of_the_function_leaves_no_trace(program: Any) -> None:
    module = program(
        """
        class M:
            def __init__(self): self.n, self.t = 1, 'a'
        m = M(); d = {'k': 1.5, 'l': [1, 2]}; g = 7; L = [1, 2, 3]
        def make(c):
            def f(x):
                global g
                nonlocal c
                c += 1
                g = 'other'
                m.n += 5
                m.t = m
                m.new = 3
                d['k'] = 9
                for i in range(3): L[i] = i * 10
                raise KeyError(x)
            return f, lambda: c
        f, get = make(2)
        """
    )
    with pytest.raises(KeyError) as caught:
        observe(module.f, (4.5,))
    assert caught.value.args == (4.5,)
    assert (module.m.n, module.m.t, hasattr(module.m, "new"), module.d, module.g, module.L, module.get()) == (
        1, "a", False, {"k": 1.5, "l": [1, 2]}, 7, [1, 2, 3], 2,
    )
