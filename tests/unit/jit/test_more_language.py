"""Constructs of the language that TorchScript's users write: what plain Python gives, a scripted program gives too."""

from __future__ import annotations

import enum
import io
from typing import NamedTuple

import pytest

import weft
import weft.jit
from weft import Tensor, nn
from weft.jit.script.annotations import BroadcastingList2, BroadcastingList3


class Color(enum.Enum):
    RED = 1
    GREEN = 2


class Limits:
    MOST = 7

    @staticmethod
    def twice(n: int) -> int:
        return n * 2


class Refused(ValueError):
    pass


def loop_else(n: int):
    r = 0
    for i in range(n):
        if i == 3:
            break
        for _ in range(2):
            if r > 100:
                break
        r += i
    else:
        r = 100 + r
    while r < 50:
        r += 20
    else:
        r += 1
    return r


def within(n: int):
    k = 3

    def square(a: int) -> int:
        return a * a

    def shifted(a: int) -> int:
        return square(a) + k

    return shifted(n) - square(2)


def joined(n: int):
    return ", ".join(str(i) for i in range(n)) + f"{sum(i * 2 for i in range(n))}"


def constants_of_classes(n: int):
    return Limits.twice(n) + Limits.MOST


def over_members(n: int):
    total = 0
    for c in Color:
        total += c.value * n
    return total, Color.RED.name


def told(n: int):
    if weft.jit.is_tracing():
        return -1
    return abs(n) if weft.jit.is_scripting() else n


def commented(
    n,  # type: int
):
    # type: (...) -> int
    return n + 1


FUNCTIONS = [loop_else, within, joined, constants_of_classes, over_members, told, commented]


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)
def test_as_in_python(function) -> None:
    scripted = weft.jit.script(function)
    for n in (0, 2, 3, 9):
        assert scripted(n) == function(n)


def by_color(c: Color, x: int) -> Color:
    if c == Color.RED:
        return Color.GREEN
    return Color.RED if c.value > x else c


def test_members_of_enumerations_are_values() -> None:
    scripted = weft.jit.script(by_color)
    for c in Color:
        for x in (1, 2):
            assert scripted(c, x) is by_color(c, x)


def listed(x: Tensor) -> list[list[float]]:
    rows: list[list[float]] = x.tolist()
    return rows


def unwrapped(x: int | None) -> int:
    return weft.jit._unwrap_optional(x) + 1


def refusing(n: int) -> int:
    if n > 1:
        raise Refused("too many")
    return n


def test_lists_of_tensors_optionals_and_exceptions() -> None:
    assert weft.jit.script(listed)(weft.ones(2, 1)) == [[1.0], [1.0]]
    assert weft.jit.script(unwrapped)(3) == 4
    with pytest.raises(AssertionError, match="Unwrapping null optional"):
        weft.jit.script(unwrapped)(None)
    with pytest.raises(ValueError, match="too many"):
        weft.jit.script(refusing)(3)
    assert weft.jit.isinstance([1, 2], list[int]) and not weft.jit.isinstance([1, "a"], list[int])
    assert weft.jit.is_scripting() is False and weft.jit.is_tracing() is False


