"""Sequential and ModuleList."""

from __future__ import annotations

import operator
from collections import OrderedDict
from collections.abc import Iterable, Iterator
from typing import Any

from weft.nn.modules.module import Module
from weft.support.warn import warn


def _position(length: int, index: Any) -> int:
    at = operator.index(index)
    if not -length <= at < length:
        raise IndexError(f"index {at} is out of range")
    return at % length


def _times(count: Any) -> int:
    if not isinstance(count, int):
        raise TypeError(f"unsupported operand type(s) for *: {Sequential} and {type(count)}")
    if count <= 0:
        raise ValueError(f"Non-positive multiplication factor {count} for {Sequential}")
    return count


class _InOrder(Module):
    """Modules in a row."""

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[Module]:
        modules: Any = self._modules.values()
        return iter(modules)


class Container(Module):
    """Modules by name, without a forward: PyTorch's older base of modules."""

    def __init__(self, **kwargs: Any) -> None:
        warn(
            "`nn.Container` is deprecated. All of its functionality is now implemented in `nn.Module`. Subclass that "
            "instead.", FutureWarning,
        )
        super().__init__()
        for key, value in kwargs.items():
            self.add_module(key, value)


class Sequential(_InOrder):
    """Calls its modules one after another."""

    def __init__(self, *args: Any) -> None:
        super().__init__()
        items = (
            args[0].items() if len(args) == 1 and isinstance(args[0], OrderedDict)
            else ((str(i), m) for i, m in enumerate(args))
        )
        for name, module in items:
            self.add_module(name, module)

    def forward(self, input: Any) -> Any:
        modules: Any = self._modules.values()  # Modules: None is for attributes
        for module in modules:
            input = module(input)
        return input

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return Sequential(OrderedDict(list(self._modules.items())[index]))
        return list(self._modules.values())[_position(len(self), index)]

    def __setitem__(self, index: int, module: Module) -> None:
        self._modules[list(self._modules)[_position(len(self), index)]] = module

    def __delitem__(self, index: Any) -> None:
        keys = list(self._modules)
        for key in keys[index] if isinstance(index, slice) else [keys[_position(len(self), index)]]:
            del self._modules[key]
        _renumber(self)

    def append(self, module: Module) -> Sequential:
        """Add a module at the end."""
        self.add_module(str(len(self)), module)
        return self

    def extend(self, modules: Iterable[Module]) -> Sequential:
        """Add modules at the end."""
        for module in modules:
            self.append(module)
        return self

    def insert(self, index: int, module: Module) -> Sequential:
        """Add a module before an index. Raises AssertionError for other objects, IndexError."""
        if not isinstance(module, Module):
            raise AssertionError(f"module should be of type: {Module}")
        if not -len(self) <= index <= len(self):
            raise IndexError(f"Index out of range: {index}")
        items = list(self)
        items.insert(index if index >= 0 else index + len(items), module)
        self._modules.clear()
        return self.extend(items)

    def pop(self, index: int | slice) -> Any:
        """Remove a module and return it."""
        module = self[index]
        del self[index]
        return module

    def __add__(self, other: Any) -> Sequential:
        if not isinstance(other, Sequential):
            raise ValueError(f"add operator supports only objects of Sequential class, but {type(other)} is given.")
        return Sequential(*self, *other)

    def __iadd__(self, other: Any) -> Sequential:
        if not isinstance(other, Sequential):
            raise ValueError(f"add operator supports only objects of Sequential class, but {type(other)} is given.")
        return self.extend(list(other))

    def __mul__(self, count: int) -> Sequential:
        return Sequential(*list(self) * _times(count))

    __rmul__ = __mul__

    def __imul__(self, count: int) -> Sequential:
        return self.extend(list(self) * (_times(count) - 1))


class ModuleList(_InOrder):
    """A list of modules whose parameters count."""

    def __init__(self, modules: Iterable[Module] | None = None) -> None:
        super().__init__()
        if modules is not None:
            self.extend(modules)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return ModuleList(list(self)[index])
        return self._modules[str(_position(len(self), index))]

    def __setitem__(self, index: int, module: Module) -> None:
        self._modules[str(_position(len(self), index))] = module

    def __delitem__(self, index: Any) -> None:
        keys = list(self._modules)
        for key in keys[index] if isinstance(index, slice) else [keys[_position(len(self), index)]]:
            del self._modules[key]
        _renumber(self)

    def __contains__(self, module: object) -> bool:
        return any(module is m for m in self._modules.values())

    def append(self, module: Module) -> ModuleList:
        """Add a module at the end."""
        self.add_module(str(len(self)), module)
        return self

    def insert(self, index: int, module: Module) -> None:
        """Add a module before an index."""
        items = list(self)
        items.insert(index, module)
        self._modules.clear()
        self.extend(items)

    def extend(self, modules: Iterable[Module]) -> ModuleList:
        """Add modules at the end."""
        for module in modules:
            self.append(module)
        return self

    def pop(self, index: int | slice) -> Any:
        """Remove a module and return it."""
        module = self[index]
        del self[index]
        return module

    def __iadd__(self, modules: Iterable[Module]) -> ModuleList:
        return self.extend(modules)

    def __add__(self, other: Iterable[Module]) -> ModuleList:
        return ModuleList([*self, *other])

    def __repr__(self) -> str:
        """Equal neighbours are shown once: `(0-2): 3 x Linear(...)`."""
        texts = [repr(module) for module in self]
        if not texts:
            return f"{self._get_name()}()"
        lines, start = [], 0
        for i, text in enumerate(texts):
            if i + 1 < len(texts) and texts[i + 1] == text:
                continue
            head = f"({start})" if start == i else f"({start}-{i}): {i - start + 1} x"
            lines.append(f"{head}{':' if start == i else ''} {text}".replace("\n", "\n  "))
            start = i + 1
        return f"{self._get_name()}(\n  " + "\n  ".join(lines) + "\n)"

    def __dir__(self) -> list[str]:
        return [k for k in super().__dir__() if not k.isdigit()]


def _renumber(container: Module) -> None:
    items = list(container._modules.values())
    container._modules.clear()
    container._modules.update((str(i), m) for i, m in enumerate(items))
