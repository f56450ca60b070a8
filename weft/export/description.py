"""What an exported step is given and gives: the content of its manifest, as records, as text and back."""

from __future__ import annotations

import json
import typing
from dataclasses import asdict, dataclass, fields, is_dataclass
from typing import Any

from weft.support import pytree
from weft.support.errors import ExportError, ParseError

FORMAT = 1
ALIGNMENT = 64  # of a tensor in the state
Size = int | str  # a number, or an expression over the symbols of sizes


@dataclass(frozen=True)
class SizeArgument:
    """An integer that is an argument. of: which dim of which input it is, or "a number"; least, most: what it may be.
    """

    name: str
    symbol: str
    of: str
    least: int
    most: int
    example: int


@dataclass(frozen=True)
class Array:
    """A row-major array that an input or output points to. kind: "tensor", or "number" for a Python number.
    written: whether an input is written in place."""

    name: str
    dtype: str
    dims: tuple[Size, ...]
    kind: str = "tensor"
    written: bool = False


@dataclass(frozen=True)
class StateTensor:
    """A row-major array in the state, from an offset in bytes on."""

    name: str
    dtype: str
    dims: tuple[int, ...]
    offset: int


@dataclass(frozen=True)
class StateNumber:
    """Eight bytes of the state, from an offset on. kind: "float" (a double), "int", or "flag" (of one byte)."""

    name: str
    kind: str
    offset: int


@dataclass(frozen=True)
class RandomPlace:
    """Where a generator stands: offsets of three integers of 64 bits in the state."""

    name: str
    seed: int
    key: int
    offset: int


@dataclass(frozen=True)
class Leaf:
    """A leaf of the call's arguments or results.

    kind     "input", "output" or "state" (of that number), "size" (of that number), "constant"
    dims, strides, offset   how a result shows the array, in elements; None: as it is
    same     the first leaf that is the same tensor
    """

    kind: str
    index: int = 0
    value: Any = None
    dims: tuple[Size, ...] | None = None
    strides: tuple[Size, ...] = ()
    offset: Size = 0
    dtype: str = ""
    same: int = -1


@dataclass(frozen=True)
class Description:
    """A step.

    checks        what must be true of the sizes; what is not makes the step return a status below zero
    failures      the classes of what the statuses above zero stand for, by their numbers less one
    holds_while   what must be true of numbers in the state, which the step does not look at
    arguments, results   the structure of the call, as `tree_text` writes it, with its leaves
    arena         bytes of the arena, as an expression; arena_most: where all sizes are bounded, the most that it needs
    """

    name: str
    function: str
    made_by: str
    target: str
    cpu: str
    features: str
    has_pool: bool
    pool_bytes: int
    kernels: int
    sizes: tuple[SizeArgument, ...]
    inputs: tuple[Array, ...]
    outputs: tuple[Array, ...]
    state_bytes: int
    tensors: tuple[StateTensor, ...]
    numbers: tuple[StateNumber, ...]
    random: tuple[RandomPlace, ...]
    arguments: Any
    argument_leaves: tuple[Leaf, ...]
    results: Any
    result_leaves: tuple[Leaf, ...]
    checks: tuple[str, ...]
    failures: tuple[str, ...]
    holds_while: tuple[str, ...]
    arena: Size
    arena_most: int | None


def encode(description: Description) -> str:
    """The text of a manifest."""
    return json.dumps({"format": FORMAT, **asdict(description)}, indent=1) + "\n"


def decode(text: str) -> Description:
    """The description in a manifest. Raises ParseError for a text that is none."""
    try:
        content = json.loads(text)
        if content.pop("format", None) != FORMAT:
            raise ParseError(f"not the manifest of an exported step, or of another format than {FORMAT}")
        description: Description = _record(Description, content)
    except (ValueError, TypeError, KeyError, AttributeError) as problem:
        raise ParseError(f"not the manifest of an exported step: {problem}") from None
    return description


def _record(kind: Any, content: dict[str, Any]) -> Any:
    """A record of plain data: lists are tuples, and dicts are records where its class says so."""
    hints = typing.get_type_hints(kind)
    if set(content) != {f.name for f in fields(kind)}:
        raise ValueError(f"{kind.__name__} has other fields")
    return kind(**{name: _field(hints[name], value) for name, value in content.items()})


def _field(hint: Any, value: Any) -> Any:
    if not isinstance(value, list) or hint is Any:
        return value
    inner = next((a for a in typing.get_args(hint) if is_dataclass(a)), None)
    return tuple([_record(inner, v) if inner is not None else v for v in value])


def tree_text(spec: pytree.TreeSpec, what: str) -> Any:
    """The structure of arguments or results as plain data: "*" for a leaf, {"tuple": [...]}, {"list": [...]},
    {"dict": [[key, ...], ...]}. Raises ExportError for other containers."""
    if spec.is_leaf():
        return "*"
    children = [tree_text(child, what) for child in spec.children]
    if spec.kind in (tuple, list):
        return {spec.kind.__name__: children}
    if spec.kind is dict and all(isinstance(key, str) for key in spec.meta):
        return {"dict": [[key, child] for key, child in zip(spec.meta, children, strict=True)]}
    raise ExportError(
        f"export: {what} has a container of type {spec.kind.__name__}; an exported step takes and gives tuples, lists "
        "and dicts with texts as keys"
    )


def tree_of(text: Any) -> pytree.TreeSpec:
    """The structure that `tree_text` has written."""
    return pytree.flatten(_example(text))[1]


def _example(text: Any) -> Any:
    if text == "*":
        return 0
    ((kind, children),) = text.items()
    if kind == "dict":
        return {key: _example(child) for key, child in children}
    items = [_example(child) for child in children]
    return tuple(items) if kind == "tuple" else items
