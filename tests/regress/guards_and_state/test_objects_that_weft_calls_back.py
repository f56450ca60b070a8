"""Objects whose methods weft calls (hooks, data sets, what an average is taken by) are state of a compiled step: no
chain led to them, and what their containers held was a constant of the program."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import weft
from weft import nn


class Settings:
    def __init__(self) -> None:
        self.k = 1.0
        self.d = {"a": 1.0}
        self.l = [1.0]

    @property
    def factor(self) -> float:
        return self.k * self.d["a"] * self.l[-1]

    def change(self, number: int) -> None:
        if number == 1:
            self.k = 2.0
        if number == 2:
            self.d["a"] = 3.0
        if number == 3:
            self.l.append(0.5)
        if number == 4:
            self.d = {"a": 5.0}


class Methods:
    """Every method is called by weft alone."""

    settings: Settings

    def scaled(self, *args: Any) -> Any:
        return args[-1] * self.settings.factor

    def once_more(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        with weft.no_grad():
            optimizer.param_groups[0]["params"][0].mul_(self.settings.factor)

    def loss(self, x: Any) -> Any:
        return (x * self.settings.factor).square().sum()


class Listener(Methods):
    def __init__(self, settings: Settings) -> None:
        self.settings = settings


class Unseen(Methods):
    """No code of the user's runs when an object of this class is made."""


class New(Methods):
    def __new__(cls, settings: Settings) -> New:
        self = object.__new__(cls)
        self.settings = settings
        return self


class Row(Methods, list[Any]):
    @property
    def settings(self) -> Settings:  # type: ignore[override]
        return self[0]  # type: ignore[no-any-return]


def unseen(settings: Settings) -> Unseen:
    listener = Unseen()
    listener.settings = settings
    return listener


def row(settings: Settings) -> Row:
    return Row([settings])


class Rows(weft.utils.data.Dataset[Any]):
    def __init__(self, settings: Settings) -> None:
        self.settings = settings

    def __len__(self) -> int:
        return 3

    def __getitem__(self, index: int) -> Any:
        return weft.ones(2) * index * self.settings.factor


Step = Callable[[Any], Any]
Listens = Callable[[Settings], Any]


def saved(s: Settings, listens: Listens) -> Step:
    listener = listens(s)
    hooks = weft.autograd.graph.saved_tensors_hooks(lambda t: t, listener.scaled)

    def step(x: Any) -> Any:
        with hooks:
            y = (x * x).sum()
        return weft.autograd.grad(y, x)[0]

    return step


def of_a_parameter(s: Settings, listens: Listens) -> Step:
    p = nn.Parameter(weft.ones(2))
    p.register_hook(listens(s).scaled)

    def step(x: Any) -> Any:
        p.grad = None
        (p * x).sum().backward()
        assert p.grad is not None
        return p.grad * 1

    return step


def of_an_optimizer(s: Settings, listens: Listens) -> Step:
    p = nn.Parameter(weft.ones(2))
    optimizer = weft.optim.SGD([p], lr=0.1)
    optimizer.register_step_post_hook(listens(s).once_more)

    def step(x: Any) -> Any:
        optimizer.zero_grad()
        (p * x).sum().backward()
        optimizer.step()
        return p * 1

    return step


def of_a_module(s: Settings, listens: Listens) -> Step:
    layer = nn.Identity()
    layer.register_forward_hook(listens(s).scaled)
    return lambda x: layer(x)


def of_a_data_set(s: Settings, listens: Listens) -> Step:
    rows = weft.utils.data.Subset(Rows(s), [1, 2])
    return lambda x: rows[1] * x.sum()


def of_a_transform(s: Settings, listens: Listens) -> Step:
    gradient = weft.func.grad(listens(s).loss)
    return lambda x: gradient(x)


def made_in_the_call(s: Settings, listens: Listens) -> Step:
    def step(x: Any) -> Any:
        y = x * 2
        listener = listens(s)
        y.register_hook(listener.scaled)
        return weft.autograd.grad((y * y).sum(), x)[0]

    return step


MAKERS = [saved, of_a_parameter, of_an_optimizer, of_a_module, of_a_data_set, of_a_transform, made_in_the_call]


@pytest.mark.parametrize("split", [False, True])
@pytest.mark.parametrize("listens", [Listener, unseen, New, row])
@pytest.mark.parametrize("make", MAKERS)
def test_what_they_read_may_change(
    make: Callable[[Settings, Listens], Step], listens: Listens, split: bool
) -> None:
    seen = []
    for wrap in (lambda f: f, lambda f: weft.compile(f, split=split)):
        settings = Settings()
        step, values = wrap(make(settings, listens)), []
        for number in range(6):
            settings.change(number)
            values.append(step(weft.tensor([1.0, 2.0], requires_grad=True)).tolist())
        seen.append(values)
    assert [v for row in seen[1] for v in row] == pytest.approx([v for row in seen[0] for v in row], rel=1e-5)
