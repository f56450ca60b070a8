"""FunctionCtx: what forward and backward of one call of a custom Function share."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

from weft.autograd.saved import FREED, SavedTensor
from weft.support.errors import ArgumentError, StateError
from weft.tensor.tensor import Tensor


class FunctionCtx:
    """What `forward`, `setup_context` and `backward` of one call share. Any other attribute may be set on it too."""

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any: ...
        def __setattr__(self, name: str, value: Any) -> None: ...

    def __init__(self, needs: tuple[bool, ...]) -> None:
        self.needs_input_grad = needs
        self._to_save: tuple[Tensor | None, ...] = ()
        self._for_forward: tuple[Tensor | None, ...] = ()
        self._dirty: tuple[Tensor, ...] = ()
        self._without_grad: tuple[Tensor, ...] = ()
        self._materialize = True
        self._materialize_non_diff_grads = True
        self._saved: tuple[SavedTensor | None, ...] | None = ()
        self._node: Any = None

    def save_for_backward(self, *tensors: Tensor | None) -> None:
        """Keep inputs, outputs or other tensors (or None) for `saved_tensors`. Call it once; the last call counts."""
        for i, tensor in enumerate(tensors):
            if tensor is not None and not isinstance(tensor, Tensor):
                raise ArgumentError(
                    f"save_for_backward can only save variables, but argument {i} is of type {type(tensor).__name__}"
                )
        self._to_save = tensors

    def save_for_forward(self, *tensors: Tensor | None) -> None:
        """Keep tensors for `saved_tensors` of jvp, the forward-mode rule."""
        for i, tensor in enumerate(tensors):
            if tensor is not None and not isinstance(tensor, Tensor):
                raise ArgumentError(
                    f"save_for_forward expects all arguments to be tensors, but argument {i} is of type "
                    f"{type(tensor).__name__}"
                )
        self._for_forward = tensors

    def mark_dirty(self, *tensors: Tensor) -> None:
        """Say which inputs `forward` changed in place. They must all be returned."""
        for tensor in tensors:
            if not isinstance(tensor, Tensor):
                raise StateError(f"mark_dirty can only accept variables, but got a {type(tensor).__name__}")
        self._dirty = tensors

    def mark_non_differentiable(self, *tensors: Tensor) -> None:
        """Say which outputs carry no gradient."""
        for tensor in tensors:
            if not isinstance(tensor, Tensor):
                raise StateError(
                    f"mark_non_differentiable only accepts variable arguments, but got a {type(tensor).__name__}"
                )
        self._without_grad = tensors

    def set_materialize_grads(self, value: bool) -> None:
        """Whether `backward` gets zeros (the default) or None for outputs that received no gradient."""
        self._materialize = bool(value)

    @property
    def saved_tensors(self) -> tuple[Any, ...]:
        """The tensors given to save_for_backward. Raises StateError once the graph was freed, VersionError
        if one was written since."""
        node = None if self._node is None else self._node()
        if self._saved is None:
            raise StateError(FREED)
        return tuple([None if s is None else s.unpack(node) for s in self._saved])

    @property
    def saved_variables(self) -> tuple[Any, ...]:
        """The older name of saved_tensors. Warns."""
        warnings.warn("'saved_variables' is deprecated; use 'saved_tensors'", DeprecationWarning, stacklevel=2)
        return self.saved_tensors

    @property
    def _raw_saved_tensors(self) -> tuple[Any, ...]:
        if self._saved is None:
            raise StateError(FREED)
        return self._saved

    @property
    def next_functions(self) -> tuple[tuple[Any, int], ...]:
        """(node, input number) of every edge of the call's node."""
        return self._node_of().next_functions  # type: ignore[no-any-return]

    @property
    def metadata(self) -> dict[str, Any]:
        """The dictionary for remarks of the call's node."""
        return self._node_of().metadata  # type: ignore[no-any-return]

    def name(self) -> str:
        """The node's name."""
        return self._node_of().name()  # type: ignore[no-any-return]

    def _node_of(self) -> Any:
        node = None if self._node is None else self._node()
        if node is None:
            raise StateError("the node of a custom Function exists once its forward has returned")
        return node
