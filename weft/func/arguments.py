"""What the transforms ask of their arguments: argnums, pytrees of tensors, auxiliary outputs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from weft.support import pytree
from weft.support.errors import StateError, ValueProblem
from weft.tensor.tensor import Tensor

Argnums = Any  # an int, or a tuple of ints


def checked_argnums(argnums: Argnums, count: int) -> Argnums:
    """argnums with negative ones counted from the end. Raises StateError."""
    if isinstance(argnums, int) and not isinstance(argnums, bool):
        return _position(argnums, count)
    if not isinstance(argnums, tuple):
        raise StateError(f"argnums must be int or Tuple[int, ...], got: {type(argnums)}")
    if not argnums:
        raise StateError("argnums must be non-empty")
    positions = tuple(_position(a, count) for a in argnums)
    if len(set(positions)) != len(positions):
        raise StateError(f"argnums elements must be unique, got {argnums}")
    return positions


def _position(argnum: Any, count: int) -> int:
    if not isinstance(argnum, int):
        raise StateError(f"argnum must be int, got: {type(argnum)}")
    if not -count <= argnum < count:
        raise StateError(f"Got argnum={argnum}, but only {count} positional inputs")
    return argnum % count


def pick(args: tuple[Any, ...], argnums: Argnums) -> Any:
    """The arguments that argnums name: one, or a tuple."""
    return args[argnums] if isinstance(argnums, int) else tuple(args[i] for i in argnums)


def put(args: tuple[Any, ...], argnums: Argnums, chosen: Any) -> tuple[Any, ...]:
    """The arguments with others in the places that argnums name."""
    listed = list(args)
    for i, value in zip(
        (argnums,) if isinstance(argnums, int) else argnums,
        (chosen,) if isinstance(argnums, int) else chosen, strict=True,
    ):
        listed[i] = value
    return tuple(listed)


def map_tensors(function: Callable[[Tensor], Any], tree: Any) -> Any:
    """The tree with `function` applied to its tensors; other leaves stay."""
    return pytree.map_leaves(lambda x: function(x) if isinstance(x, Tensor) else x, tree)


def only_tensors(tree: Any, what: str) -> tuple[list[Tensor], pytree.TreeSpec]:
    """The leaves of a tree, which must all be tensors, and its structure. Raises StateError."""
    leaves, spec = pytree.flatten(tree)
    for leaf in leaves:
        if not isinstance(leaf, Tensor):
            raise StateError(f"{what}, got unsupported type {type(leaf)}")
    return leaves, spec


def differentiable_inputs(tree: Any) -> tuple[list[Tensor], pytree.TreeSpec]:
    """The leaves of arguments that a derivative is taken for. Raises ValueProblem."""
    leaves, spec = pytree.flatten(tree)
    for leaf in leaves:
        if not isinstance(leaf, Tensor):
            raise ValueProblem(f"Thing passed to transform API must be Tensor, got {type(leaf)}")
    return leaves, spec


def some_outputs(tree: Any, name: str) -> tuple[list[Tensor], pytree.TreeSpec]:
    """The outputs of a function that is differentiated, which must be tensors, one at least, and their structure.
    Raises StateError."""
    leaves, spec = only_tensors(() if tree is None else tree, f"{name}: expected f(*primals) to return only tensors")
    if not leaves:
        raise StateError(f"{name}: Expected f to be a function that has non-empty output (got output = {tree!r})")
    return leaves, spec


def only_real(tensors: list[Tensor], what: str) -> None:
    """Raises StateError for complex tensors, which have no one Jacobian."""
    for i, tensor in enumerate(tensors):
        if tensor.dtype.is_complex:
            raise StateError(
                f"{what} to be real but received complex tensor at flattened index {i}; "
                "take it apart with weft.view_as_real"
            )


def split_aux(result: Any, has_aux: bool, name: str) -> tuple[Any, Any]:
    """(output, aux) of a function's result; aux, a tree of tensors, is None unless has_aux. Raises StateError."""
    if not has_aux:
        return result, None
    if not isinstance(result, tuple) or len(result) != 2:
        raise StateError(f"{name}: output of function f should be a tuple: (output, aux) if has_aux is True")
    only_tensors(result[1], f"{name}: aux: Expected tensors")
    return result
