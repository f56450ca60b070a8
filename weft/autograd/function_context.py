"""FunctionCtx: what forward and backward of one call of a custom Function share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from weft.autograd.saved import FREED, SavedTensor
from weft.support.errors import ArgumentError, StateError
from weft.support.warn import warn
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

    @property
    def attributes(self) -> dict[str, Any]:
        """What the user has put on the context."""
        return {name: value for name, value in vars(self).items() if name not in _OWN}

    def like(self, attributes: dict[str, Any], saved: tuple[Any, ...]) -> FunctionCtx:
        """A context of the same call with other attributes and other saved tensors."""
        context = FunctionCtx(self.needs_input_grad)
        vars(context).update(attributes)
        context._to_save = saved
        return context

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
        if type(value) is not bool:
            raise ArgumentError(f"set_materialize_grads takes a bool, but got {type(value).__name__}")
        self._materialize = value

    materialize_grads = property(fset=set_materialize_grads, doc="set_materialize_grads, as an attribute to assign.")

    @property
    def saved_tensors(self) -> tuple[Any, ...]:
        """The tensors given to save_for_backward. Raises StateError once the graph was freed, VersionError
        if one was written since."""
        node = None if self._node is None else self._node()
        if self._saved is None:
            raise StateError(FREED)
        if self._to_save:  # forward has not returned yet
            return self._to_save
        return tuple([None if s is None else s.unpack(node) for s in self._saved])

    @property
    def saved_variables(self) -> tuple[Any, ...]:
        """The older name of saved_tensors. Warns."""
        warn("'saved_variables' is deprecated; use 'saved_tensors'", DeprecationWarning)
        return self.saved_tensors

    @property
    def _raw_saved_tensors(self) -> tuple[Any, ...]:
        if self._saved is None:
            raise StateError(FREED)
        return self._saved

    @property
    def to_save(self) -> tuple[Any, ...] | None:
        """What forward has given to save_for_backward, until it returns."""
        return self._to_save or None

    @property
    def dirty_tensors(self) -> tuple[Any, ...] | None:
        """What forward has given to mark_dirty, until it returns."""
        return self._dirty or None

    @property
    def non_differentiable(self) -> tuple[Any, ...] | None:
        """What forward has given to mark_non_differentiable, until it returns."""
        return self._without_grad or None

    @property
    def saved_for_forward(self) -> tuple[Any, ...] | None:
        """What forward has given to save_for_forward."""
        return self._for_forward or None

    @property
    def requires_grad(self) -> bool:
        """Whether any input of forward requires grad."""
        return any(self.needs_input_grad)

    def maybe_clear_saved_tensors(self) -> None:
        """Let go of the saved tensors."""
        if self._saved:
            self._saved = None

    def register_hook(self, hook: Any) -> Any:
        """The node's register_hook."""
        return self._node_of().register_hook(hook)

    def register_prehook(self, hook: Any) -> Any:
        """The node's register_prehook."""
        return self._node_of().register_prehook(hook)

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


_OWN = frozenset(vars(FunctionCtx(())))
