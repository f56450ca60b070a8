"""What cannot be compiled is refused at its line and column, with what to write instead; what a program raises names
the lines that led there.
"""

from __future__ import annotations

import re

import numpy as np
import pytest

import weft
import weft.jit

# (the program, the text at which the error points, words of the error); the place is the last occurrence of the text.
REFUSED = [
    ("def f(x):\n    return y", "y", "undefined value y"),
    ("def f(x, n: int):\n    if n > 1:\n        z = x\n    return z", "z", "z is not defined in the second branch"),
    (
        "def f(x, n: int):\n    if n > 1:\n        z = x\n    else:\n        z = 1\n    return z",
        "z",
        "z is set to type Tensor in the first branch and type int",
    ),
    ("def f(n: int):\n    for i in range(n):\n        k = i\n    return k", "k", "defined only in the body of a loop"),
    (
        "def f(n: int):\n    a = 1\n    for i in range(n):\n        a = a + 0.5\n    return 1",
        "a = a + 0.5",
        "previously had type int but is now being assigned to a value of type float",
    ),
    ("def f(x):\n    return [1, x]", "[1, x]", "must be of one type, are int and Tensor"),
    ("def f(x):\n    return x.foo()", "x.foo", "Tensor has no attribute 'foo'"),
    ("def f(x):\n    return weft.add(x, 1, foo=2)", "weft.add", "Unknown keyword argument 'foo'"),
    (
        "def f(x, y: Optional[Tensor]):\n    return x + y",
        "x + y",
        "instead found type 'Optional\\[Tensor\\]'; check first that it is not None",
    ),
    (
        "def f(n: int) -> Tensor:\n    return n",
        "return n",
        "annotated as having type Tensor but is actually of type int",
    ),
    (
        "def f(n: int):\n    if n > 1:\n        return 1\n    return 1.5",
        "return 1.5",
        "Previous return statement returned a value of type int",
    ),
    ("def f(n: int) -> int:\n    if n > 1:\n        return n\n", "if n > 1", "actually of type None"),
    ("def f(n: int):\n    try:\n        return 1\n    finally:\n        pass", "try", "`try` cannot be compiled"),
    ("def f(n: int):\n    with n:\n        return 1", "n:\n        return", "of `with` there are weft.no_grad"),
    ("def f(n: int):\n    return n + 'a'", "n + 'a'", "no such operation on \\(int, str\\)"),
    ("def f(x):\n    a, b = x.size(0)\n    return a", "a, b", "of type int cannot be used as a tuple"),
    ("def f(x):\n    a, b = (1, 2, 3)\n    return a", "a, b", "need 2 values to unpack, there are 3"),
    ("def f(*args):\n    return 1", "args", "\\*args"),
    ("def f(n: int):\n    return (lambda x: x)(n)", "lambda", "a lambda cannot be compiled"),
    ("def f(x):\n    return math", "math", "python module cannot be used as a value"),
    ("def f(x: 'Unheard'):\n    return x", "'Unheard'", "the annotation means nothing here"),
    ("def f(x: List):\n    return x", "List", "without a contained type"),
    ("def f(items: List[int]):\n    items.append('a')", "items.append", "of type str cannot be put into a list of int"),
    ("def f(x):\n    return x(1)", "x(1)", "is not callable"),
    ("def f(n: int):\n    return (1, 2.0)[n]", "(1, 2.0)[n]", "index of a tuple must be an integer that is written"),
    ("def f(n: int):\n    return (1, 2)[5]", "(1, 2)[5]", "out of range"),
    (
        "def f(n: Optional[int]):\n    if n:\n        return 1\n    return 2",
        "n:\n        return",
        "is no condition; ask whether it is None",
    ),
    ("def f(n: int):\n    raise n", "raise n", "only Python's exceptions can be raised"),
    ("def f(x):\n    return weft.nothing_of_this_name(x)", "weft.nothing", "no attribute 'nothing_of_this_name'"),
    ("def f(x):\n    return (x +", "(x +", "never closed"),
    ("x = 1", "x = 1", "a program consists of functions"),
    ("def f(x):\n    return {1: 2, **x}", "x}", "\\*\\* in a dict"),
    ("def f(n: int):\n    return 99999999999999999999", "999999999", "does not fit into 64 bits"),
    ("def f(n: int):\n    break", "break", "'break' outside loop"),
    ("def f(n: int):\n    return tuple(1, n)", "tuple(1, n)", "takes 0 to 1 arguments, 2 were given"),
    ("def f(n: List[int]):\n    return len(n, size=2)", "len(n", "takes no arguments by name, not size"),
    ("def f(n: int):\n    for i in enumerate():\n        n = i\n    return n", "enumerate", "takes 1 to 2"),
    ("def f(n: int):\n    return print(n, flush=True)", "print", "takes sep= and end= here, not flush"),
    ("def f(n: int = 0.5):\n    return n", "n:", "Expected a default value of type int for 'n', not a float"),
    ("def f(n):\n    # type: Int -> Tensor\n    return n", "def f", "are written `# type: \\(int\\) -> int`"),
    ("def f(n: 'List[i'):\n    return n", "'List[i'", "the annotation means nothing here: SyntaxError"),
]


@pytest.mark.parametrize("text,place,words", REFUSED, ids=[w[:40] for _, _, w in REFUSED])
def test_a_refusal_points_at_its_place(text: str, place: str, words: str) -> None:
    blank = int(np.random.default_rng(len(text)).integers(4))
    with pytest.raises(weft.jit.CompileError, match=words) as caught:
        weft.jit.CompilationUnit("\n" * blank + text)
    at = text.rindex(place) if place in ("y", "z", "k", "math") else text.index(place)
    line, column = text.count("\n", 0, at) + 1 + blank, at - text.rfind("\n", 0, at)
    found = re.search(r'File "<string>", line (\d+), column (\d+)\n(.*)\n(.*)', str(caught.value))
    assert found is not None
    assert (int(found[1]), int(found[2])) == (line, column), str(caught.value)
    assert found[4].index("^") == 4 + column - 1 and found[3][4:] == text.split("\n")[line - 1 - blank]


