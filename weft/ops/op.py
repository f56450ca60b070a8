"""The entry: an operator written down once. Every other part of weft reads it.

How an operator is computed is exactly one of
    scalar     the value of one element, over the scalar protocol (ops/scalar.py)
    reduce     a combination over axes (Reduce)
    kernel     a NumPy kernel over arrays (loops/ may know a native lowering for it)
    view       strides in, strides out (View); its scatter follows
    decompose  a rule in terms of other operators
A `vjp` is a mapping from input name to formula, or `joint(...)`; a formula's parameter names say what is saved:
    g                 the cotangent (a tuple of them when the operator has several differentiable results: name it `gs`)
    <input>           that argument, saved (tensors) or kept (everything else)
    result, result1   the operator's own results, saved
    <input>_dims      the sizes of an input, without saving it;   <input>_dtype its dtype
An entry with `decompose` and no `vjp` is opened before autograd sees it; one with both keeps its named node.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from weft.ops.layout import Follows
from weft.ops.schema import Schema, parse_schema
from weft.support.errors import ValueProblem
from weft.types.dtype import DType

Rule = Callable[..., Any]


@dataclass(frozen=True, eq=False, repr=False)
class Joint:
    """One formula for several inputs: `rule(g, needs, ...)` returns a tuple in the order of `inputs`;
    entries not needed may be None."""

    inputs: tuple[str, ...]
    rule: Rule


def joint(inputs: tuple[str, ...], rule: Rule) -> Joint:
    """Share the work of several inputs' gradients; `needs` tells which are wanted."""
    return Joint(inputs, rule)


@dataclass(frozen=True, eq=False, repr=False)
class Reduce:
    """A reduction over axes: `combine` names an associative operation with an identity.

    combine: "sum", "prod", "max", "min", "any", "all", "argmax", "argmin".
    Arguments by name in the schema: `dim` (int, int list or None for all), `keepdim` (optional). The result's dtype
    comes from the type rule; operands are cast to it first (argmax and argmin excepted). Empty reductions of max, min,
    argmax, argmin are refused by the type rule. empty_is_none: whether an empty list of dims means none of them, as
    PyTorch has it for any and all, in place of all of them.
    """

    combine: str
    empty_is_none: bool = False

    def neutral(self, dim: Any) -> Any:
        """What changes nothing where it is added along `dim`; None where anything does."""
        is_place = self.combine.startswith("arg") and dim is None
        return None if is_place else _NEUTRAL[self.combine]  # (a place among all elements hangs on the sizes)


_NEUTRAL = {
    "sum": 0, "prod": 1, "max": "lowest", "min": "highest", "any": False, "all": True, "argmax": "lowest",
    "argmin": "highest",
}


@dataclass(frozen=True, eq=False, repr=False)
class View:
    """A view: `geometry(Geometry, *other arguments) -> Geometry` (a tuple of them for several results).

    Raises ShapeError where the request is wrong; returns None where strides cannot express it (`reshape` then copies).
    `numpy(array, *other arguments)`, if given, makes the same view faster in eager mode; where indexing an array does,
    `index(dims, *other arguments)` gives the index (None for what it does not know).
    `is_free`: the arguments name strides and an offset of their own, which may reach beyond the storage.
    `keeps_order`: row-major, the elements are the same ones in the same order: only the dims differ.
    `repeats`: dims of size 1 are repeated, and dims may be added in front.
    `overlaps`: an element may be shown several times. `may_copy`: where strides cannot express it,
    the result is a copy.
    `compiled`: the geometry in compiled code, where it is another: there the compiler chose how the source lies
    in memory, not the user.
    """

    geometry: Rule
    numpy: Rule | None = None
    is_free: bool = False
    keeps_order: bool = False
    repeats: bool = False
    compiled: Rule | None = None
    overlaps: bool = False
    may_copy: bool = False
    index: Rule | None = None


@dataclass(frozen=True)
class Out:
    """What `out=` takes.

    dtype: "exact" (only the dtype of the result), "castable" (those that it can be cast to), "any", or "computed" (the
        operator computes in the dtype of out=, as if dtype= had been that). "" follows from the entry: pointwise
        operators that promote are castable, and all others are exact.
    also: dtypes that an exact one takes besides.
    is_apart: nothing that shares memory with an argument.
    is_real: of complex arguments the result is real; then it takes what that can be cast to, of complex dtypes theirs.
    """

    dtype: str = ""
    also: tuple[DType, ...] = ()
    is_apart: bool = False
    is_real: bool = False


