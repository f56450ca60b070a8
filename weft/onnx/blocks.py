"""prim::If and prim::Loop as If and Loop of ONNX, whose branches and bodies are graphs that see what is around them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import weft
from weft.ir.graph import Block, Node
from weft.onnx.dependency import helper
from weft.onnx.nodes import KINDS, Scope, value_info
from weft.onnx.outputs import Number, Output
from weft.support.errors import Unsupported, WeftError

ENDLESS = 2**63 - 1
MOST_UNROLLED = 1000


class Raised(WeftError):
    """The part of the program that is being written raises an exception."""


class _NotAsNode(WeftError):
    """A body that cannot become a graph of ONNX: it changes lists, or what it carries changes its kind."""


class Unset:
    """What a variable holds that has no value yet, and that nothing reads."""


UNSET = Unset()


class _Written:
    """A block that has been written: its results, its nodes, and what it wrote of the values around it."""

    def __init__(self, results: list[Any], scope: Scope, writes: dict[Output, Output]) -> None:
        self.results, self.scope, self.writes = results, scope, writes


def _containers(value: Any, found: dict[int, tuple[Any, Any]]) -> None:
    if isinstance(value, (list, dict)) and id(value) not in found:
        found[id(value)] = (value, value.copy())
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, (list, tuple)) else ()
    for part in parts:
        _containers(part, found)


def _nested(exporter: Any, block: Block, args: Sequence[Any]) -> _Written:
    """Write a block, and put everything around it back as it was."""
    before = {o: o.state for o in list(exporter.writer.live)}
    held: dict[int, tuple[Any, Any]] = {}
    for value in list(exporter.values.values()):
        _containers(value, held)
    try:
        with exporter.writer.apart() as scope:
            results = exporter.block(block, args)
        changed = any(_differ(now, then) for now, then in held.values())
        writes = {
            o: Output(exporter.writer, o.name, o.example, o.sizes)
            for o, then in before.items() if o.name != then[0] and o.source is None
        }
    finally:
        for output, state in before.items():
            output.state = state
        for now, then in held.values():
            now.clear()
            now.update(then) if isinstance(now, dict) else now.extend(then)
    if changed:
        raise _NotAsNode("a list or dict from outside is changed in it")
    return _Written(results, scope, writes)


def _differ(now: Any, then: Any) -> bool:
    if len(now) != len(then):
        return True
    pairs = zip(now.values(), then.values(), strict=True) if isinstance(now, dict) else zip(now, then, strict=True)
    return any(a is not b for a, b in pairs)


def _leaving(exporter: Any, scope: Scope, value: Any, dtype: Any) -> Output:
    """A value as a result of the graph that is being written: under a name of its own."""
    writer = exporter.writer
    writer.scopes.append(scope)
    try:
        made: Output = writer.op("Identity", writer.cast(value, dtype))
    finally:
        writer.scopes.pop()
    return made


# ---- If
def write_if(exporter: Any, node: Node, condition: Output) -> Sequence[Any]:
    """A choice that the model makes. A branch that raises is left out."""
    branches: list[_Written | None] = []
    for block in node.blocks:
        try:
            branches.append(_nested(exporter, block, []))
        except Raised:
            branches.append(None)
        except _NotAsNode as problem:
            raise Unsupported(f"a branch that hangs on a tensor: {problem}") from None
    if None in branches:
        kept = [i for i, b in enumerate(branches) if b is not None]
        if not kept:
            raise Raised("both branches raise")
        return exporter.block(node.blocks[kept[0]], [])  # type: ignore[no-any-return]
    return _Choice(exporter, condition, branches).write()


class _Choice:
    """The results of both branches, side by side."""

    def __init__(self, exporter: Any, condition: Output, branches: Sequence[Any]) -> None:
        self.exporter, self.condition, self.branches = exporter, condition, branches
        self.outputs: tuple[list[Any], list[Any]] = ([], [])
        self.made: list[Output] = []

    def write(self) -> list[Any]:
        """One If, and what each result of the branches is behind it."""
        first, second = self.branches
        results = [self.merge(a, b) for a, b in zip(first.results, second.results, strict=True)]
        written = []
        for outer in {**first.writes, **second.writes}:
            written.append((outer, self.merge(first.writes.get(outer, outer), second.writes.get(outer, outer))))
        if not self.made:
            return results
        writer = self.exporter.writer
        graphs = [
            helper.make_graph(b.scope.nodes, name, [], infos)
            for b, name, infos in zip(self.branches, ("then", "otherwise"), self.outputs, strict=True)
        ]
        names = [o.name for o in self.made]
        made = helper.make_node("If", [self.condition.name], names, then_branch=graphs[0], else_branch=graphs[1])
        writer.scopes[-1].nodes.append(made)
        for outer, value in written:
            self.exporter.rebind(outer, value)
        return results

    def merge(self, a: Any, b: Any) -> Any:
        """One value for two."""
        if isinstance(a, (tuple, list)) and type(a) is type(b) and len(a) == len(b):
            return type(a)(self.merge(x, y) for x, y in zip(a, b, strict=True))
        if a is b:
            return a
        if a is UNSET or b is UNSET:  # never read where it is unset: any value does
            a, b = (_empty(self.exporter, b), b) if a is UNSET else (a, _empty(self.exporter, a))
            return self.merge(a, b)
        if not isinstance(a, Output) and not isinstance(b, Output) and type(a) is type(b) and a == b:
            return a
        both = (a, b)
        if not all(isinstance(v, (Output, *KINDS)) for v in both):
            raise Unsupported(f"the branches give {_kind(a)} and {_kind(b)}, of which ONNX makes no one value")
        dtypes = [self.exporter.writer.dtype(v) for v in both]
        if dtypes[0] is not dtypes[1]:
            raise Unsupported(f"the branches give tensors of {dtypes[0]} and of {dtypes[1]}")
        return self._output(a, b, dtypes[0])

    def _output(self, a: Any, b: Any, dtype: Any) -> Output:
        writer, ends = self.exporter.writer, []
        for branch, infos, value in zip(self.branches, self.outputs, (a, b), strict=True):
            made = _leaving(self.exporter, branch.scope, value, dtype)
            infos.append(value_info(made))
            ends.append(made)
        same = [a if a == b else None for a, b in zip(ends[0].sizes, ends[1].sizes, strict=False)]
        numbers = not any(writer.is_tensor(v) for v in (a, b))
        found = (Number if numbers else Output)(writer, writer.name("if"), ends[0].example, same)
        self.made.append(found)
        return found


def _empty(exporter: Any, like: Any) -> Any:
    """A value of another's kind."""
    if isinstance(like, Output):
        made = exporter.writer.constant(weft.zeros_like(like.example).numpy(), like.dtype)
        return exporter.writer.as_number(made) if isinstance(like, Number) else made
    if isinstance(like, (tuple, list)):
        return type(like)(_empty(exporter, part) for part in like)
    return like