def test_an_error_in_a_function_that_is_called_shows_the_call() -> None:
    def inner(x):
        return missing  # noqa: F821

    def outer(x):
        return inner(x)

    with pytest.raises(weft.jit.CompileError) as caught:
        weft.jit.script(outer)
    assert (
        __file__ in str(caught.value)
        and "return inner(x)" in str(caught.value)
        and "return missing" in str(caught.value)
    )


def test_recursion_is_refused() -> None:
    def again(n: int) -> int:
        return again(n - 1)

    with pytest.raises(weft.jit.CompileError, match="Recursive calls are not supported"):
        weft.jit.script(again)


UNIT = """
def element(items: List[int], i: int):
    k = i + 1
    return items[k]

def total(items: List[int]):
    s = 0
    for i in range(10):
        if i >= 0:
            s += element(items, i)
    return s

def quotient(a: int, b: int):
    return a // b

def checked(n: int):
    assert n > 3, f"n is {n}"
    if n > 5:
        raise KeyError("much")
    return n

def product(x, y):
    return x @ y
"""


def test_an_error_at_run_time_names_the_lines_that_led_there() -> None:
    unit = weft.jit.CompilationUnit(UNIT)
    with pytest.raises(IndexError) as caught:
        unit.total([1, 2, 3])
    assert isinstance(caught.value, weft.jit.Error)
    assert [int(n) for n in re.findall(r"line (\d+)", str(caught.value))] == [4, 10]


@pytest.mark.parametrize(
    "call,kind,words",
    [
        (lambda u: u.quotient(1, 0), ZeroDivisionError, "line 14, column 12"),
        (lambda u: u.checked(1), AssertionError, "n is 1"),
        (lambda u: u.checked(9), KeyError, "much"),
        (lambda u: u.product(weft.ones(2, 3), weft.ones(2, 3)), RuntimeError, "cannot be multiplied"),
        (
            lambda u: u.quotient(1, "a"),
            TypeError,
            "expected a value of type int for argument 'b' but instead found type str",
        ),
        (lambda u: u.quotient(1), TypeError, "missing value for argument 'b'"),
        (lambda u: u.quotient(1, 2, 3), TypeError, "at most 2"),
        (lambda u: u.quotient(1, c=2), TypeError, "Unknown keyword argument 'c'"),
        (lambda u: u.quotient(1.5, 2), TypeError, "found type float"),
        (lambda u: u.nothing, AttributeError, "no function 'nothing'"),
    ],
)
def test_what_a_program_raises_is_pythons_own_exception_too(call, kind, words) -> None:
    with pytest.raises(kind, match=words):
        call(weft.jit.CompilationUnit(UNIT))


@pytest.mark.parametrize(
    "body,instead",
    [
        ("    return y", "give it a value first, or take it as an argument"),
        ("    return xx", "did you mean x?"),
        ("    return weft.sigmiod(x)", "did you mean sigmoid?"),
        ("    return x.rellu()", "did you mean relu?"),
        ("    f = lambda y: y\n    return x", "define a function with `def`"),
        ("    yield x", "put the values into a list"),
        ("    return {1, 2}", "write a list"),
        ("    try:\n        return x\n    except ValueError:\n        return x", "ask first"),
        ("    import math\n    return x", "import it outside"),
        ("    class A:\n        pass\n    return x", "define it outside"),
        ("    global z\n    z = x", "take the value as an argument"),
        ("    match n:\n        case 1:\n            return x\n    return x", "write `if` and `elif`"),
        ("    for i in n:\n        print(i)\n    return x", "write `range(...)`"),
        ("    if n > 0:\n        y = 1\n    return y", "before the `if`"),
        ("    return s + n", "`str(...)`"),
        ("    return o + 1", "assert x is not None"),
        ("    return u + 1", "isinstance"),
        ("    return l.apend(3)", "did you mean append?"),
        ("    return open(s)", "@weft.jit.ignore"),
        ("    z: Foo = x\n    return z", "import or define the type"),
    ],
)
def test_a_refusal_says_what_to_write_instead(body, instead) -> None:
    head = "def f(x, n: int, s: str, o: Optional[int], u: Union[int, str], l: List[int]):\n"
    with pytest.raises(weft.jit.CompileError) as raised:
        weft.jit.CompilationUnit(head + body + "\n")
    text = str(raised.value)
    assert instead in text and re.search(r'File "<string>", line \d+, column \d+\n.*\n *\^~*$', text), text


def test_as_many_types_as_parameters_are_written() -> None:
    for types, parameters in (("int", "x, y"), ("", "x"), ("int, int", "x")):
        with pytest.raises(weft.jit.CompileError, match=r"Number of type annotations \(\d\) did not match"):
            weft.jit.CompilationUnit(f"def f({parameters}):\n    # type: ({types}) -> int\n    return 1")


def test_a_function_of_python_s_that_gives_nothing_is_a_statement() -> None:
    seen = []

    @weft.jit.ignore
    def note(x):
        seen.append(x)

    @weft.jit.script
    def f(x):
        if x.sum() > 0:
            note(x)
        return x + 1

    @weft.jit.script
    def g(x):
        return note(x) + 1

    x = weft.ones(2)
    assert f(x).tolist() == [2.0, 2.0] and seen[0] is x
    with pytest.raises(TypeError, match="annotated to return a value of type Tensor"):
        g(x)
