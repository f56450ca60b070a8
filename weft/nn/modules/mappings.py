"""ModuleDict, ParameterDict and ParameterList: containers by name or place whose contents count."""

from __future__ import annotations

import operator
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from weft.nn.modules.module import Module
from weft.nn.parameter import Parameter
from weft.support.errors import ArgumentError, IndexBoundsError, ValueProblem
from weft.tensor.tensor import Tensor


def _pairs(values: Any, owner: str) -> Iterable[tuple[str, Any]]:
    if isinstance(values, (Mapping, ModuleDict, ParameterDict)):
        return list(values.items())
    if isinstance(values, Iterable):
        pairs = list(values)
        if all(isinstance(p, (tuple, list)) and len(p) == 2 for p in pairs):
            return [(p[0], p[1]) for p in pairs]
        for i, p in enumerate(pairs):
            if not isinstance(p, Iterable):
                raise ArgumentError(f"{owner} update sequence element #{i} should be Iterable; is {type(p).__name__}")
        raise ValueProblem(f"{owner} update sequence must hold pairs of a key and a value")
    raise ArgumentError(
        f"{owner}.update should be called with an iterable of key/value pairs, but got {type(values).__name__}"
    )


class ModuleDict(Module):
    """A dict of modules whose parameters count."""

    def __init__(self, modules: Any = None) -> None:
        super().__init__()
        if modules is not None:
            self.update(modules)

    def __getitem__(self, key: str) -> Any:
        return self._modules[key]

    def __setitem__(self, key: str, module: Module) -> None:
        self.add_module(key, module)

    def __delitem__(self, key: str) -> None:
        del self._modules[key]

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[str]:
        return iter(self._modules)

    def __contains__(self, key: object) -> bool:
        return key in self._modules

    def clear(self) -> None:
        """Remove all modules."""
        self._modules.clear()

    def pop(self, key: str) -> Any:
        """Remove a module and return it."""
        return self._modules.pop(key)

    def keys(self) -> Any:
        """The names."""
        return self._modules.keys()

    def items(self) -> Any:
        """(name, module) pairs."""
        return self._modules.items()

    def values(self) -> Any:
        """The modules."""
        return self._modules.values()

    def update(self, modules: Any) -> None:
        """Add modules from a mapping or from pairs."""
        for key, module in _pairs(modules, "ModuleDict"):
            self[key] = module


def _as_parameter(value: Any) -> Any:
    return Parameter(value) if isinstance(value, Tensor) and not isinstance(value, Parameter) else value


class ParameterList(Module):
    """A list whose parameters count. Tensors become parameters; other values are kept as they are."""

    def __init__(self, values: Iterable[Any] | None = None) -> None:
        super().__init__()
        self._size = 0
        if values is not None:
            self.extend(values)

    def _place(self, index: Any) -> str:
        at = operator.index(index)
        if not -self._size <= at < self._size:
            raise IndexBoundsError(f"index {at} is out of range")
        return str(at % self._size)

    def __len__(self) -> int:
        return self._size

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return ParameterList(self[i] for i in range(*index.indices(self._size)))
        return getattr(self, self._place(index))

    def __setitem__(self, index: int, value: Any) -> None:
        setattr(self, self._place(index), _as_parameter(value))

    def __iter__(self) -> Iterator[Any]:
        return (self[i] for i in range(self._size))

    def append(self, value: Any) -> ParameterList:
        """Add a value at the end."""
        self._size += 1
        self[self._size - 1] = value
        return self

    def extend(self, values: Iterable[Any]) -> ParameterList:
        """Add values at the end."""
        if isinstance(values, Tensor) or not isinstance(values, Iterable):
            raise ArgumentError(
                f"ParameterList.extend should be called with an iterable, but got {type(values).__name__}"
            )
        for value in values:
            self.append(value)
        return self

    __iadd__ = extend

    def extra_repr(self) -> str:
        return "\n".join(f"  ({i}): {_described(value)}" for i, value in enumerate(self))


class ParameterDict(Module):
    """A dict whose parameters count. Tensors become parameters; other values are kept as they are."""

    def __init__(self, parameters: Any = None) -> None:
        super().__init__()
        self._keys: dict[str, None] = {}
        if parameters is not None:
            self.update(parameters)

    def __getitem__(self, key: str) -> Any:
        if key not in self._keys:
            raise KeyError(key)
        return getattr(self, key)

    def __setitem__(self, key: str, value: Any) -> None:
        self._keys[key] = None
        setattr(self, key, _as_parameter(value))

    def __delitem__(self, key: str) -> None:
        del self._keys[key]
        delattr(self, key)

    def __len__(self) -> int:
        return len(self._keys)

    def __iter__(self) -> Iterator[str]:
        return iter(self._keys)

    def __contains__(self, key: object) -> bool:
        return key in self._keys

    def keys(self) -> Any:
        """The names."""
        return self._keys.keys()

    def values(self) -> list[Any]:
        """The values."""
        return [self[k] for k in self._keys]

    def items(self) -> list[tuple[str, Any]]:
        """(name, value) pairs."""
        return [(k, self[k]) for k in self._keys]

    def get(self, key: str, default: Any = None) -> Any:
        """The value under a name, or the default."""
        return default if key not in self._keys else self[key]

    def pop(self, key: str) -> Any:
        """Remove a value and return it."""
        value = self[key]
        del self[key]
        return value

    def popitem(self) -> tuple[str, Any]:
        """Remove the pair that was added last and return it."""
        key = next(reversed(self._keys))
        return key, self.pop(key)

    def setdefault(self, key: str, default: Any = None) -> Any:
        """The value under a name, which is first set to the default where there is none."""
        if key not in self._keys:
            self[key] = default
        return self[key]

    def copy(self) -> ParameterDict:
        """Another ParameterDict with the same values."""
        return ParameterDict(OrderedDict(self.items()))

    def fromkeys(self, keys: Iterable[str], default: Any = None) -> ParameterDict:
        """A ParameterDict with the default under each name."""
        return ParameterDict([(key, default) for key in keys])

    def __reversed__(self) -> Iterator[str]:
        return reversed(self._keys)

    def __or__(self, other: ParameterDict) -> ParameterDict:
        joined = self.copy()
        joined.update(OrderedDict(other.items()))
        return joined

    def __ior__(self, other: ParameterDict) -> ParameterDict:
        self.update(OrderedDict(other.items()))
        return self

    def clear(self) -> None:
        """Remove all values."""
        for key in list(self._keys):
            del self[key]

    def update(self, parameters: Any) -> None:
        """Add values from a mapping or from pairs."""
        pairs = _pairs(parameters, "ParameterDict")
        is_ordered = not isinstance(parameters, Mapping) or isinstance(parameters, OrderedDict)
        # the keys of a plain dict are sorted, as in PyTorch
        for key, value in pairs if is_ordered else sorted(pairs, key=lambda pair: str(pair[0])):
            self[key] = value

    def extra_repr(self) -> str:
        return "\n".join(f"  ({key}): {_described(value)}" for key, value in self.items())


def _described(value: Any) -> str:
    if not isinstance(value, Tensor):
        return f"Object of type: {type(value).__name__}"
    kind = "Parameter" if isinstance(value, Parameter) else "Tensor"
    return f"{kind} containing: [{value.dtype} of size {'x'.join(map(str, value.dims))}]"