def _kind(value: Any) -> str:
    return "a tensor" if isinstance(value, Output) else "None" if value is None else f"a {type(value).__name__}"


# ---- Loop
def write_loop(exporter: Any, node: Node, trip: Any, condition: Any, carried: list[Any]) -> Sequence[Any]:
    """A loop of the model's. One with a known number of steps whose body cannot be a graph (it fills a list, or reads
    one at the number of the step, say) is unrolled."""
    if condition is False or (isinstance(trip, int) and trip <= 0):
        return carried
    known = not isinstance(trip, Output) and trip <= MOST_UNROLLED
    try:
        return _Loop(exporter, node, trip, condition, carried).write()
    except Unsupported:
        if not known or isinstance(condition, Output):
            raise
    except _NotAsNode as problem:
        if not known:
            raise Unsupported(f"a loop whose number of steps the model finds: {problem}") from None
    return _unrolled(exporter, node, trip, condition, carried)


def _unrolled(exporter: Any, node: Node, trip: int, condition: Any, carried: list[Any]) -> Sequence[Any]:
    step = 0
    while condition is True and step < trip:
        condition, *carried = exporter.block(node.blocks[0], [step, *carried])
        step += 1
    if isinstance(condition, Output) and step < trip:
        raise Unsupported("a loop that fills a list ends by a tensor's value")
    return carried


