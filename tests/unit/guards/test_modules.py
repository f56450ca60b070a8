"""Modules, known through Kinds: mode, structure, hooks, forward and settings are guarded;
an epoch spares looking at them."""

from __future__ import annotations

import types
from typing import Any

import pytest

from weft.guards import Kinds, ObjectWrite, observe

LIBRARY = """
class Counter: epoch = 0
class Tensor: pass
class Module:
    def __init__(self):
        for name in ('_parameters', '_buffers', '_modules', '_forward_hooks'): self.__dict__[name] = {}
        self.training = True
    def __setattr__(self, name, value):
        Counter.epoch += 1
        for kind, group in ((Tensor, '_parameters'), (Module, '_modules')):
            if isinstance(value, kind):
                self.__dict__[group][name] = value
                return
        object.__setattr__(self, name, value)
    def __getattr__(self, name):
        for group in ('_parameters', '_buffers', '_modules'):
            if name in self.__dict__[group]: return self.__dict__[group][name]
        raise AttributeError(name)
    def register_forward_hook(self, hook):
        Counter.epoch += 1
        self._forward_hooks[len(self._forward_hooks)] = hook
    def train(self, mode=True):
        self.training = mode
        for m in self._modules.values(): m.train(mode)
    def modules(self):
        yield self
        for m in self._modules.values(): yield from m.modules()
    def __call__(self, x):
        x = self.forward(x)
        for hook in self._forward_hooks.values(): x = hook(x)
        return x
class Dropout(Module):
    def __init__(self, p):
        super().__init__()
        self.p = p
    def forward(self, x): return x * self.p if self.training else x
class Linear(Module):
    def __init__(self):
        super().__init__()
        self.weight = Tensor()
    def forward(self, x): return x + 1
"""
USER = """
class Net(Module):
    def __init__(self):
        super().__init__()
        self.a, self.drop = Linear(), Dropout(0.5)
        self.temperature = 2.0
    def forward(self, x):
        return self.drop(self.a(x)) / self.temperature
net = Net()
def hook(x): return x * SCALE
SCALE = 1.5
def step(x): return net(x)
def scan(x):
    for m in net.modules(): x = x + len(m._parameters) if hasattr(m, 'p') else x
    return x
"""
CHANGES = {
    "temperature": ("net.temperature = 3.0", "temperature"),
    "setting of a library module": ("net.drop.p = 0.25", "p"),
    "eval": ("net.train(False)", "training"),
    "mode of one submodule": ("net.drop.training = False", "training"),
    "replaced submodule": ("net.a = Linear()", "['a']"),
    "replaced parameter": ("net.a.weight = Tensor()", "['weight']"),
    "added hook": ("net.a.register_forward_hook(hook)", "_forward_hooks)"),
    "patched forward": ("net.forward = hook", "forward"),
    "patched forward of a submodule": ("net.drop.forward = hook", "forward"),
    "patched forward of a class": ("Net.forward = lambda self, x: x", "Net.forward"),
    "patched forward of a library class": ("Linear.forward = lambda self, x: x", "Linear.forward"),
    "other class": ("net.drop.__class__ = Linear", "class of"),
    "a third submodule": ("net.b = Linear()", "_modules)"),
}


@pytest.fixture
def net(program: Any, tmp_path: Any) -> tuple[types.ModuleType, Kinds]:
    """A user's program over a library whose own code is internal."""
    library = program(LIBRARY)
    library.__file__ = "<weft library>"
    for name, value in list(library.__dict__.items()):
        if isinstance(value, type):
            for each in vars(value).values():
                if isinstance(each, types.FunctionType):
                    each.__code__ = each.__code__.replace(co_filename="<weft library>")
            value.__module__ = library.__name__
            assert value is library.__dict__[name]
    user = program(USER, **{k: v for k, v in library.__dict__.items() if isinstance(v, type)})
    return user, Kinds(leaves=(library.Tensor,), modules=(library.Module,), by_epoch=(library.Module,))


@pytest.mark.parametrize("with_epoch", [False, True])
@pytest.mark.parametrize("name", CHANGES)
def test_a_changed_module_is_noticed(name: str, with_epoch: bool, net: Any) -> None:
    user, kinds = net
    counter = user.Module.__setattr__.__globals__["Counter"]
    epoch = (lambda: counter.epoch) if with_epoch else None
    result, observation = observe(user.step, (1.0,), kinds=kinds, epoch_source=epoch)
    assert result == 0.5
    assert observation.guards.check() and observation.guards.check()
    user.net.temperature = 2.0
    assert observation.guards.check()
    change, path = CHANGES[name]
    exec(change, user.__dict__)
    if "class of" in path:
        counter.epoch += 1  # assigning __class__ bypasses nothing that a Module can see
    assert not observation.guards.check()
    assert (
        any(m.path.endswith(path) or path in m.path for m in observation.guards.misses())
    ), observation.guards.misses()


def test_a_hook_is_guarded_like_any_function(net: Any) -> None:
    user, kinds = net
    user.net.register_forward_hook(user.hook)
    _, observation = observe(user.step, (1.0,), kinds=kinds)
    user.SCALE = 2.5
    assert [m.path for m in observation.guards.misses()] == ["global SCALE"]


def test_modules_that_a_library_generator_yields(net: Any) -> None:
    user, kinds = net
    assert observe(user.scan, (0.0,), kinds=kinds)[0] == 0.0
    _, observation = observe(user.scan, (0.0,), kinds=kinds)
    user.net.drop._parameters["w"] = user.Tensor()
    assert not observation.guards.check()


def test_while_the_epoch_stands_still_tracked_guards_are_not_evaluated(net: Any) -> None:
    user, kinds = net
    epoch = [0]
    _, observation = observe(user.step, (1.0,), kinds=kinds, epoch_source=lambda: epoch[0])
    assert observation.guards.check()
    object.__setattr__(user.net, "temperature", 9.0)  # a write that nobody tells
    assert observation.guards.check()
    epoch[0] += 1
    assert not observation.guards.check()
    assert not observation.guards.check()
    object.__setattr__(user.net, "temperature", 2.0)
    assert observation.guards.check()


def test_writes_to_a_modules_own_dicts_are_the_drivers(net: Any) -> None:
    user, kinds = net
    user.net._buffers["mean"] = before = user.Tensor()
    user.exec_step = None
    exec("def update(x):\n    net._buffers['mean'] = Tensor()\n    return x", user.__dict__)
    _, observation = observe(user.update, (1.0,), kinds=kinds)
    (write,) = observation.writes
    assert isinstance(write, ObjectWrite) and write.old is before and write.target.name == "mean"
    assert not observation.guards.check() and observation.guards.without(slots=[write.target]).check()
    observation.rollback()
    assert user.net._buffers["mean"] is before


def test_a_set_without_some_state(net: Any) -> None:
    user, kinds = net
    _, observation = observe(user.step, (1.0,), kinds=kinds)
    user.net.temperature = 3.0
    (miss,) = observation.guards.misses()
    assert observation.guards.without(slots=[miss.lift_target]).check()
    assert observation.guards.without(holders=[user.net]).check()
    assert not observation.guards.check()
