"""Compiled modules: the module itself for everything but calls."""

from __future__ import annotations

import copy
import functools
import inspect
from typing import Any

from weft.compile.driver import CompiledFunction, with_programs
from weft.compile.whole_or_split import WholeOrSplit

# what a compiled function says of its programs: of a compiled module too, unless the module has such a name
_OF_PROGRAMS = frozenset({"stages", "cuts", "export"})
# methods of every module that give the module back
_CHAINED = frozenset({
    "apply", "bfloat16", "cpu", "cuda", "double", "eval", "float", "half", "requires_grad_", "share_memory", "to",
    "to_empty", "train", "type",
})  # fmt: skip


class CompiledModule:
    """An nn.Module whose calls run as programs. Attributes, parameters, state_dict and isinstance are the module's own;
    `stages`, `cuts` and `export` are those of the compiled calls, unless the module has such names."""

    def __init__(self, module: Any, backend: str | None, split: bool = False) -> None:
        object.__setattr__(self, "_module", module)
        make = WholeOrSplit if split else CompiledFunction
        object.__setattr__(self, "_compiled", make(module, type(module).__name__, backend))
        object.__setattr__(self, "_split", split)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._compiled(*args, **kwargs)

    @property
    def __signature__(self) -> inspect.Signature:
        """That of the module's forward(), for help() and editors."""
        return inspect.signature(self._module.forward)

    @property
    def _orig_mod(self) -> Any:
        """The module itself, by PyTorch's name for it."""
        return self._module

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        cls: type = object.__getattribute__(self, "_module").__class__  # (compiled twice, it says what it holds)
        return cls

    def __getattr__(self, name: str) -> Any:
        module = object.__getattribute__(self, "_module")
        if name in _OF_PROGRAMS and not hasattr(module, name):
            return getattr(self._compiled, name)
        value = getattr(module, name)
        return self._chained(value) if name in _CHAINED else value

    def _chained(self, method: Any) -> Any:
        """A method that gives its module: here the compiled one, so that `compile(m).eval()` stays compiled."""

        @functools.wraps(method)
        def call(*args: Any, **kwargs: Any) -> Any:
            result = method(*args, **kwargs)
            return self if result is self._module else result

        return call

    def __prepare_scriptable__(self) -> Any:
        """What `weft.jit.script` and `trace` make a ScriptModule of: the module, or what stands in for it there."""
        prepare = getattr(type(self._module), "__prepare_scriptable__", None)
        return self._module if prepare is None else prepare(self._module)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self._module, name, value)

    def __delattr__(self, name: str) -> None:
        delattr(self._module, name)

    def __getitem__(self, index: Any) -> Any:
        return self._module[index]

    def __setitem__(self, index: Any, value: Any) -> None:
        self._module[index] = value

    def __delitem__(self, index: Any) -> None:
        del self._module[index]

    def __len__(self) -> int:
        return len(self._module)

    def __bool__(self) -> bool:
        return bool(self._module)

    def __iter__(self) -> Any:
        return iter(self._module)

    def __contains__(self, item: Any) -> bool:
        return item in self._module

    def __deepcopy__(self, memo: dict[int, Any]) -> CompiledModule:
        return CompiledModule(copy.deepcopy(self._module, memo), self._compiled.backend, self._split)

    def __copy__(self) -> CompiledModule:
        return CompiledModule(self._module, self._compiled.backend, self._split)

    def __reduce__(self) -> Any:
        """Pickled as its module and back end, with the code of its programs."""
        programs = None if self._split else self._compiled.programs_to_carry()
        return (with_programs, (programs, CompiledModule, self._module, self._compiled.backend, self._split))

    def __reduce_ex__(self, protocol: Any) -> Any:
        return self.__reduce__()

    def __repr__(self) -> str:
        return f"Compiled{self._module!r}"


def compile_module(module: Any, backend: str | None, split: bool = False) -> CompiledModule:
    """The module with compiled calls."""
    return CompiledModule(module, backend, split)
