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
from weft.onnx.registry import EXPORTS, IMPORTS
from weft.onnx.values import Known, as_tensor, constant
from weft.ops.op import Op
from weft.ops.route import call as run_operator
from weft.ops.route import default_route
from weft.support.errors import Unsupported, WeftError
from weft.tensor.tensor import Tensor
from weft.types.dtype import DType

KINDS = {int: weft.int64, float: weft.float64, bool: weft.bool}
SMALL = 1024  # elements of a constant that is not worth computing in the model


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


class Writer:
    """A model that is being written."""

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
        return parts[0] if len(parts) == 1 else self.op("Concat", *parts, axis=0)

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
            return self.op("Expand", self.cast(value, dtype), shape)
        return self.op("ConstantOfShape", shape, value=numpy_helper.from_array(np.array([plain], dtype.numpy)))

    # ---- dtypes
    def cast(self, x: Any, dtype: DType) -> Output:
        """A value as another dtype."""
        if not isinstance(x, Output):
            return self.constant(x, dtype)
        if x.dtype is dtype:
            return x
        if x.known is not None and x.ndim == 0:
            return self.constant(x.known, dtype)
        return self.op("Cast", x, to=element_of(dtype))

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
        return dtype  # type: ignore[no-any-return]

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
        self._refuse_stale(given)
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

    def _refuse_stale(self, given: Sequence[Any]) -> None:
        for value in given:
            if value is not None and value.stale:
                raise Unsupported(f"{value.stale}, and a view of it is used afterwards: ONNX has no views")

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
        keywords = {rule.attributes[k]: v for k, v in attributes.items() if v is not None}
        extra = {"opset": self.opset, "outputs": count, "scope": {}}
        keywords.update({k: v for k, v in extra.items() if k in rule.given})
        hosts = [constant(v.example.numpy()) if v is not None and rule.reads(i) else None
                 for i, v in enumerate(given)]  # fmt: skip
        with weft.no_grad():
            found = rule.run(
                *[h if h is not None else None if v is None else v.example for h, v in zip(hosts, given, strict=True)],
                **keywords,
            )
        results = [as_tensor(r) for r in (found if isinstance(found, tuple) else (found,))][:count]
        constants = all(v is None or v.known is not None for v in given)
        knowns = [r.item() if constants and r.numel() == 1 and r.ndim == 0 else None for r in results]
        return results, knowns

    # ---- weft's operators
    def call(self, op: Op, args: tuple[Any, ...], where: Any = None) -> Any:
        """Write an operator of weft's by its symbolic rule, or by the operators that it is made of. Raises Unsupported
        that names it."""
        if not any(True for _ in outputs_in(args)) and op.effect == "pure" and not op.host:
            return self._folded(op, args)
        with weft.no_grad(), default_route(_ON_TENSORS):
            found = run_operator(op, tuple(_tuples(example_of(a)) for a in args))
        results = list(found) if isinstance(found, (tuple, list)) else [found]
        rule, before, mark = EXPORTS.get(op.name), self.node, len(self.scopes[-1].nodes)
        if rule is not None:
            self.node = Call(op, results)
            try:
                written = rule(self, *args)
                self._check(op, written, results)
                return self._aliased(op, args, written)
            except Refused as problem:
                del self.scopes[-1].nodes[mark:]
                if op.decompose is None:
                    raise Unsupported(f"{op.name}: there is no symbolic for {problem}") from None
            finally:
                self.node = before
        if op.decompose is None:
            raise Unsupported(
                f"{op.name} has no symbolic; weft.onnx.symbolic(\"{op.name}\") registers one, or write the model "
                "without it"
            )
        with default_route(self.call):
            return op.decompose(*args)

    def _folded(self, op: Op, args: tuple[Any, ...]) -> Any:
        """A tensor that hangs on nothing but numbers that are known."""
        with weft.no_grad(), default_route(_ON_TENSORS):
            found = run_operator(op, tuple(_tuples(a) for a in args))
        if isinstance(found, Tensor):
            return self.constant(found.numpy(), found.dtype)
        if isinstance(found, (tuple, list)):
            return [self.constant(f.numpy(), f.dtype) for f in found]
        return found

    def _check(self, op: Op, written: Any, results: list[Any]) -> None:
        """Compare what was written with what weft computes."""
        made = written if isinstance(written, (tuple, list)) else [written]
        for mine, theirs in zip(made, results, strict=False):
            if not isinstance(mine, Output) or not isinstance(theirs, Tensor) or isinstance(mine, Number):
                continue
            same = mine.example.dtype is theirs.dtype and tuple(mine.example.shape) == tuple(theirs.shape)
            if same and op.effect != "random":
                same = _close(mine.example, theirs)
            if not same:
                raise Unsupported(
                    f"{op.name}: its symbolic writes {mine.example.type_} where weft gives {theirs.type_}, or other "
                    "values; this combination of arguments cannot be exported"
                )

    def _aliased(self, op: Op, args: tuple[Any, ...], written: Any) -> Any:
        """Results of views know what they are views of."""
        if op.view is not None and args and isinstance(args[0], Output):
            for made in written if isinstance(written, (tuple, list)) else [written]:
                if isinstance(made, Output) and made is not args[0]:
                    made.base = args[0].base or args[0]
        return written

    def item(self, x: Output, index: Any) -> Any:
        """`x[index]`."""
        with weft.no_grad():
            result = example_of(x)[example_of(_index(index))]
        before, self.node = self.node, Call(_GETITEM, [result])
        try:
            written = EXPORTS[_GETITEM.name](self, x, _index(index))
            self._check(_GETITEM, written, [result])
            basic = not any(self.is_tensor(p) for p in (index if isinstance(index, (tuple, list)) else (index,)))
            if basic and written is not x:
                written.base = x.base or x
            return written
        except Refused as problem:
            raise Unsupported(f"an index: there is no symbolic for {problem}") from None
        finally:
            self.node = before

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


def _index(index: Any) -> Any:
    if isinstance(index, (tuple, list)):
        return tuple(_index(i) for i in index)
    return Ellipsis if isinstance(index, str) and index == "..." else index


def _tuples(value: Any) -> Any:
    return tuple(_tuples(v) for v in value) if isinstance(value, (tuple, list)) else value


def _close(a: Tensor, b: Tensor) -> bool:
    if not a.dtype.is_floating_point:
        return bool(weft.equal(a, b))
    wide = (a.to(weft.float64), b.to(weft.float64))
    tolerance = 1e-9 if a.dtype is weft.float64 else 1e-2 if a.dtype.itemsize < 4 else 1e-3
    return bool(weft.allclose(*wide, rtol=tolerance, atol=tolerance, equal_nan=True))


def _on_tensors(op: Op, args: tuple[Any, ...]) -> Any:
    from weft.ops import route

    return route._base[0](op, args)


_ON_TENSORS = _on_tensors
_GETITEM = weft.ops.op.OPS["prim::tensor_getitem"]
__all__ = ["Known", "Refused", "WeftError", "Writer", "onnx"]
