"""Operators of scripts with numbers taken from tensors, under weft.compile: as programs, or as they are written."""

import pytest

import weft
import weft.jit

PROGRAMS = {
    "leaky_relu": "weft.nn.functional.leaky_relu(x, float(t))",
    "roll": "weft.roll(x, int(t), 0)",
    "narrow": "x.narrow(0, int(t), 2) * x[0]",
    "clamp": "x.clamp(-1.0, float(t)) * x",
    "softplus": "weft.nn.functional.softplus(x, float(t))",
    "repeat": "x.repeat(int(t)) * 2",
    "arange": "weft.arange(int(t)) * x[0]",
    "text": "x * len(str(int(t)))",
    "rows": "x[[0, int(t)]] * 2",
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_number_of_a_value_reaches_any_operator(name: str) -> None:
    f = weft.jit.CompilationUnit(f"def f(x, t):\n    return {PROGRAMS[name]}\n").f
    compiled, found = weft.compile(lambda x, t: f(x, t)), []
    for value in (1.0, 2.0, 1.0):
        for function in (f, compiled):
            x = weft.tensor([0.3, -1.2, 2.0, 0.7], requires_grad=True)
            result = function(x, weft.tensor(value))
            result.sum().backward()
            found.append((result.detach(), x.grad))
    for plain, other in zip(found[::2], found[1::2], strict=True):
        weft.testing.assert_close(plain, other)


def test_python_s_own_questions_are_refused_as_before() -> None:
    f = weft.jit.CompilationUnit("def f(x):\n    return x * 2\n").f
    with pytest.raises(weft.WeftError, match="asks a tensor"):
        weft.compile(lambda x: f(x) if x.sum() > 0 else x)(weft.ones(2))
