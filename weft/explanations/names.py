"""What the user calls the inputs of a program: `x`, `blocks.2.attn.qkv.weight`, `grad of w1`, `exp_avg of 0.bias`."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from types import CodeType
from typing import Any

from weft.compile.program.entry import Entry
from weft.programs.program_io import ArgumentSource, GradBuffer, GradFlag, StateSource
from weft.record.miss_text import leaf_name
from weft.support import registry
from weft.tensor.tensor import Tensor

_DEPTH = 3  # of objects and containers that are looked into


def input_names(function: Callable[..., Any], entry: Entry) -> list[str]:
    """A name for each parameter of an entry's graph, in order; the graph's own where nothing better is known."""
    names = TensorNames(function)
    labels = []
    for param, source in zip(entry.graph.params, entry.sources, strict=False):
        name: str | None = None
        if isinstance(source, ArgumentSource):
            within = source.leaf < entry.guards.spec.size  # behind the arguments stands what the function reaches
            spec, bound = entry.guards.spec, entry.guards.bound
            name = leaf_name(function, spec, source.leaf) if within else bound.name_of(source.leaf)
        elif isinstance(source, StateSource):
            slot = source.slot
            name = names.of_storage(slot.storage) or names.of(slot.tensor)
        elif isinstance(source, (GradBuffer, GradFlag)):
            owner = names.of(source.tensor)
            name = None if owner is None else f"grad of {owner}"
        labels.append(name or str(param.name))
    return labels + [str(p.name) for p in entry.graph.params[len(labels):]]


class TensorNames:
    """The tensors that a function reaches from its variables, by identity. arguments: (args, kwargs) of a call."""

    def __init__(self, function: Callable[..., Any], arguments: Any = ((), {})) -> None:
        self.tensors: dict[int, str] = {}
        self.storages: dict[int, str] = {}
        self._named: dict[str, Tensor] = {}
        self._seen: set[int] = set()
        self._roots: dict[str, Any] = {**dict(variables_of(function)), **_arguments(function, *arguments)}
        self.prefixes = sum(registry.is_module(v) for v in self._roots.values()) > 1
        self.look_again()

    def look_again(self) -> None:
        """Look for what has come to be meanwhile: gradients, states of optimizers."""
        for collection in (self.tensors, self.storages, self._named, self._seen):
            collection.clear()
        for rank in (True, False):  # modules first: their names are what people know
            for name, value in self._roots.items():
                if registry.is_module(value) is rank:
                    self._look(name, value, 0)

    def named(self) -> dict[str, Tensor]:
        """The tensors by their names."""
        return self._named

    def of(self, tensor: Tensor) -> str | None:
        """A tensor's name."""
        return self.tensors.get(id(tensor)) or (None if tensor._storage is None else self.of_storage(tensor._storage))

    def of_storage(self, storage: Any) -> str | None:
        """The name of a tensor that shows a storage."""
        return self.storages.get(id(storage))

    def _note(self, name: str, tensor: Tensor) -> None:
        self.tensors.setdefault(id(tensor), name)
        self._named.setdefault(self.tensors[id(tensor)], tensor)
        if tensor._storage is not None:
            self.storages.setdefault(id(tensor._storage), name)
        grad = getattr(tensor._autograd, "grad", None)
        if isinstance(grad, Tensor):
            self._note(f"grad of {name}", grad)

    def _look(self, name: str, value: Any, depth: int) -> None:
        if isinstance(value, Tensor):
            self._note(name, value)
            return
        if depth > _DEPTH or id(value) in self._seen:
            return
        self._seen.add(id(value))
        if registry.is_module(value):
            prefix = f"{name}." if self.prefixes or depth else ""
            for inner, tensor in (*value.named_parameters(), *value.named_buffers()):
                self._note(prefix + inner, tensor)
        elif _is_optimizer(value):
            for tensor, state in list(value.state.items()):
                for key, part in state.items():
                    if isinstance(part, Tensor):
                        self._note(f"{key} of {self.of(tensor) or name}", part)
        elif isinstance(value, Mapping):
            for key, inner in value.items():
                self._look(f"{name}[{key!r}]", inner, depth + 1)
        elif isinstance(value, (list, tuple)):
            for i, inner in enumerate(value):
                self._look(f"{name}[{i}]", inner, depth + 1)
        elif type(value).__module__ != "builtins" and not inspect.isroutine(value) and not inspect.isclass(value):
            for key, inner in getattr(value, "__dict__", {}).items():
                self._look(f"{name}.{key}", inner, depth + 1)


def _is_optimizer(value: Any) -> bool:
    return hasattr(value, "param_groups") and isinstance(getattr(value, "state", None), Mapping)


def _arguments(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    """The arguments of a call by the names of its parameters."""
    if not args:
        return kwargs
    try:
        bound = inspect.signature(function).bind(*args, **kwargs)
    except (TypeError, ValueError):  # no signature to be had
        return {**{f"argument {i}": value for i, value in enumerate(args)}, **kwargs}
    return dict(bound.arguments)


def variables_of(function: Any) -> Iterator[tuple[str, Any]]:
    """What a function reaches by name: the object of a method, closures, globals that its code names."""
    if registry.is_module(function):
        yield "self", function
        return
    owner = getattr(function, "__self__", None)
    if owner is not None:
        yield "self", owner
    function = inspect.unwrap(getattr(function, "__func__", function))
    code = getattr(function, "__code__", None)
    if code is None:
        return
    for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=True):
        try:
            yield name, cell.cell_contents
        except ValueError:  # it has no value yet
            continue
    for name in dict.fromkeys(_global_names(code)):
        if name in function.__globals__:
            yield name, function.__globals__[name]


def _global_names(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _global_names(constant)
