"""Scripted programs that a check from outside found to differ from Python's."""

import pytest

import weft
import weft.jit
from weft.jit.interpreter.hot import compiled_after
from weft.support.errors import ParseError

BAD = """graph(%x : Tensor, %n : int, %c : bool):
  %r : Tensor = prim::If(%c)
    block0():
      -> (%x)
    block1():
      %q : Tensor = aten::tanh(%x)
      -> (%q)
  %l : Tensor = prim::Loop(%n, %c, %r)
    block0(%i : int, %k : Tensor):
      -> (%c, %k)
  return (%l)
"""


@pytest.mark.parametrize("n", [0, 1, 2, 5])
def test_zip_of_what_is_known_and_what_is_not_is_as_long_as_the_shortest(n) -> None:
    unit = weft.jit.CompilationUnit("""
def f(n: int, xs: List[int]):
    found: List[int] = []
    for i, (a, b) in enumerate(zip(range(n), [1, 5, 2])):
        found.append(100 * i + 10 * a + b)
    return found, [a * b for a, b in zip(xs, (4, 7))]

def g(n: int):
    total = 0.0
    for i, v in zip(range(n), (1, 2.5)):
        total += i * v
    return total
""")
    xs = [3] * n
    expected = [100 * i + 10 * a + b for i, (a, b) in enumerate(zip(range(n), [1, 5, 2], strict=False))]
    assert unit.f(n, xs) == (expected, [a * b for a, b in zip(xs, (4, 7), strict=False)])
    if n >= 2:
        assert unit.g(n) == 2.5
    else:  # the two values are of two types, so the loop is unrolled
        with pytest.raises(RuntimeError, match="2 values are unrolled here"):
            unit.g(n)


def test_functions_of_one_text_call_those_behind_them() -> None:
    text = "def f(x):\n    return g(x) + 1\ndef g(x):\n    return x * 3\n"
    unit = weft.jit.CompilationUnit(text)
    assert unit.f(weft.ones(1)).tolist() == [4.0]
    assert [f.name for f in unit.get_functions()] == ["f", "g"]

    class Net(weft.jit.ScriptModule):
        def __init__(self) -> None:
            super().__init__()
            self.define("def forward(self, x):\n    return self.inner(x) + 1\ndef inner(self, x):\n    return x * 3\n")

    assert Net()(weft.ones(1)).tolist() == [4.0]


def test_groups_that_read_what_is_written_behind_them_have_second_gradients() -> None:
    f = weft.jit.CompilationUnit("""
def f(x, y):
    t = x * 1.5 + y
    v = ((t * 2.5).sin() * x).tanh() * x
    w = (v.sin() * v).tanh()
    t[0] = y.sum()
    return v * w, t
""").f
    x, found = weft.tensor([0.5, -1.0, 2.0], requires_grad=True), []
    with compiled_after(48, calls=1):
        for _ in range(2):
            a, b = f(x, weft.ones(3))
            (first,) = weft.autograd.grad((a * a).sum() + (b * b * b).sum(), x, create_graph=True)
            found.append(weft.autograd.grad((first * first).sum(), x)[0].tolist())
    assert found[0] == pytest.approx(found[1], rel=1e-3)


def test_a_loop_of_one_operator_is_a_native_program() -> None:
    f = weft.jit.CompilationUnit("def f(x, n: int):\n    for i in range(n):\n        x = x + 1\n    return x\n").f
    f(weft.zeros(2), 3)
    weft.counters.reset()
    for n in (0, 1, 200):
        assert f(weft.zeros(2), n).tolist() == [n, n]
    assert weft.counters.native_calls == 3 and weft.counters.captures <= 1


def test_a_region_without_tensors_from_outside_has_no_gradient() -> None:
    f = weft.jit.CompilationUnit("""
def f(x):
    a = weft.zeros([3]) + 1
    print(end='')
    return a * 2 + 1
""").f
    f(weft.ones(3, requires_grad=True))
    assert weft.jit.last_executed_plan(f).autodiff_subgraphs == []


@pytest.mark.parametrize("before, after, line", [
    ("prim::If(%c)", "prim::If(%x)", 2), ("Loop(%n,", "Loop(%r,", 8), ("-> (%c, %k)", "-> (%k, %k)", 8),
])
def test_text_with_a_wrong_type_is_refused_at_its_place(before, after, line) -> None:
    with pytest.raises(ParseError, match=f"line {line}, column 3: "):
        weft.jit.parse_ir(BAD.replace(before, after))
    own, start = str(weft.jit.parse_ir(BAD)), f"%{'r' if line == 2 else 'l'}: Tensor = "
    changed = own.replace(before, after).replace("yield %c, %k", "yield %k, %k" if "-> (" in before else "yield %c, %k")
    number = next(i for i, text in enumerate(changed.split("\n"), 1) if text.strip().startswith(start))
    with pytest.raises(ParseError, match=f"line {number}, column 3: "):
        weft.jit.parse_ir(changed)
