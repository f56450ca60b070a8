"""What symbolic rules write with: `g.op("Relu", x)`. Nodes go to the innermost open graph, constants and weights to
the model.

Each node that is written is also run on the example, by the rule that reads it. So every value has a dtype and sizes,
and what a symbolic rule wrote is compared with what weft's operator computes.
"""

from __future__ import annotations

import operator
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial, reduce
from typing import Any

import numpy as np

import weft
from weft.onnx.dependency import helper, numpy_helper
from weft.onnx.dtypes import element_of
from weft.onnx.examples import run_rule, why_not
from weft.onnx.outputs import Number, Output, example_of, outputs_in
from weft.onnx.registry import IMPORTS
from weft.onnx.sizes import Sizes, schema_of
from weft.ops.op import Op
from weft.support.errors import Unsupported
from weft.tensor.tensor import Tensor
from weft.types import dims as dm
from weft.types import dtype as dt
from weft.types.dims import Atom, Dim
from weft.types.dtype import DType

OF_SIZES: dict[str, Callable[..., Dim]] = {
    "add": operator.add, "sub": operator.sub, "mul": operator.mul, "floordiv": dm.floordiv, "mod": dm.mod,
    "max": dm.maximum, "min": dm.minimum,
}  # fmt: skip
KINDS = {int: dt.int64, float: dt.float64, bool: dt.bool_}


@dataclass
class Scope:
    """A graph that is being written."""

    nodes: list[Any] = field(default_factory=list)


@dataclass
class Call:
    """The operator of weft's that is being written, and its results for the example."""

    op: Op
    results: list[Any]


def value_info(value: Output, name: str = "") -> Any:
    """A value as an input or output of a graph that is part of a node: its dtype and rank."""
    return helper.make_tensor_value_info(name or value.name, element_of(value.dtype), [None] * value.ndim)


class Refused(Unsupported):
    """A rule that does not write this combination."""