class _Loop:
    """The carried values of a loop: those of the program, and values around it that the body writes."""

    def __init__(self, exporter: Any, node: Node, trip: Any, condition: Any, carried: list[Any]) -> None:
        self.exporter, self.node, self.trip, self.condition = exporter, node, trip, condition
        self.carried = carried
        self.dynamic: set[tuple[int, int]] = set()  # positions and axes whose sizes change from step to step
        self.fixed: set[int] = set()  # positions that every step hands on as they are
        self.outer: list[Output] = []  # what the body writes of the values around it

    def write(self) -> list[Any]:
        """Written until nothing new is learned about what is carried."""
        self._find_fixed()
        for _ in range(8):
            params = self._params()
            written = self._body(params)
            if self._learned(params, written):
                continue
            return self._finished(params, written)
        raise Unsupported("a loop whose carried values do not settle")

    def _find_fixed(self) -> None:
        """A value that the body hands on as it is, or that is neither tensor nor number, is no carried one."""
        block = self.node.blocks[0]
        for i, (param, result) in enumerate(zip(block.params[1:], block.results[1:], strict=True)):
            if param is result:
                self.fixed.add(i)
            elif not isinstance(self.carried[i], (Output, Unset, *KINDS)):
                raise _NotAsNode(f"it carries {_kind(self.carried[i])}")

    def _params(self) -> list[Any]:
        writer = self.exporter.writer
        found = []
        for i, value in enumerate(self.carried):
            if i in self.fixed or value is UNSET:
                found.append(value)
                continue
            start = writer.number(value) if not isinstance(value, Output) else value
            kind = Output if writer.is_tensor(value) else Number
            sizes = [None if (i, axis) in self.dynamic else n for axis, n in enumerate(start.sizes)]
            found.append(kind(writer, writer.name("carried"), start.example, sizes))
        return found

    def _body(self, params: list[Any]) -> _Written:
        writer = self.exporter.writer
        self.index = Number(writer, writer.name("step"), weft.tensor(0))
        self.inner = {o: writer.name("written") for o in self.outer}
        before = {o: (o.name, o.sizes) for o in self.outer}
        for o, name in self.inner.items():
            o.name = name
            writer.sizes.settle(o, [None] * o.ndim)
        try:
            return _nested(self.exporter, self.node.blocks[0], [self.index, *params])
        finally:
            for o, (name, sizes) in before.items():
                o.name, o.sizes = name, sizes

    def _learned(self, params: list[Any], written: _Written) -> bool:
        learned = False
        for o in written.writes:
            if o not in self.outer and not any(o is p for p in params):
                self.outer.append(o)
                learned = True
        for i, (param, result) in enumerate(zip(params, written.results[1:], strict=True)):
            if i in self.fixed:
                continue
            if param is UNSET:
                if result is UNSET:
                    self.fixed.add(i)
                self.carried[i] = _empty(self.exporter, result) if result is not UNSET else UNSET
                learned = True
                continue
            if not isinstance(result, (Output, *KINDS)):
                raise _NotAsNode(f"it carries {_kind(result)}")
            made = result if isinstance(result, Output) else self.exporter.writer.number(result)
            if made.dtype is not param.dtype:
                raise _NotAsNode(f"it carries a tensor of {param.dtype} on as one of {made.dtype}")
            if made.ndim != param.ndim:
                raise _NotAsNode(f"it carries a tensor of {param.ndim} dims on as one of {made.ndim}")
            changed = {(i, axis) for axis, n in enumerate(param.sizes) if n != made.sizes[axis]} - self.dynamic
            self.dynamic |= changed
            learned |= bool(changed)
        return learned

    def _finished(self, params: list[Any], written: _Written) -> list[Any]:
        writer = self.exporter.writer
        moving = [i for i in range(len(params)) if i not in self.fixed]
        start_go = writer.cast(self.condition, weft.bool)
        go_in = writer.name("go")
        ends = [_leaving(self.exporter, written.scope, written.results[0], weft.bool)]
        ends += [_leaving(self.exporter, written.scope, written.results[1 + i], params[i].dtype) for i in moving]
        ends += [
            _leaving(self.exporter, written.scope, written.writes.get(o, o), o.dtype) for o in self.outer
        ]
        inner = [value_info(self.index), value_info(start_go, go_in)]
        inner += [value_info(params[i]) for i in moving]
        inner += [value_info(o, name) for o, name in self.inner.items()]
        graph = helper.make_graph(written.scope.nodes, "body", inner, [value_info(end) for end in ends])
        starts = [writer.number(self.carried[i]) if not isinstance(self.carried[i], Output) else self.carried[i]
                  for i in moving]  # fmt: skip
        most = "" if not isinstance(self.trip, Output) and self.trip == ENDLESS else writer.number(self.trip).name
        names = [writer.name("loop") for _ in (*moving, *self.outer)]
        given = [most, start_go.name, *(s.name for s in (*starts, *self.outer))]
        writer.scopes[-1].nodes.append(helper.make_node("Loop", given, names, body=graph))
        results = list(params)
        for name, i, end in zip(names, moving, ends[1:], strict=False):
            kind = Number if isinstance(params[i], Number) else Output
            results[i] = kind(writer, name, end.example, self._sizes(i, params[i]))
        for name, o, end in zip(names[len(moving) :], self.outer, ends[1 + len(moving) :], strict=True):
            self.exporter.rebind(o, Output(writer, name, end.example, end.sizes))
        return results

    def _sizes(self, position: int, param: Output) -> list[Any]:
        """What is carried has, behind the loop, the sizes that no step changes."""
        return [None if (position, axis) in self.dynamic else n for axis, n in enumerate(param.sizes)]