@dataclass(frozen=True)
class NodeBy:
    """Names of the backward node of an entry that PyTorch has two overloads for: `plain` where an argument is
    None, or a number in place of a tensor, or `is_plain` says so of it, else `other`."""

    argument: str
    plain: str
    other: str
    is_plain: Callable[[Any], bool] | None = None


def itself(*arguments: Any) -> int:
    """The `identity` of operators that change nothing but dims, a dtype or where the elements lie."""
    return 0


NOT_DIFFERENTIABLE: Mapping[str, Rule] = {}
HOWS = ("scalar", "reduce", "kernel", "view", "decompose")


@dataclass(frozen=True, eq=False, repr=False)
class Op:
    """One operator. Compare and hash by identity.

    Args:
        schema: names, defaults, aliasing, overload.
        doc: one or more sentences: what it computes.
        type: types in -> TensorType out (a tuple for several results); the source of every shape and dtype error.
            Views may leave it out: it follows from the geometry.
        vjp: formulas per input name, `joint(...)`, NOT_DIFFERENTIABLE, or None (only with `decompose`,
            or for views whose gradient follows).
        effect: "pure", "random", "raises", "io" or "python": what passes must respect.
        public: where users find it: "weft", "Tensor", "nn.functional", "linalg", "special", "fft".
        inplace: whether `name_` is derived (the functional result is written back to `self`).
        out: whether an `out=` argument is derived, and what may be given there.
        numbers: whether Python numbers are welcome where the schema says Tensor.
        number_first: whether users may give a number as the first operand, beside a tensor.
        numbers_alone: whether users may give numbers only.
        reference: an independent NumPy oracle over arrays in schema order.
        samples: inputs for the tests, `samples(rng) -> list of (args, kwargs)`.
        batch: the rule of vmap, `rule(op, size, flags, *args) -> results`, where batched tensors have the batch
            in front, and so have the results (ops/batching.py has the words it is written with). Follows for scalar,
            reduce and decompose.
        unbacked_from: for sizes that are only known once it has run, `unbacked_from(*operands)` names for each of them,
            in order, what alone decides it: another call's size with an equal name is the same size.
        counted: of an operator with one such size, `counted(*arguments)` is this number as a 0-dim int64 tensor,
            written with operators that are not opened any more; None where only the operator can tell. A program
            computes it before, so that native code has memory for what it picks.
        fill: the number that every element of the result is, `fill(*arguments)`; None where there is no such number.
        has_complex_code: whether kernels have code for it over complex numbers, where it takes them; NumPy computes it
            otherwise.
        counts: whether the result is 0, 1, 2, ...: readers then know each element from its position.
        identity: the position of the argument that the result equals if it has the same type, `identity(*arguments)`
            with types in place of tensors; None where it does not.
        dynamic_output_shape: whether sizes of the results hang on values of the arguments.
        is_splat: whether all elements of the result are the same value, so that it can be written
            where elements share memory.
        crosses_devices: whether tensors of other devices may be written into self (`copy_`).
        like: whether the first argument is asked for its size and dtype alone, so that the result is new
            whatever it holds.
        put: NumPy code that writes what the kernel gives into its first array itself, and refuses before it writes;
            `writing` makes the kernel from it.
        view_if_captured: whether the result is a view of self in a captured function,
            where it cannot be one of an array.
        copies, scatters: the view whose copy (whose scatter) this is.
        writes: the operator whose result this one writes into its first argument.
        host: it works on Python's values (numbers, texts, containers, Tensors as they are): its kernel is called with
            them as it stands, without a walk. Its type rule gets types in place of graph values, of whatever kind;
            immediates stand for themselves.
        observes: of an entry with the effect "io" that only looks at what others may write: what is left of its effect
            where nobody writes, "pure" or "raises".
        specialize: numbers whose value decides what is computed: for each argument's name for which values that is so,
            `{"ord": lambda ord: ord in (0, 1, 2)}`. While a function is captured, such a number is a guard instead of
            an input. For any other value the rules get what is no Python number, and may not ask for its value.
        enter: who answers calls on tensors in place of the walk, `enter(walk, op, args)` (an operator of the user's has
            kernels, gradients and batch rules that are registered later); `walk(op, args)` goes on from there.
        halves: of what takes its time elsewhere (a message): the operators that start it and that wait for it. The
            first takes the same arguments and a text, the order of all such calls of the program, and gives a ticket;
            the second takes the first argument (for its type) and the ticket. A program computes in between.
        reads_any_strides: its native kernel takes operands as they lie, so that a copy to row-major order is lost work.
        lies: how results lie in memory that are not row-major: `lies(*arguments)` gives an order of dims for each, from
            the outermost to the innermost (None: row-major), with an Operand in place of each tensor. A `Follows` where
            row-major operands give row-major results.
        failure: the error of a native kernel that fails for what its operands hold, `failure(*arguments)` with types in
            place of tensors. In its text {element} and {order} stand for what the kernel finds: the matrix of the
            batch, and its row, column or minor, from 1. The NumPy kernel raises the same.
        is_whole: whether native code computes it in one kernel though it is given in terms of others, which all else
            uses.
        node: the name of its backward node, where that is not its own name and its number among the overloads;
            NodeBy, where it hangs on an argument. Where several entries have nodes of one name, as PyTorch computes one
            operator by another, their own names follow behind a dot ("PowBackward0.square"), in captured graphs only.
        inplace_node: the name of the node of its in-place form, where that is another one.
        padding: what may stand behind the end of an example that is padded to the size of a longer one, so that the
            result is right up to the example's own end: a number, "lowest" or "highest" of the dtype, or a rule of
            the arguments that gives one of them, or None. Follows for scalar and reduce.
        more: flags of which each that is set gives one more result: a tuple of them then. Programs must know them.
        implied: keyword arguments of another overload that this one has, too, with this value of theirs, and leaves
            out: programs that know the value call this one.
        precision: what autocast makes of its operands that are floats: "lower" (where half precision serves),
            "float32" (where it does not), "widest" (the widest of theirs), or a rule of the arguments that gives one of
            these; "" leaves them. Those of a composite without one are cast as what it is made of says.
        by_rank: whether what is computed hangs on the ranks of the operands, as in a product of matrices.
        jvp: the tangents of the results, `rule(op, values, tangents, results)` (ops/tangents.py has the words it is
            written with). Follows from the vjp, for pointwise entries directly.
        origin: the module that holds the entry, however many functions stood between; `define` knows it.

    """

    schema: Schema
    doc: str
    type: Rule | None = None
    scalar: Rule | None = None
    reduce: Reduce | None = None
    kernel: Rule | None = None
    view: View | None = None
    decompose: Rule | None = None
    vjp: Mapping[str, Rule] | Joint | None = None
    effect: str = "pure"
    public: tuple[str, ...] = ("weft", "Tensor")
    inplace: bool = False
    out: Out | bool = False
    numbers: bool = False
    number_first: bool = False
    numbers_alone: bool = False
    reference: Rule | None = None
    samples: Rule | None = None
    batch: Rule | None = None
    jvp: Rule | None = None
    padding: Any = None
    more: tuple[str, ...] = ()
    implied: Mapping[str, Any] | None = None
    precision: str | Rule = ""
    by_rank: bool = False
    unbacked_from: Rule | None = None
    counted: Rule | None = None
    fill: Rule | None = None
    has_complex_code: bool = True
    counts: bool = False
    identity: Rule | None = None
    copies: Op | None = None
    scatters: Op | None = None
    halves: tuple[Op, Op] | None = None
    reads_any_strides: bool = False
    lies: Rule | None = None
    failure: Rule | None = None
    is_whole: bool = False
    dynamic_output_shape: bool = False
    is_splat: bool = False
    crosses_devices: bool = False
    like: bool = False
    put: Rule | None = None
    view_if_captured: bool = False
    writes: Op | None = None
    host: bool = False
    observes: str = ""
    specialize: Mapping[str, Callable[[Any], bool]] | None = None
    enter: Rule | None = None
    node: str | NodeBy = ""
    inplace_node: str = ""
    origin: str = ""
    how: str = field(init=False)
    name: str = field(init=False)

    def __post_init__(self) -> None:
        hows = [h for h in HOWS if getattr(self, h) is not None]
        if len(hows) != 1:
            raise ValueProblem(f"{self.schema.name}: give exactly one of {', '.join(HOWS)}; got {hows or 'none'}")
        if self.effect == "random" and self.decompose is not None and self.vjp is not None:
            raise ValueProblem(
                f"{self.schema.name}: what draws is opened when it is called, so that each call moves its generator "
                "on; formulas of its gradient belong to an operator that it opens to"
            )
        object.__setattr__(self, "how", hows[0])
        object.__setattr__(self, "name", self.schema.name)

    @cached_property
    def tensor_positions(self) -> tuple[int, ...]:
        """Positions of single tensors among the arguments."""
        return tuple(i for i, a in enumerate(self.schema.arguments) if a.is_tensor and not a.is_list)

    @cached_property
    def tensor_list_positions(self) -> tuple[int, ...]:
        """Positions of tensor lists."""
        return tuple(i for i, a in enumerate(self.schema.arguments) if a.is_tensor and a.is_list)

    @cached_property
    def number_positions(self) -> tuple[int, ...]:
        """Positions of Scalar arguments."""
        return tuple(i for i, a in enumerate(self.schema.arguments) if a.kind == "Scalar")

    @cached_property
    def specialized_positions(self) -> tuple[tuple[int, Callable[[Any], bool]], ...]:
        """Positions of the arguments that `specialize` names, with its questions."""
        return tuple((self.schema.index(name), question) for name, question in (self.specialize or {}).items())

    @cached_property
    def is_placed(self) -> bool:
        """Whether results may lie otherwise than row-major where all operands do not."""
        return self.lies is not None and not isinstance(self.lies, Follows)

    @cached_property
    def takes(self) -> Out:
        """What its `out=` takes, with what follows from the rest of the entry."""
        out = self.out if isinstance(self.out, Out) else Out()
        return out if out.dtype else replace(out, dtype="castable" if getattr(self.type, "promotes", 0) else "exact")

    @property
    def base(self) -> str:
        return self.schema.base

    @property
    def is_view(self) -> bool:
        return self.view is not None

    @cached_property
    def is_differentiable(self) -> bool:
        """Whether autograd makes a node for it (an operator opened above autograd has none of its own)."""
        return self.view is not None if self.vjp is None else bool(self.vjp)

    @property
    def opens_above_autograd(self) -> bool:
        return self.decompose is not None and self.vjp is None

    def __repr__(self) -> str:
        return f"<op {self.schema}>"


