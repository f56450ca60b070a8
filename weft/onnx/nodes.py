"""What symbolic rules write with: `g.op("Relu", x)`. Nodes go to the innermost open graph, constants and weights to
the model.

Each node that is written is also run on the example, by the rule that reads it. So every value has a dtype and sizes,
and what a symbolic rule wrote is compared with what weft's operator computes.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import weft
from weft.onnx.dependency import defs, helper, numpy_helper, onnx
from weft.onnx.dtypes import element_of
from weft.onnx.outputs import Number, Output, example_of, outputs_in
from weft.onnx.registry import IMPORTS
from weft.onnx.values import as_tensor, constant
from weft.ops.op import Op
from weft.ops.route import default_route, run_as_usual
from weft.support.errors import Unsupported
from weft.tensor.tensor import Tensor
from weft.types.dtype import DType

KINDS = {int: weft.int64, float: weft.float64, bool: weft.bool}


@dataclass
class Scope:
    """A graph that is being written."""

    nodes: list[Any] = field(default_factory=list)


@dataclass
class Call:
    """The operator of weft's that is being written, and its results for the example."""

    op: Op
    results: list[Any]


class Refused(Unsupported):
    """A rule that does not write this combination."""


class Nodes:
    """The graphs, constants and nodes of a model that is being written."""

    def __init__(self, opset: int) -> None:
        self.opset = opset
        self.scopes = [Scope()]
        self.initializers: dict[str, Any] = {}
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
        known = array.reshape(-1)[0].item() if array.size == 1 else None
        return Output(self, self._constants[key], weft.from_numpy(array.copy()), known=known)

    def weight(self, tensor: Tensor, label: str) -> Output:
        """A tensor of the program's own, once."""
        found = self._weights.get(id(tensor))
        if found is None:
            name = self.name(label)
            array = tensor.detach().numpy()
            self.initializers[name] = numpy_helper.from_array(np.ascontiguousarray(array).reshape(array.shape), name)
            found = self._weights[id(tensor)] = Output(self, name, tensor.detach(), weight=label)
        return found

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
        return size if x.static or size == 1 else None

    def axis(self, dim: Any, x: Any) -> int:
        """A dim counted from the front."""
        return int(self.known(dim)) % max(self.ndim(x), 1)

    def each(self, value: Any, rank: int) -> list[Any]:
        """One number for each spatial axis."""
        found = self.known(value)
        if not isinstance(found, (tuple, list)):
            return [found] * rank
        return list(found) * rank if len(found) == 1 else list(found)

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
        if x.static:
            return int(x.example.shape[axis])
        found = self.op("Shape", x, start=axis, end=axis + 1)
        return self.as_number(self.op("Reshape", found, self.ints([])))

    def shape(self, sizes: Sequence[Any]) -> Output:
        """Sizes as one value of int64."""
        if all(isinstance(n, int) for n in sizes):
            return self.ints(sizes)
        parts = [self.op("Reshape", self.number(n), self.ints([1])) for n in sizes]
        return parts[0] if len(parts) == 1 else self.one("Concat", *parts, axis=0)

    def product(self, sizes: Sequence[Any]) -> Any:
        """The product of sizes."""
        found: Any = 1
        for n in sizes:
            found = n * found
        return found

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
        given = [v for v in values if v is not None]
        if not cast:
            return [v if v is None else self.number(v) if not isinstance(v, Output) else v for v in values]
        if cast == "bool":
            dtype = weft.bool
        elif cast == "inputs":
            dtype = self._common(given)
        else:
            dtype = self.result_dtype()
            if cast == "float":
                dtype = given[0].dtype if given[0].dtype.is_floating_point else weft.float32
        return [None if v is None else self.cast(v, dtype) for v in values]

    def _common(self, given: Sequence[Any]) -> DType:
        found = given[0]
        examples = [example_of(v) for v in given]
        dtype = weft.result_type(examples[0], examples[1]) if len(given) > 1 else self.dtype(found)
        return dtype

    def parts(self, tensors: Any) -> list[Output]:
        """The tensors of a list."""
        return list(tensors)

    # ---- nodes
    def op(self, name: str, *inputs: Any, outputs: int | None = None, **attributes: Any) -> Any:
        """Write a node: an operator of ONNX, or of another domain as "domain::Name". Gives its result, or a tuple of
        as many as `outputs` says."""
        domain, _, base = name.rpartition("::")
        given = [v if v is None or isinstance(v, Output) else self.number(v) for v in inputs]
        while given and given[-1] is None:
            given.pop()
        self.fresh(given)
        count = 1 if outputs is None else outputs
        examples, knowns = self._examples(domain, base, given, count, attributes)
        names = [self.name(base.lower()) for _ in range(count)]
        node = helper.make_node(
            base, ["" if v is None else v.name for v in given], names, domain=domain,
            **{k: v for k, v in attributes.items() if v is not None},
        )  # fmt: skip
        self.scopes[-1].nodes.append(node)
        self._use_domain(domain)
        static = all(v.static for v in given if v is not None) and self._sized_by_sizes(domain, base, given)
        made = [Output(self, n, e, static, k) for n, e, k in zip(names, examples, knowns, strict=True)]
        return made[0] if outputs is None else tuple(made)

    def one(self, name: str, *inputs: Any, **attributes: Any) -> Output:
        """Write a node that has one result."""
        found: Output = self.op(name, *inputs, **attributes)
        return found

    def fresh(self, given: Any) -> None:
        """Make views of what has been written again, before they are used."""
        for value in outputs_in(given):
            if value.stale and value.source is not None and value.replay is not None:
                self.fresh((value.source,))
                value.take(value.replay(value.source))

    def _sized_by_sizes(self, domain: str, base: str, given: Sequence[Any]) -> bool:
        """Whether the sizes of the result are the example's in every call: inputs that a rule reads on the host
        (shapes, ends, counts) are constants then, and nothing else says how many elements there are."""
        rule = IMPORTS.get((domain, base))
        if rule is None:
            return False
        fixed = all(
            not rule.reads(i) or v is None or v.name in self.initializers for i, v in enumerate(given)
        )
        return fixed and not rule.counts_elements

    def _use_domain(self, domain: str) -> None:
        if domain:
            self.domains[domain] = 1

    def _examples(
        self, domain: str, base: str, given: Sequence[Any], count: int, attributes: dict[str, Any]
    ) -> tuple[list[Tensor], list[Any]]:
        """What the node gives for the example."""
        rule = IMPORTS.get((domain, base))
        if rule is None:
            if domain:  # a user's own: weft's operator says what it gives
                return list(self.node.results[:count]), [None] * count
            raise Unsupported(f"{base} is no operator of ONNX; one of another domain is written \"domain::{base}\"")
        if not domain and not defs.has(base, self.opset, ""):
            since = f"opset {defs.get_schema(base).since_version}" if defs.has(base) else "no version"
            raise Refused(f"{base}, which ONNX has from {since} on; the export is for opset {self.opset}")
        if not domain:
            self._refuse_types(base, given)
        keywords = {rule.attributes[k]: v for k, v in attributes.items() if v is not None}
        extra = {"opset": self.opset, "outputs": count, "scope": {}}
        keywords.update({k: v for k, v in extra.items() if k in rule.given})
        hosts = [constant(v.example.numpy()) if v is not None and rule.reads(i) else None
                 for i, v in enumerate(given)]  # fmt: skip
        with weft.no_grad(), default_route(run_as_usual):
            found = rule.run(
                *[h if h is not None else None if v is None else v.example for h, v in zip(hosts, given, strict=True)],
                **keywords,
            )
        results = [as_tensor(r) for r in (found if isinstance(found, tuple) else (found,))][:count]
        constants = all(v is None or v.known is not None for v in given)
        knowns = [r.item() if constants and r.numel() == 1 and r.ndim == 0 else None for r in results]
        return results, knowns

    def _refuse_types(self, base: str, given: Sequence[Any]) -> None:
        """Raises Refused where ONNX's operator does not take a dtype."""
        inputs = defs.get_schema(base, self.opset, "").inputs
        for i, value in enumerate(given):
            if value is None:
                continue
            name = onnx.TensorProto.DataType.Name(element_of(value.dtype)).lower()
            if f"tensor({name})" not in inputs[min(i, len(inputs) - 1)].types:
                raise Refused(f"{value.dtype}: ONNX's {base} does not take it")

    # ---- numbers of Python's
    def as_number(self, x: Output) -> Number:
        """A value without dims as a number."""
        return Number(self, x.name, x.example, x.static, x.known)

    def number_op(self, name: str, a: Any, b: Any) -> Any:
        """Add, Mul or Div of ints, known ones at once."""
        return self.arithmetic({"Add": "add", "Mul": "mul", "Div": "floordiv"}[name], a, b)

    def arithmetic(self, name: str, a: Any, b: Any) -> Any:
        """Python's operation on numbers of which the model computes one."""
        from weft.onnx.arithmetic import RULES

        if not isinstance(a, Number) and not isinstance(b, Number):
            return RULES[name].plain(a, b)
        return self.as_number(RULES[name].write(self, a, b))
