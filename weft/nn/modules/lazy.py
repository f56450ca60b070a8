"""LazyModuleMixin: modules that learn their input's sizes from the first input that they get."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from weft.nn.modules.module import Module
from weft.nn.parameter import is_lazy
from weft.support.errors import StateError
from weft.tensor.capture import refuse_in_capture
from weft.tensor.tensor import Tensor

__all__ = ["LazyModuleMixin"]


class LazyModuleMixin:
    """Stands before a Module among the bases. Subclasses make uninitialized parameters, and materialize
    them in `initialize_parameters(*args, **kwargs)`, which is called once, with the arguments of the first forward.
    Then the module becomes an object of `cls_to_become`, if that is given.
    """

    cls_to_become: type[Module] | None = None

    if TYPE_CHECKING:
        _parameters: dict[str, Any]
        _buffers: dict[str, Any]
        _non_persistent_buffers_set: set[str]
        register_forward_pre_hook: Callable[..., Any]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._initialize_hook = self.register_forward_pre_hook(_infer_parameters, with_kwargs=True)

    def initialize_parameters(self, *args: Any, **kwargs: Any) -> None:
        """Materialize the parameters by what the first forward got. Subclasses define it."""
        raise NotImplementedError(f"initialize_parameters is not implemented for {type(self).__name__}")

    def has_uninitialized_params(self) -> bool:
        """Whether a parameter or buffer of this module itself has no shape yet."""
        return any(is_lazy(value) for value in self._own_tensors())

    def _own_tensors(self) -> Iterator[Any]:
        yield from self._parameters.values()
        yield from self._buffers.values()

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        for name, parameter in self._parameters.items():
            if parameter is not None:
                destination[prefix + name] = parameter if keep_vars or is_lazy(parameter) else parameter.detach()
        for name, buffer in self._buffers.items():
            if buffer is not None and name not in self._non_persistent_buffers_set:
                destination[prefix + name] = buffer if keep_vars or is_lazy(buffer) else buffer.detach()

    def _load_one(
        self, name: str, key: str, value: Tensor, saved: Any, assign: bool, errors: list[str],
        copies: list[Callable[[], None]],
    ) -> None:
        if is_lazy(value) and is_lazy(saved):
            return
        if is_lazy(value) and isinstance(saved, Tensor):
            lazy: Any = value
            lazy.materialize(saved.shape)
        super()._load_one(name, key, value, saved, assign, errors, copies)  # type: ignore[misc]

    def _replicate_for_data_parallel(self) -> Any:
        raise StateError(
            "Modules with uninitialized parameters can't be replicated: call them once with an input first"
        )


def _infer_parameters(module: Any, args: tuple[Any, ...], kwargs: dict[str, Any] | None = None) -> None:
    """The hook before the first forward."""
    refuse_in_capture(
        f"{type(module).__name__} gets its first input inside a compiled function; call it once outside, "
        "so that it learns its sizes")
    module.initialize_parameters(*args, **(kwargs or {}))
    if module.has_uninitialized_params():
        raise StateError(f"module {type(module).__name__} has not been fully initialized")
    module._initialize_hook.remove()
    del module._initialize_hook
    if module.cls_to_become is not None:
        module.__class__ = module.cls_to_become