class WithSetter(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a = 3

    @property
    def b(self) -> int:
        return self.a + 1

    @b.setter
    def b(self, value: int) -> None:
        self.a = value

    def forward(self, x: Tensor) -> Tensor:
        self.b = 10
        return x + self.b


def test_properties_are_written_by_their_setters() -> None:
    scripted = weft.jit.script(WithSetter())
    assert scripted(weft.ones(1)).item() == 12 and scripted.a == 10


def using_a_variable(n: int):
    m = n + 1

    def inner(a: int) -> int:
        return a + m

    return inner(n)


def test_a_variable_around_a_function_is_refused_by_name() -> None:
    with pytest.raises(weft.jit.CompileError, match="m is a variable of the function around inner"):
        weft.jit.script(using_a_variable)


def gradients_within(x: Tensor, w: Tensor) -> Tensor:
    with weft.enable_grad():
        x.requires_grad_(True)
        found = weft.autograd.grad([(x * x * w).sum()], [x])
    total = weft.zeros_like(x)
    for g in found:
        if g is not None:
            total = total + g
    return total


def test_a_program_asks_for_gradients(rng) -> None:
    x, w = (weft.tensor(rng.standard_normal(3)) for _ in range(2))
    assert weft.allclose(weft.jit.script(gradients_within)(x.clone(), w), 2 * x * w)


class Place(NamedTuple):
    x: Tensor
    n: int


def test_named_tuples_are_of_their_class() -> None:
    @weft.jit.script
    def place(x: Tensor) -> Place:
        return Place(x + 1, 3)

    made = place(weft.ones(1))
    assert type(made) is Place and made.n == 3


def test_one_element_stands_for_a_list() -> None:
    @weft.jit.script
    def pool(size: BroadcastingList2[int], step: BroadcastingList3[float] = 1.5) -> tuple[list[int], list[float]]:
        return size, step

    @weft.jit.script
    def calls(n: int):
        return pool(n), pool([n, 2]), pool((n, 3), 2.0)

    unit = weft.jit.CompilationUnit(
        "def f(x, y):\n    # type: (float, BroadcastingList2[float]) -> List[float]\n    return y\n"
    )
    assert calls(7) == (([7, 7], [1.5] * 3), ([7, 2], [1.5] * 3), ([7, 3], [2.0] * 3))
    assert pool(3) == ([3, 3], [1.5] * 3) and pool([1, 2], step=[0.0, 1.0]) == ([1, 2], [0.0, 1.0])
    assert unit.f(1.0, 2.5) == [2.5, 2.5]
    buffer = io.BytesIO()
    weft.jit.save(pool, buffer)
    buffer.seek(0)
    assert weft.jit.load(buffer)(3) == pool(3)


def test_an_operation_in_place_is_the_class_s() -> None:
    class Count:
        def __init__(self) -> None:
            self.n = 1

        def __iadd__(self, x: int):
            self.n += x
            return self

    @weft.jit.script
    def run() -> tuple[int, bool]:
        a = Count()
        b = a
        a += 4
        return a.n, a is b

    assert run() == (5, True)


def test_a_schema_says_what_is_given_by_name() -> None:
    unit = weft.jit.CompilationUnit("def f(x, *, n: int = 2):\n    return x * n\n")
    assert unit.f.schema == "f(Tensor x, *, int n=2) -> Tensor"


def starred(x: list[int]):
    a, *b = x
    *c, d = x
    e, *f, g = x
    b.append(3)
    return a, b, c, d, e, f, g


def backwards(n: int):
    total = [i for i in reversed(range(n))]
    for i, j in zip(range(n), reversed(range(1, n, 2))):  # noqa: B905
        total.append(i * 10 + j)
    return total, [x for x in reversed((1, 2, n))], [(i, x) for i, x in enumerate(reversed([7, 8]))]


@pytest.mark.parametrize(
    "function,args", [(starred, ([1, 2, 3, 4],)), (starred, ([1, 2],)), (backwards, (5,)), (backwards, (0,))]
)
def test_lists_unpacked_around_a_star_and_ranges_turned_round(function, args) -> None:
    assert weft.jit.script(function)(*args) == function(*args)


def test_too_few_elements_around_a_star() -> None:
    with pytest.raises(ValueError, match="not enough values to unpack"):
        weft.jit.script(starred)([1])


def test_texts_are_numbers_of_a_base() -> None:
    @weft.jit.script
    def read(text: str, base: int) -> int:
        return int(text, base) + int("ff", 16)

    assert read("11", 2) == 258
    with pytest.raises(ValueError, match="base 2"):
        read("2", 2)