class Nodes:
    """The graphs, constants and nodes of a model that is being written."""

    def __init__(self, opset: int) -> None:
        self.opset = opset
        self.scopes = [Scope()]
        self.sizes = Sizes(self.scopes)
        self.initializers: dict[str, Any] = {}
        self.weights: set[str] = set()  # the names of those that are tensors of the program's own
        self.domains: dict[str, int] = {}
        self.live: weakref.WeakSet[Output] = weakref.WeakSet()
        self.node: Any = None  # the Call that is being written
        self._names: dict[str, int] = {}
        self._constants: dict[Any, str] = {}
        self._weights: dict[int, Output] = {}

    # ---- names and constants
    def name(self, stem: str) -> str:
        """A name that nothing else has."""
        count = self._names[stem] = self._names.get(stem, -1) + 1
        return f"{stem}_{count}" if count else self.name(stem) if stem in self.initializers else stem

    def constant(self, values: Any, dtype: DType) -> Output:
        """A constant tensor; equal ones are one."""
        array = np.asarray(values, dtype.numpy)
        key = (array.tobytes(), array.shape, dtype)
        if key not in self._constants:
            name = self._constants[key] = self.name("constant")
            self.initializers[name] = numpy_helper.from_array(np.ascontiguousarray(array).reshape(array.shape), name)
        scalar = array.reshape(-1)[0].item() if array.size == 1 else None
        return Output(self, self._constants[key], weft.from_numpy(array.copy()), constant=scalar)

    def weight(self, tensor: Tensor, label: str) -> Output:
        """A tensor of the program's own, once."""
        output = self._weights.get(id(tensor))
        if output is None:
            name = self.name(label)
            self.weights.add(name)
            array = tensor.detach().numpy()
            self.initializers[name] = numpy_helper.from_array(np.ascontiguousarray(array).reshape(array.shape), name)
            output = self._weights[id(tensor)] = Output(self, name, tensor.detach(), weight=label)
        return output

    def ints(self, values: Iterable[int]) -> Output:
        """A list of ints, as an input of a node."""
        return self.constant([int(v) for v in values], weft.int64)

    def numbers(self, value: Any, dtype: DType) -> Output:
        """A constant without dims."""
        return self.constant(value, dtype)

    def like(self, x: Output, value: Any) -> Output:
        """A number of another's dtype."""
        return self.constant(value, x.dtype)

    def number(self, value: Any) -> Output:
        """A number as a value without dims: a constant, or what it is already."""
        if isinstance(value, Output):
            return value if value.ndim == 0 else self.op("Reshape", value, self.ints([]))
        return self.constant(value, KINDS[type(value)])

    # ---- questions
    def known(self, value: Any) -> Any:
        """What is known of a value while the model is written: the number itself, or None."""
        if isinstance(value, Output):
            return value.known
        if isinstance(value, (tuple, list)):
            return tuple(self.known(v) for v in value)
        return value

    def is_tensor(self, value: Any) -> bool:
        """Whether it is a tensor, not a number of Python's."""
        return isinstance(value, Output) and not isinstance(value, Number)

    def dtype(self, x: Any) -> DType:
        """The dtype of a value."""
        return x.dtype if isinstance(x, Output) else KINDS[type(x)]

    def ndim(self, x: Any) -> int:
        """The number of dims."""
        return x.ndim if isinstance(x, Output) else 0

    def extent(self, x: Output, axis: int) -> Any:
        """The example's size along an axis; None where it is dynamic and not 1."""
        size = x.example.shape[axis]
        return size if type(x.sizes[axis]) is int or size == 1 else None

    def axis(self, dim: Any, x: Any) -> int:
        """A dim counted from the front."""
        return int(self.known(dim)) % max(self.ndim(x), 1)

    def each(self, value: Any, rank: int) -> list[Any]:
        """One number for each spatial axis."""
        per_axis = self.known(value)
        if not isinstance(per_axis, (tuple, list)):
            return [per_axis] * rank
        return list(per_axis) * rank if len(per_axis) == 1 else list(per_axis)

    def require(self, holds: bool, what: str) -> None:
        """Raises Refused for what a rule does not write."""
        if not holds:
            raise Refused(what)

    def result_dtype(self) -> DType:
        """The dtype of what weft computes."""
        return self.node.results[0].dtype  # type: ignore[no-any-return]

    def parts_of_result(self, axis: int) -> list[int]:
        """The example's sizes of a list of results."""
        return [int(r.shape[axis]) if r.ndim > axis else 1 for r in self.node.results]

    # ---- sizes
    def size(self, x: Output, axis: int) -> Any:
        """A size: an int, or a number that the model computes."""
        size = x.sizes[axis]
        if type(size) is int:
            return size
        if self.opset >= 15:
            extent = self.op("Shape", x, start=axis, end=axis + 1)
        else:
            extent = self.op("Slice", self.op("Shape", x), self.ints([axis]), self.ints([axis + 1]), self.ints([0]))
        number = self.as_number(self.op("Reshape", extent, self.ints([])))
        self.sizes.is_number(number, size)
        return number

    def of_size(self, size: Dim) -> Any:
        """A size that Python has computed, as a number of the model."""
        if isinstance(size, int):
            return size
        if size.symbol_name is not None:
            return self.size(*self.sizes.source(size.symbol_name))
        total: Any = 0
        for atoms, factor in size.terms:
            product = reduce(partial(self.arithmetic, "mul"), map(self._atom, atoms), factor)
            total = self.arithmetic("add", total, product)
        return total

    def _atom(self, atom: Atom) -> Any:
        if atom.kind == "symbol":
            return self.size(*self.sizes.source(str(atom.args[0])))
        return self.arithmetic(atom.kind, *(self.of_size(a) for a in atom.args))  # type: ignore[arg-type]

    def shape(self, sizes: Sequence[Any]) -> Output:
        """Sizes as one value of int64."""
        if all(isinstance(n, int) for n in sizes):
            return self.ints(sizes)
        parts = [self.op("Reshape", self.number(n), self.ints([1])) for n in sizes]
        shape: Output = parts[0] if len(parts) == 1 else self.one("Concat", *parts, axis=0)
        self.sizes.is_list(shape, sizes)
        return shape

    def product(self, sizes: Sequence[Any]) -> Any:
        """The product of sizes."""
        product: Any = 1
        for n in sizes:
            product = n * product
        return product

    def steps(self, count: Any) -> Output:
        """0, 1, ... below a number."""
        return self.one("Range", self.numbers(0, weft.int64), self.number(count), self.numbers(1, weft.int64))

    def filled(self, shape: Output, value: Any, dtype: DType | None = None) -> Output:
        """A tensor of one number."""
        dtype = self.result_dtype() if dtype is None else dtype
        plain = self.known(value)
        if plain is None:
            return self.one("Expand", self.cast(value, dtype), shape)
        fill = numpy_helper.from_array(np.array([plain], dtype.numpy))
        return self.one("ConstantOfShape", shape, value=fill)

    # ---- dtypes
    def cast(self, x: Any, dtype: DType) -> Output:
        """A value as another dtype."""
        if not isinstance(x, Output):
            return self.constant(x, dtype)
        if x.dtype is dtype:
            return x
        if x.known is not None and x.ndim == 0:
            return self.constant(x.known, dtype)
        return self.one("Cast", x, to=element_of(dtype))

    def result_cast(self, x: Any) -> Output:
        """A value as the result's dtype."""
        return self.cast(x, self.result_dtype())

    def promoted(self, values: Sequence[Any], cast: str = "result") -> list[Any]:
        """Operands as one dtype: ONNX converts none. None stays."""
        operands = [v for v in values if v is not None]
        if not cast:
            return [v if v is None else self.number(v) if not isinstance(v, Output) else v for v in values]
        if cast == "bool":
            dtype = weft.bool
        elif cast == "inputs":
            dtype = self._common(operands)
        else:
            dtype = self.result_dtype()
            if cast == "float":
                dtype = operands[0].dtype if operands[0].dtype.is_floating_point else weft.float32
        return [None if v is None else self.cast(v, dtype) for v in values]

    def _common(self, operands: Sequence[Any]) -> DType:
        first = operands[0]
        examples = [example_of(v) for v in operands]
        dtype = weft.result_type(examples[0], examples[1]) if len(operands) > 1 else self.dtype(first)
        return dtype

    def parts(self, tensors: Any) -> list[Output]:
        """The tensors of a list."""
        return list(tensors)

    # ---- nodes
    def append(self, node: Any) -> None:
        """Write a node as it is."""
        self.scopes[-1].nodes.append(node)

    def node_of(self, kind: str, inputs: Sequence[str], names: Sequence[str]) -> Any:
        """A node without attributes."""
        return helper.make_node(kind, list(inputs), list(names))

    @contextmanager
    def apart(self) -> Iterator[Scope]:
        """Write nodes into a graph of their own."""
        scope = Scope()
        self.scopes.append(scope)
        try:
            yield scope
        finally:
            self.scopes.pop()

    def op(self, name: str, *inputs: Any, outputs: int | None = None, **attributes: Any) -> Any:
        """Write a node: an operator of ONNX, or of another domain as "domain::Name". Gives its result, or a tuple of
        as many as `outputs` says."""
        domain, _, base = name.rpartition("::")
        operands = [v if v is None or isinstance(v, Output) else self.number(v) for v in inputs]
        while operands and operands[-1] is None:
            operands.pop()
        self.fresh(operands)
        count = 1 if outputs is None else outputs
        examples, knowns = self._examples(domain, base, operands, count, attributes)
        names = [self.name(base.lower()) for _ in range(count)]
        node = helper.make_node(
            base, ["" if v is None else v.name for v in operands], names, domain=domain,
            **{k: v for k, v in attributes.items() if v is not None},
        )  # fmt: skip
        self.scopes[-1].nodes.append(node)
        self._use_domain(domain)
        sizes = self._sizes(domain, base, operands, node, [e.ndim for e in examples])
        results = [Output(self, *each) for each in zip(names, examples, sizes, knowns, strict=True)]
        return results[0] if outputs is None else tuple(results)

    def one(self, name: str, *inputs: Any, **attributes: Any) -> Output:
        """Write a node that has one result."""
        result: Output = self.op(name, *inputs, **attributes)
        return result

    def fresh(self, values: Any) -> None:
        """Make views of what has been written again, before they are used."""
        for value in outputs_in(values):
            if value.root.lost:
                raise Unsupported(
                    "what a branch or loop leaves as one of two tensors is read, and the other one was written since; "
                    "let the branch give a clone() of it"
                )
            if value.stale and value.source is not None and value.replay is not None:
                self.fresh((value.source,))
                value.take(value.replay(value.source))

    def _sizes(self, domain: str, base: str, inputs: Sequence[Any], node: Any, ranks: Sequence[int]) -> Sequence[Any]:
        """The sizes of a node's results; None where all are the example's."""
        if all(v.static for v in inputs if v is not None) and self._sized_by_sizes(domain, base, inputs):
            return [None] * len(ranks)
        if domain:
            return [[None] * rank for rank in ranks]
        return self.sizes.inferred(schema_of(base, self.opset), node, inputs, self.initializers, ranks)

    def _sized_by_sizes(self, domain: str, base: str, inputs: Sequence[Any]) -> bool:
        """Whether the sizes of the result are the example's in every call: inputs that a rule reads on the host
        (shapes, ends, counts) are constants then, and nothing else says how many elements there are."""
        rule = IMPORTS.get((domain, base))
        if rule is None:
            return False
        fixed = all(
            not rule.reads(i) or v is None or v.name in self.initializers for i, v in enumerate(inputs)
        )
        return fixed and not rule.counts_elements

    def _use_domain(self, domain: str) -> None:
        if domain:
            self.domains[domain] = 1

    def _examples(
        self, domain: str, base: str, inputs: Sequence[Any], count: int, attributes: dict[str, Any]
    ) -> tuple[list[Tensor], list[Any]]:
        """What the node gives for the example, and what of it is known."""
        rule = IMPORTS.get((domain, base))
        if rule is None:
            if domain:  # a user's own: weft's operator says what it gives
                return list(self.node.results[:count]), [None] * count
            raise Unsupported(f"{base} is no operator of ONNX; one of another domain is written \"domain::{base}\"")
        if not domain:
            refused = why_not(base, inputs, [n for n, v in attributes.items() if v is not None], self.opset)
            if refused:
                raise Refused(refused)
        results = run_rule(rule, inputs, attributes, {"opset": self.opset, "outputs": count, "scope": {}})[:count]
        constants = all(v is None or v.known is not None for v in inputs)
        knowns = [r.item() if constants and r.numel() == 1 and r.ndim == 0 else None for r in results]
        return results, knowns

    # ---- numbers of Python's
    def as_number(self, x: Output) -> Number:
        """A value without dims as a number."""
        return Number(self, x.name, x.example, x.sizes, x.known)

    def number_op(self, name: str, a: Any, b: Any) -> Any:
        """Add, Mul or Div of ints, known ones at once."""
        return self.arithmetic({"Add": "add", "Mul": "mul", "Div": "floordiv"}[name], a, b)

    def arithmetic(self, name: str, a: Any, b: Any) -> Any:
        """Python's operation on numbers of which the model computes one."""
        from weft.onnx.arithmetic import RULES

        if not isinstance(a, Number) and not isinstance(b, Number):
            return RULES[name].plain(a, b)
        size = self._size_of(name, a, b)
        if type(size) is int:
            return size
        number = self.as_number(RULES[name].write(self, a, b))
        if size is not None:
            self.sizes.is_number(number, size)
        return number

    def _size_of(self, name: str, a: Any, b: Any) -> Dim | None:
        """What is computed from sizes, as a size."""
        both, rule = [self.sizes.of_number(v) for v in (a, b)], OF_SIZES.get(name)
        return None if rule is None or None in both or (name in ("floordiv", "mod") and both[1] == 0) else rule(*both)