def writing(put: Rule) -> dict[str, Rule]:
    """The fields of an entry whose kernel writes into a copy of its first array: `put(array, *rest)` does."""

    def kernel(x: Any, *rest: Any) -> Any:
        out = np.array(x, order="C")
        put(out, *rest)
        return out

    return {"kernel": kernel, "put": put}


def padding_of(op: Op, args: tuple[Any, ...]) -> Any:
    """What may stand behind the ends of these operands; None where nothing may."""
    if callable(op.padding):
        return op.padding(*args)
    if op.padding is not None or op.reduce is None:
        return op.padding
    return op.reduce.neutral(args[op.schema.index("dim")])


SchemaLike = str | Schema
OPS: dict[str, Op] = {}
PACKETS: dict[str, list[Op]] = {}
_listeners: list[Callable[[Op], None]] = []
defining = threading.RLock()  # held by who looks whether an entry is there, and writes it if not


def define(schema: SchemaLike, doc: str, **fields: Any) -> Op:
    """Write an operator into the catalogue and return its entry. Raises ValueProblem if the name is taken
    or a field is missing."""
    parsed = parse_schema(schema) if isinstance(schema, str) else schema
    op = Op(parsed, doc, **{"origin": _defining_module(), **fields})
    if op.name in OPS:
        raise ValueProblem(f"{op.name} is already defined; an operator is written down once")
    OPS[op.name] = op
    PACKETS.setdefault(f"{parsed.namespace}::{parsed.base}", []).append(op)
    for listener in _listeners:
        listener(op)
    return op


def forget(op: Op) -> None:
    """Take an entry out of the catalogue: no name finds it any more. Graphs that hold it keep it."""
    if OPS.get(op.name) is op:
        del OPS[op.name]
    of_name = PACKETS.get(f"{op.schema.namespace}::{op.base}", [])
    if op in of_name:
        of_name.remove(op)
    if not of_name:
        PACKETS.pop(f"{op.schema.namespace}::{op.base}", None)


def _defining_module() -> str:
    """The module whose body is being run."""
    frame = sys._getframe(2)
    while frame.f_code.co_name != "<module>" and frame.f_back is not None:
        frame = frame.f_back
    return str(frame.f_globals.get("__name__", ""))


def on_define(listener: Callable[[Op], None]) -> None:
    """Call `listener` for every entry, those already defined included."""
    for op in OPS.values():
        listener(op)
    _listeners.append(listener)
