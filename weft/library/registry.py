"""What may be registered for a user's operator, by its name: `register_fake("mylib::name", ...)`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from weft.library.operators import ANY_DEVICE, USER_OPERATORS, UserOperator
from weft.ops import refused_libraries
from weft.ops.packet import Packet
from weft.support.errors import ArgumentError, StateError

Rule = Callable[..., Any]


def find(op: Any) -> UserOperator:
    """The user's operator behind a name, `weft.ops.mylib.name`, one of its overloads, or what custom_op gave.

    Raises StateError for a name that no user's operator has.
    """
    user = getattr(op, "_user_operator", None)
    if user is not None:
        return user  # type: ignore[no-any-return]
    if isinstance(op, Packet):
        op = op.overloads[0].name
    if not isinstance(op, str):
        raise ArgumentError(
            "expected the name of an operator (\"mylib::name\"), weft.ops.mylib.name or what custom_op gave, got "
            f"{type(op).__name__}"
        )
    operator = USER_OPERATORS.get(op.removesuffix(".default"))
    if operator is None:
        raise StateError(f"operator {op} does not exist: no operator of that name was defined by weft.library")
    return operator


def _registers(func: Rule | None, enter: Callable[[Rule], None]) -> Any:
    """Register a function, or what a decorator is put on."""

    def decorate(function: Rule) -> Rule:
        if not callable(function):
            raise ArgumentError(f"expected a function, got {type(function).__name__}")
        enter(function)
        return function

    return decorate if func is None else decorate(func)


def register_fake(
    op: Any, func: Rule | None = None, /, *, lib: Any = None, _stacklevel: int = 1, allow_override: bool = True
) -> Any:
    """Say which dtype and sizes an operator's results have: a function of the operator's arguments that gives empty
    tensors. It sees tensors whose sizes may be symbols, and whose values nobody knows.

    lib: accepted as PyTorch has it. Usable as a decorator. Raises StateError for a name that does not exist, and with
    allow_override=False where there is one already. (Once weft.ops.load_library has refused a library, a name that does
    not exist is taken for one of its operators, and what is said of it is dropped.)
    """
    if isinstance(op, str) and op not in USER_OPERATORS and refused_libraries:
        return _registers(func, lambda function: None)  # it belongs to an operator that the library would have
    user = find(op)
    if not allow_override and user.fake is not None:
        raise StateError(f"{user.schema.name} already has a fake impl registered")

    def enter(function: Rule) -> None:
        user.fake = function
        user.redo()

    return _registers(func, enter)


def register_kernel(
    op: Any, device_types: str | Sequence[str] | None, func: Rule | None = None, /, *, lib: Any = None
) -> Any:
    """Register an implementation for the tensors of some devices (None: of all). Usable as a decorator."""
    user = find(op)
    devices = (ANY_DEVICE,) if device_types is None else _names(device_types)

    def enter(function: Rule) -> None:
        for device in devices:
            user.kernels[device] = function

    return _registers(func, enter)


def _names(device_types: str | Sequence[str]) -> tuple[str, ...]:
    names = (device_types,) if isinstance(device_types, str) else tuple(device_types)
    for name in names:
        if not isinstance(name, str):
            raise ArgumentError(f"device_types: expected names of devices, got {type(name).__name__}")
    return tuple([ANY_DEVICE if name == "default" else name for name in names])


def register_autograd(op: Any, backward: Rule, /, *, setup_context: Rule | None = None, lib: Any = None) -> None:
    """Register an operator's gradient.

    backward: `backward(ctx, *grads)` gives one gradient (or None) for each argument that goes by position, a list for a
    list. setup_context: `setup_context(ctx, inputs, output)` runs after the operator and says what backward needs
    (with `keyword_only_inputs` too, if there are such arguments). Both are made of operators, so that every order of
    gradient follows.
    Raises StateError for an operator that writes into its arguments.
    """
    user = find(op)
    if not callable(backward):
        raise ArgumentError(f"register_autograd: backward must be a function, got {type(backward).__name__}")
    if user.mutated or any(at is not None for at in user.given_back):
        raise StateError(
            f"Cannot register autograd formula for non-functional operator {user.schema.name} with schema "
            f"{user.schema}. Please create a functional operator and register an autograd formula for that."
        )
    user.backward, user.setup_context = backward, setup_context
    user.redo()


def register_vmap(op: Any, func: Rule | None = None, /, *, lib: Any = None) -> Any:
    """Register what vmap does with an operator: `rule(info, in_dims, *args)` gives (results, out_dims); info has
    batch_size and randomness. Without one, the operator runs example by example. Usable as a decorator."""
    user = find(op)

    def enter(function: Rule) -> None:
        user.vmap = function
        user.redo()

    return _registers(func, enter)
