"""The profile hook: it is removed whatever happens, sees only its thread, looks at each function once,
and spares the machinery's own code."""

from __future__ import annotations

import sys
import threading
from typing import Any

import numpy as np
import pytest

from weft.guards import FrameWatcher, Kinds, observe, visit
from weft.guards.analyse import plan_of
from weft.guards.visit import Visitor


@pytest.mark.parametrize("fails", [False, True])
def test_the_previous_profile_function_comes_back(fails: bool, program: Any) -> None:
    module = program("def f(x):\n    if x: raise LookupError\n    return x")
    seen: list[str] = []

    def previous(frame: Any, event: str, arg: Any) -> None:
        seen.append(event)

    sys.setprofile(previous)
    try:
        if fails:
            with pytest.raises(LookupError):
                observe(module.f, (1,))
        else:
            observe(module.f, (0,))
        assert sys.getprofile() is previous
    finally:
        sys.setprofile(None)


def test_after_a_refusal_too(program: Any) -> None:
    module = program("def f(x): print(x)")
    with pytest.raises(RuntimeError):
        observe(module.f, (1,))
    assert sys.getprofile() is None


def test_what_runs_while_paused_is_not_seen(program: Any) -> None:
    module = program("def f(pause):\n    with pause():\n        g()\n    print('seen')\ndef g(): print('unseen')")
    with pytest.raises(RuntimeError) as caught, FrameWatcher() as watcher:
        module.f(watcher.paused)
    assert str(caught.value).startswith(f"{module.__name__}.py:4 prints")


def test_other_threads_are_not_seen(program: Any) -> None:
    module = program("def f(run, x):\n    run()\n    return x\ndef other(): L.append(1)\nL = []")

    def run() -> None:
        thread = threading.Thread(target=module.other)
        thread.start()
        thread.join()

    with FrameWatcher() as watcher:
        run()
    assert module.L == [1] and watcher.refusal is None


def test_a_function_is_visited_once_for_the_same_objects(
    program: Any, monkeypatch: Any, rng: np.random.Generator
) -> None:
    module = program(
        """
        class C:
            def __init__(self, v): self.v = v
            def g(self, x): return x + self.v
        cs = [C(1.5), C(2.5)]
        def h(x): return x * K
        K = 1.0
        def f(x, n):
            for i in range(n):
                for c in cs: x = h(c.g(x))
            return x
        """
    )
    visited: list[str] = []
    whole = Visitor.frame

    def spy(self: Visitor, frame: Any, plan: Any, values: Any) -> None:
        visited.append(plan.code.co_name)
        whole(self, frame, plan, values)

    monkeypatch.setattr(Visitor, "frame", spy)
    observe(module.f, (1.0, int(rng.integers(50, 100))))
    assert sorted(visited) == ["f", "g", "g", "h"]


def test_a_chain_through_an_attribute_that_was_rebound_is_followed_again(program: Any, number: Any) -> None:
    module = program(
        """
        class C: pass
        class M:
            def __init__(self):
                self.blocks = [C(), C()]
                for b in self.blocks: b.scale = 1.5
                self.current = self.blocks[0]
            def use(self, x): return x * self.current.scale
            def f(self, x):
                x = self.use(x)
                i = 1
                self.current = self.blocks[i]
                x = self.use(x)
                self.current = self.blocks[0]
                return x
        m = M()
        """
    )
    _, observation = observe(module.m.f, (1.0,))
    assert observation.writes == [] and observation.guards.check()
    module.m.blocks[1].scale = number()
    assert not observation.guards.check()


REBOUND = {
    "by the same function": (
        "def f(x):\n    m.cur = m.blocks[1]\n    x = x * m.cur.scale\n    m.cur = m.blocks[0]\n    return x"
    ),
    "by a callee": (
        "def to(b): m.cur = b\ndef f(x):\n    to(m.blocks[1])\n    x = x * m.cur.scale\n    to(m.blocks[0])\n"
        "    return x"
    ),
    "by a callee of a callee": (
        "def to(i): m.cur = m.blocks[i]\ndef via(i): to(i)\n"
        "def f(x):\n    via(1)\n    x = x * m.cur.scale\n    via(0)\n    return x"
    ),
    "a global": (
        "cur = m.blocks[0]\ndef f(x):\n    global cur\n    cur = m.blocks[1]\n    x = x * cur.scale\n"
        "    cur = m.blocks[0]\n    return x"
    ),
    "a global, from an attribute": (
        "m.other = m.blocks[1]\ncur = m.blocks[0]\n"
        "def f(x):\n    global cur\n    cur = m.other\n    x = x * cur.scale\n    cur = m.blocks[0]\n    return x"
    ),
}


@pytest.mark.parametrize("name", REBOUND)
def test_what_a_rebound_name_leads_to_is_guarded(name: str, program: Any, number: Any) -> None:
    head = "class C: pass\nm = C(); m.blocks = [C(), C()]\nfor b in m.blocks: b.scale = 1.5\nm.cur = m.blocks[0]\n"
    module = program(head + REBOUND[name])
    _, observation = observe(module.f, (1.0,))
    assert observation.writes == [] and observation.guards.check()
    module.m.blocks[1].scale = number()
    assert not observation.guards.check()


def test_equal_code_in_two_files_has_two_plans(program: Any) -> None:
    a, b = program("def f(x): return x * K"), program("def f(x): return x * K")
    assert a.f.__code__ == b.f.__code__
    assert plan_of(a.f.__code__) is not plan_of(b.f.__code__)
    assert plan_of(a.f.__code__) is plan_of(a.f.__code__)
    assert plan_of(b.f.__code__).file == f"{b.__name__}.py"


def test_code_of_the_machinery_is_the_users_where_it_is_the_function_itself(program: Any, number: Any) -> None:
    module = program("K = 1.5\ndef g(x): return x * K\ndef f(x): return [g(x) for _ in range(2)]")
    for function in (module.f, module.g):
        function.__code__ = function.__code__.replace(co_filename="<weft demo>")
    _, observation = observe(module.g, (1.0,))
    module.K = number()
    assert not observation.guards.check()


def test_many_guards_are_one_function(program: Any, number: Any, rng: np.random.Generator) -> None:
    count = int(rng.integers(200, 400))
    body = " + ".join(f"c.v{i}" for i in range(count))
    module = program(f"class C: pass\nc = C()\ndef f(x): return x + {body}")
    for i in range(count):
        setattr(module.c, f"v{i}", number())
    _, observation = observe(module.f, (1.0,), kinds=Kinds())
    assert observation.guards.check() and len(observation.guards) >= count
    changed = int(rng.integers(count))
    setattr(module.c, f"v{changed}", -1.0)
    assert [m.path for m in observation.guards.misses()] == [f"c.v{changed}"]
    assert not observation.guards.check()


def test_functions_are_looked_for_only_where_no_name_leads_to_them(
    program: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To look for a function takes a walk over everything that lives: not for the root, what is found by a name, in
    a class or a cell, and the constructors of named tuples."""
    module = program(
        "import collections\nPair = collections.namedtuple('Pair', 'a b')\n"
        "class C:\n    def m(self, x): return x\n"
        "def g(x): return x\n"
        "def make():\n    def inner(x): return g(x)\n    return lambda x: Pair(inner(x), C().m(x))\n"
    )
    searched: list[Any] = []
    monkeypatch.setattr(visit, "functions_running", lambda code: searched.append(code) or [])
    observe(module.make(), (1,))
    observe(lambda: len([1]), ())
    assert searched == []
