"""Compiled modules: the module itself for everything but calls."""

from __future__ import annotations

from typing import Any

from weft.compile.driver import CompiledFunction


class CompiledModule:
    """An nn.Module whose calls run as programs. Attributes, parameters, state_dict and isinstance are the module's own."""

    def __init__(self, module: Any, backend: str | None) -> None:
        object.__setattr__(self, "_module", module)
        object.__setattr__(self, "_compiled", CompiledFunction(module, name=type(module).__name__, backend=backend))

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._compiled(*args, **kwargs)

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        return type(object.__getattribute__(self, "_module"))

    def __getattr__(self, name: str) -> Any:
        return getattr(object.__getattribute__(self, "_module"), name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self._module, name, value)

    def __delattr__(self, name: str) -> None:
        delattr(self._module, name)

    def stages(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
        """Every stage of the program for these arguments."""
        found: dict[str, Any] = self._compiled.stages(*args, **kwargs)
        return found

    def __repr__(self) -> str:
        return f"Compiled{self._module!r}"


def compile_module(module: Any, backend: str | None) -> CompiledModule:
    """The module with compiled calls."""
    return CompiledModule(module, backend)
