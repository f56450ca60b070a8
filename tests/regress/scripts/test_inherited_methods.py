"""Programs call the methods of the classes that a class is derived from, of Modules and of plain classes, and parts of
a Sequential; a loop that ends by its condition alone leaves what that says.
"""

from __future__ import annotations

from pathlib import Path

import weft
import weft.jit
from weft import Tensor, nn


class Scaled(nn.Module):
    def __init__(self, n: int) -> None:
        super().__init__()
        self.n = n

    def pre(self, x: Tensor) -> Tensor:
        return x + self.n

    def forward(self, x: Tensor) -> Tensor:
        return self.pre(x)


class Doubled(Scaled):
    def pre(self, x: Tensor) -> Tensor:
        return Scaled.pre(self, x) * 2

    def forward(self, x: Tensor) -> Tensor:
        return Scaled.forward(self, x) + super().forward(x) + Scaled.pre(self, x)


class Linear(nn.Linear):
    def forward(self, x: Tensor) -> Tensor:
        return nn.Linear.forward(self, x) + super().forward(x)


class Again(Linear):
    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x) * 2



def test_methods_of_modules_behind_others(tmp_path: Path) -> None:
    x = weft.ones(2)
    for module in (Doubled(3), Linear(2, 2), Again(2, 2)):
        scripted = weft.jit.script(module)
        scripted.save(tmp_path / "module.weft")
        for call in (scripted, weft.jit.load(tmp_path / "module.weft")):
            assert call(x).tolist() == module(x).tolist()


class Counter:
    def __init__(self, n: int) -> None:
        self.n = n

    def value(self) -> int:
        return self.n

    def more(self) -> int:
        return 100


class Named(Counter):
    def __init__(self, n: int) -> None:
        super().__init__(n)
        self.name = "named"

    def value(self) -> int:
        return super().value() * 10 + Counter.value(self)

    def more(self) -> int:
        return super().more() + 1


class Last(Named):
    def __init__(self) -> None:
        Named.__init__(self, 5)
        self.last = self.n

    def more(self) -> int:
        return super(Last, self).more() + 10  # noqa: UP008


class Alone:
    def __init__(self) -> None:
        super().__init__()
        self.x = 1


def counted(n: int) -> list[int]:
    named, last = Named(n), Last()
    return [named.value(), named.more(), last.value(), last.more(), last.last, Counter.value(named), Alone().x]


def test_methods_of_classes_behind_others(tmp_path: Path) -> None:
    scripted = weft.jit.script(counted)
    scripted.save(tmp_path / "classes.weft")
    for call in (scripted, weft.jit.load(tmp_path / "classes.weft")):
        assert call(3) == counted(3) == [33, 101, 55, 111, 5, 3, 1]


class Sliced(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Tanh(), nn.ReLU(), nn.Sigmoid())
        self.listed = nn.ModuleList([nn.ReLU(), nn.Tanh(), nn.Sigmoid()])

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.listed[1:]:
            x = layer(x)
        return self.layers[:2](x) + self.layers[1:][:1](x) + self.layers[3:](x) + self.listed[::2][1](x)


def test_parts_of_containers() -> None:
    x = weft.tensor([-1.0, 2.0])
    assert weft.jit.script(Sliced())(x).tolist() == Sliced()(x).tolist()


def test_what_the_end_of_a_loop_says() -> None:
    @weft.jit.script
    def found(x: int | None) -> int:
        while x is None:
            x = 3
        return x + 1

    assert (found(None), found(5)) == (4, 6)


def test_an_empty_list_beside_another() -> None:
    @weft.jit.script
    def joined(n: int) -> tuple[list[int], list[int], bool, bool]:
        a = [n]
        b = a + []  # noqa: RUF005
        b.append(9)
        return b, [] + a, a == [], b != []  # noqa: RUF005

    assert joined(1) == ([1, 9], [1], False, True)
