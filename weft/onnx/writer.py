"""Operators of weft's, written by their symbolic rules."""

from __future__ import annotations

from typing import Any

import weft
from weft.onnx.nodes import Call, Nodes, Refused
from weft.onnx.outputs import Number, Output, example_of, outputs_in
from weft.onnx.registry import EXPORTS, FUNCTIONS
from weft.ops.op import OPS, Op
from weft.ops.route import call as run_operator
from weft.ops.route import default_route, run_as_usual
from weft.support.errors import Unsupported
from weft.tensor.tensor import Tensor
from weft.types.dims import Expr
from weft.types.sym import SymInt, to_dim


class Writer(Nodes):
    """A model that is being written, operator by operator."""

    def call(self, op: Op, args: tuple[Any, ...], where: Any = None) -> Any:
        """Write an operator of weft's by its symbolic rule, or by the operators that it is made of. Raises Unsupported
        that names it."""
        args = self._entered(args)
        self.fresh(args)
        if not any(True for _ in outputs_in(args)) and op.effect == "pure" and not op.host:
            return self._folded(op, args)
        with weft.no_grad(), default_route(run_as_usual):
            example = run_operator(op, tuple(_tuples(example_of(a)) for a in args))
        results = list(example) if isinstance(example, (tuple, list)) else [example]
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

    def _entered(self, value: Any) -> Any:
        """Arguments with tensors of the program's own (those that a module's Python reads) as weights, and sizes as
        numbers of the model."""
        if isinstance(value, tuple):
            return tuple(self._entered(v) for v in value)
        if isinstance(value, (Expr, SymInt)):
            return self.of_size(to_dim(value))
        return self.weight(value, "weight") if isinstance(value, Tensor) else value

    def _folded(self, op: Op, args: tuple[Any, ...]) -> Any:
        """A tensor that hangs on nothing but numbers that are known."""
        with weft.no_grad(), default_route(run_as_usual):
            folded = run_operator(op, tuple(_tuples(a) for a in args))
        if isinstance(folded, Tensor):
            return self.constant(folded.numpy(), folded.dtype)
        if isinstance(folded, (tuple, list)):
            return [self.constant(f.numpy(), f.dtype) for f in folded]
        return folded

    def _check(self, op: Op, written: Any, results: list[Any]) -> None:
        """Compare what was written with what weft computes."""
        outputs = written if isinstance(written, (tuple, list)) else [written]
        for mine, theirs in zip(outputs, results, strict=False):
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
        same = isinstance(written, Output) and any(written is a for a in args)
        if same and not any(r.alias for r in op.schema.returns):
            return written.copied()
        if op.view is None or not args or not isinstance(args[0], Output):
            return written
        for i, output in enumerate(written if isinstance(written, (tuple, list)) else [written]):
            if isinstance(output, Output) and output is not args[0]:
                self._view(output, args[0], lambda source, i=i: _part(self.call(op, (source, *args[1:])), i))
        return written

    def _view(self, view: Output, source: Output, replay: Any) -> None:
        view.source, view.replay = source, replay

    def places(self, view: Output) -> tuple[Output, Output]:
        """What a view is of, in the end, and where in it each element of the view lies, counted row by row."""
        chain = []
        while view.source is not None:
            chain.append(view.replay)
            view = view.source
        count = self.op("Range", self.numbers(0, weft.int64), self.op("Size", view), self.numbers(1, weft.int64))
        places = self.op("Reshape", count, self.op("Shape", view))
        for replay in reversed(chain):
            assert replay is not None
            places = replay(places)
        return view, places

    def scattered(self, whole: Output, places: Output, values: Any) -> Output:
        """A tensor with other values at these places."""
        source = self.op("Expand", self.cast(values, whole.dtype), self.op("Shape", places))
        flat = [self.op("Reshape", v, self.ints([-1])) for v in (whole, places, source)]
        scattered: Output = self.op("Reshape", self.op("ScatterElements", *flat, axis=0), self.op("Shape", whole))
        return scattered

    def function(self, name: str, args: tuple[Any, ...]) -> Any:
        """Write a function of weft's Python by its rule."""
        return FUNCTIONS[name](self, *self._entered(args))

    def item(self, x: Output, index: Any) -> Any:
        """`x[index]`."""
        self.fresh((x, index))
        with weft.no_grad():
            result = example_of(x)[example_of(_index(index))]
        before, self.node = self.node, Call(_GETITEM, [result])
        try:
            written = EXPORTS[_GETITEM.name](self, x, _index(index))
            self._check(_GETITEM, written, [result])
            basic = not any(self.is_tensor(p) for p in (index if isinstance(index, (tuple, list)) else (index,)))
            if basic and written is not x:
                self._view(written, x, lambda source: self.item(source, index))
            return written
        except Refused as problem:
            raise Unsupported(f"an index: there is no symbolic for {problem}") from None
        finally:
            self.node = before


def _part(written: Any, position: int) -> Any:
    return written[position] if isinstance(written, (tuple, list)) else written


def _index(index: Any) -> Any:
    """An index as Python has it: the graph has texts for `...`, and lists for tuples."""
    if isinstance(index, (tuple, list)):
        return tuple(_index(i) if not isinstance(i, (tuple, list)) else list(i) for i in index)
    return Ellipsis if isinstance(index, str) and index == "..." else index


def _tuples(value: Any) -> Any:
    return tuple(_tuples(v) for v in value) if isinstance(value, (tuple, list)) else value


def _close(a: Tensor, b: Tensor) -> bool:
    if not a.dtype.is_floating_point:
        return bool(weft.equal(a, b))
    wide = (a.to(weft.float64), b.to(weft.float64))
    tolerance = 1e-9 if a.dtype is weft.float64 else 1e-2 if a.dtype.itemsize < 4 else 1e-3
    return bool(weft.allclose(*wide, rtol=tolerance, atol=tolerance, equal_nan=True))


_GETITEM = OPS["prim::tensor_getitem"]
