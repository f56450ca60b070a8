"""opcheck: whether what is registered for a user's operator holds together, on one example."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import weft.library.registry as registry
import weft.testing
from weft.compile.driver import CompiledFunction
from weft.library.operators import UserOperator
from weft.library.values import fits, types_in, types_of
from weft.support import pytree
from weft.support.errors import StateError, ValueProblem
from weft.tensor.backend import tensors_in
from weft.tensor.modes import modes
from weft.tensor.tensor import Tensor

Call = Callable[..., Any]


class OpCheckError(StateError):
    """An operator does not keep what was said of it."""


def opcheck(
    op: Any, args: tuple[Any, ...], kwargs: dict[str, Any] | None = None, *, test_utils: str | Sequence[str] = (
        "test_schema", "test_autograd_registration", "test_faketensor", "test_aot_dispatch_dynamic",
    ), raise_exception: bool = True, atol: float | None = None, rtol: float | None = None,
) -> dict[str, Any]:
    """Run an operator on one example and look whether it keeps what was registered.

    test_schema: it writes into nothing but what it says, and results are new. test_autograd_registration: where an
    argument requires grad there is a gradient. test_faketensor: the fake implementation gives the types that the
    operator gives. test_aot_dispatch_dynamic: weft.compile gives the same results and gradients.

    Returns "SUCCESS" or the error for each check; raises OpCheckError instead unless raise_exception is False, and
    ValueProblem (a ValueError) for a check that does not exist.
    """
    user, named = registry.find(op), kwargs or {}
    wanted = (test_utils,) if isinstance(test_utils, str) else tuple(test_utils)
    outcomes: dict[str, Any] = {}
    for name in wanted:
        check = _CHECKS.get(name)
        if check is None:
            raise ValueProblem(f"opcheck: no check {name!r}; there are {', '.join(_CHECKS)}")
        try:
            check(user, args, named, {"atol": atol, "rtol": rtol})
            outcomes[name] = "SUCCESS"
        except Exception as error:
            if raise_exception:
                raise OpCheckError(f"opcheck(op, ...): {name} failed with {error}") from error
            outcomes[name] = OpCheckError(f"opcheck(op, ...): {name} failed with {error}")
    return outcomes


def _copies(args: Any, wants: bool) -> Any:
    """The arguments with tensors of their own, leaves where `wants`."""

    def copy(value: Any) -> Any:
        if not isinstance(value, Tensor):
            return value
        return value.detach().clone().requires_grad_(wants and value.requires_grad)

    return pytree.map_leaves(copy, args)


def _schema(user: UserOperator, args: Any, kwargs: Any, tolerance: Any) -> None:
    positional, named = _copies((args, kwargs), False)
    before = _copies((positional, named), False)
    user.overload(*positional, **named)
    names = [a.name for a in user.schema.arguments]
    allowed = {names[i] for i in user.mutated}
    pairs = [*zip(names, positional, before[0], strict=False), *((k, v, before[1][k]) for k, v in named.items())]
    for name, now, then in pairs:
        if name in allowed:
            continue
        for a, b in zip(tensors_in((now,)), tensors_in((then,)), strict=True):
            if not np.array_equal(a.numpy(), b.numpy(), equal_nan=a.dtype.is_floating_point):
                raise StateError(f"argument {name} is written into, and the schema {user.schema} does not say so")


def _autograd(user: UserOperator, args: Any, kwargs: Any, tolerance: Any) -> None:
    wants = any(t.requires_grad for t in tensors_in((*args, *kwargs.values()))) and not user.mutated
    if wants and user.backward is None and user.on_autograd is None and user.composite is None:
        raise StateError("an argument requires grad and no gradient is registered (register_autograd)")


def _fake(user: UserOperator, args: Any, kwargs: Any, tolerance: Any) -> None:
    positional, named = _copies((args, kwargs), False)
    _, bound, _ = user.overload.calls.resolve(tuple(positional), named)
    promised = user.types(*[types_of(b) for b in bound])
    results = user.overload(*positional, **named)
    for t, r in zip(types_in((promised,)), tensors_in((results,)), strict=True):
        if t.dtype is not r.dtype or not fits(t.shape, r.shape):
            raise StateError(f"register_fake promises {t}, the implementation gave {r.type_}")


def _compiled(user: UserOperator, args: Any, kwargs: Any, tolerance: Any) -> None:
    def step(positional: Any, named: Any) -> Any:
        out = tensors_in((user.overload(*positional, **named),))
        leaves = [t for t in tensors_in((*positional, *named.values())) if t.requires_grad]
        total = [o.sum() for o in out if o.requires_grad]
        if not total or not leaves or not modes.grad:
            return out, []
        return out, weft.autograd.grad(sum(total), leaves, allow_unused=True)

    eager = _copies((args, kwargs), True)
    compiled = _copies((args, kwargs), True)
    expected, got = step(*eager), CompiledFunction(step)(*compiled)
    for a, b in zip(tensors_in((*got, compiled)), tensors_in((*expected, eager)), strict=True):
        weft.testing.assert_close(a, b, **tolerance)


_CHECKS: dict[str, Call] = {
    "test_schema": _schema, "test_autograd_registration": _autograd, "test_faketensor": _fake,
    "test_aot_dispatch_dynamic": _compiled,
}
