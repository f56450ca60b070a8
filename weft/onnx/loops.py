"""prim::Loop as Loop of ONNX."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import weft
from weft.ir.graph import Node
from weft.onnx.blocks import (
    UNSET,
    Around,
    NotAsNode,
    Unset,
    Written,
    element_of,
    empty,
    kind,
    leaving,
    leaving_list,
    lose,
    nested,
    places,
)
from weft.onnx.dependency import helper
from weft.onnx.lists import Element, Listed, listed
from weft.onnx.nodes import KINDS, value_info
from weft.onnx.outputs import Number, Output
from weft.support.errors import Unsupported

ENDLESS = 2**63 - 1
MOST_UNROLLED = 1000


def write_loop(exporter: Any, node: Node, trip: Any, condition: Any, carried: list[Any]) -> Sequence[Any]:
    """A loop of the model's. One with a known number of steps whose body cannot be a graph, or changes lists, is
    unrolled."""
    if condition is False or (isinstance(trip, int) and trip <= 0):
        return carried
    can_unroll = not isinstance(trip, Output) and trip <= MOST_UNROLLED and not isinstance(condition, Output)
    try:
        return _Loop(exporter, node, trip, condition, carried, lists=not can_unroll).write()
    except Unsupported:
        if not can_unroll:
            raise
    except NotAsNode as problem:
        if not can_unroll:
            raise Unsupported(f"a loop whose number of steps the model finds: {problem}") from None
    mark, around = len(exporter.writer.scopes[-1].nodes), Around(exporter)
    try:
        return _unrolled(exporter, node, trip, condition, carried)
    except _EndsByTensor:
        del exporter.writer.scopes[-1].nodes[mark:]
        around.put_back()
    return _Loop(exporter, node, trip, condition, carried, lists=True).write()


class _EndsByTensor(NotAsNode):
    """A loop that is being unrolled ends by a tensor's value."""


def _unrolled(exporter: Any, node: Node, trip: int, condition: Any, carried: list[Any]) -> Sequence[Any]:
    step = 0
    while condition is True and step < trip:
        condition, *carried = exporter.block(node.blocks[0], [step, *carried])
        step += 1
        if isinstance(condition, Output) and step < trip:
            raise _EndsByTensor
    return carried


class _Loop:
    """The carried values of a loop: those of the program, values around it that the body writes, elements of lists
    and dicts around it that the body replaces (`slots`), and lists around it that it makes longer or shorter."""

    def __init__(
        self, exporter: Any, node: Node, trip: Any, condition: Any, carried: list[Any], lists: bool
    ) -> None:
        self.exporter, self.node, self.trip, self.condition, self.lists = exporter, node, trip, condition, lists
        self.carried = list(carried)
        self.count = len(carried)  # of the program's; behind these stand slots and lists
        self.around: list[tuple[Any, Any]] = []  # the container, and the key of a slot (None: all of the list)
        self.elements: dict[int, Element | None] = {}  # of the positions that are lists
        self.dynamic: set[tuple[int, int]] = set()  # positions and axes whose sizes change from step to step
        self.fixed: set[int] = set()  # positions that every step hands on as they are
        self.outer: list[Output] = []  # what the body writes of the values around it
        self.alike: set[tuple[int, int | Output]] = set()  # positions, and others or values around, that may be one

    def write(self) -> list[Any]:
        """Written until nothing new is learned about what is carried."""
        self._find_fixed()
        for _ in range(12):
            params = self._params()
            written = self._body(params)
            if self._learned(params, written):
                continue
            return self._finished(params, written)
        raise Unsupported("a loop whose carried values do not settle")

    def _find_fixed(self) -> None:
        """A value that the body hands on as it is is no carried one. Raises NotAsNode for what cannot be carried."""
        block = self.node.blocks[0]
        for i, (param, result) in enumerate(zip(block.params[1:], block.results[1:], strict=True)):
            value = self.carried[i]
            if param is result:
                self.fixed.add(i)
            elif isinstance(value, list) and self.lists:
                self._carry_list(i, value)
            elif not isinstance(value, (Output, Unset, *KINDS)):
                raise NotAsNode(f"it carries {kind(value)}")

    def _carry_list(self, position: int, xs: list[Any]) -> None:
        state = self.exporter.listed(xs)
        self.carried[position] = list(xs) if state is None else state
        self.elements[position] = element_of(self.exporter, self.carried[position])

    # ---- what the body is given
    def _params(self) -> list[Any]:
        writer = self.exporter.writer
        params: list[Any] = []
        for i, value in enumerate(self.carried):
            if i in self.elements:
                element = self.elements[i]
                items = value.items if isinstance(value, Listed) else [writer.number(v).example if element is not None
                        and element.is_number else v.example for v in value]  # fmt: skip
                params.append(None if element is None else Listed(writer.name("carried"), items, element))
                continue
            if i in self.fixed or value is UNSET:
                params.append(value)
                continue
            start = writer.number(value) if not isinstance(value, Output) else value
            cls = Output if writer.is_tensor(value) else Number
            sizes = [None if (i, axis) in self.dynamic else n for axis, n in enumerate(start.sizes)]
            params.append(cls(writer, writer.name("carried"), start.example, sizes))
        self._note_twins(params, self.carried)
        return params

    def _note_twins(self, values: list[Any], starts: Sequence[Any]) -> None:
        """Note what carried values may be besides themselves: what the loop begins with, and what a step leaves."""
        for i, value in enumerate(values):
            if i in self.elements or i in self.fixed or not self._is_tensor(value):
                continue
            others = [values[o] if isinstance(o, int) else o for p, o in sorted(self.alike, key=str) if p == i]
            value.twins = tuple(o.root for o in (starts[i], *others) if self._is_tensor(o) and o is not value)

    def _is_tensor(self, value: Any) -> bool:
        return isinstance(value, Output) and not isinstance(value, Number)

    def _argument(self, position: int, param: Any) -> Any:
        """A carried value as the program has it: lists are Python's, which stand for sequences."""
        if position not in self.elements:
            return param
        stand_in: list[Any] = list(self.carried[position]) if param is None else []
        if param is not None:
            self.exporter.lists[id(stand_in)] = (stand_in, param)
        return stand_in

    def _body(self, params: list[Any]) -> Written:
        writer, lists = self.exporter.writer, dict(self.exporter.lists)
        self.index = Number(writer, writer.name("step"), weft.tensor(0))
        self.inner = {o: writer.name("written") for o in self.outer}
        before = {o: (o.name, o.sizes) for o in self.outer}
        for o, name in self.inner.items():
            o.name = name
            writer.sizes.settle(o, [None] * o.ndim)
        held = self._enter(params)
        try:
            arguments = [self._argument(i, p) for i, p in enumerate(params[: self.count])]
            return nested(self.exporter, self.node.blocks[0], [self.index, *arguments])
        finally:
            for o, (name, sizes) in before.items():
                o.name, o.sizes = name, sizes
            for container, key, value in held:
                container[key] = value
            self.exporter.lists = lists

    def _enter(self, params: list[Any]) -> list[Any]:
        """Let the containers around the loop have what is carried. Gives what they had."""
        held = []
        for (container, key), param in zip(self.around, params[self.count :], strict=True):
            if key is None:
                self.exporter.lists[id(container)] = (container, param)
            else:
                held.append((container, key, container[key]))
                container[key] = param
        return held

    # ---- what it gives
    def _result(self, position: int, params: list[Any], written: Written) -> Any:
        """What the body hands on: a value, or the state of a list."""
        left = self._left_at(position, params, written)
        if position in self.elements:
            return [written.now(v) for v in left] if isinstance(left, list) else left
        return written.now(left)

    def _left_at(self, position: int, params: list[Any], written: Written) -> Any:
        if position < self.count:
            result = written.results[1 + position]
            if result is UNSET:  # the loop ends with this step, and nothing reads it: what it was will do
                return params[position]
            return written.state(result) if position in self.elements else result
        container, key = self.around[position - self.count]
        state = written.changes.get(id(container))
        if state is None:
            return params[position]
        return state[1] if key is None else state[1][key]

    def _learned(self, params: list[Any], written: Written) -> bool:
        learned = self._learned_around(written)
        for o in written.writes:
            if o not in self.outer and not any(o is p for i, p in enumerate(params) if i not in self.fixed):
                self.outer.append(o)
                learned = True
        learned |= self._learned_twins(params, written)
        for i, param in enumerate(params):
            if i not in self.fixed:
                result = self._result(i, params, written)
                learned |= self._learned_list(i, result) if i in self.elements else self._learned_of(i, param, result)
        return learned

    def _learned_twins(self, params: list[Any], written: Written) -> bool:
        """Which of what a step leaves is one that it was given, one from around the loop, or left twice."""
        left = {
            i: value.root for i in range(len(params)) if i not in self.fixed and i not in self.elements
            and self._is_tensor(value := self._left_at(i, params, written))
        }
        before = len(self.alike)
        for i, one in left.items():
            self.alike.update((i, j) for j, other in left.items() if j < i and other is one)
            self.alike.update((i, j) for j, param in enumerate(params) if j != i and param is one)
            if one in written.before and not any(one is param for param in params):
                self.alike.add((i, one))
        return len(self.alike) > before

    def _learned_around(self, written: Written) -> bool:
        learned = False
        for container, state in written.changes.values():
            if not self.lists:
                raise NotAsNode("a list or dict from outside is changed in it")
            whole = any(c is container and key is None for c, key in self.around)
            if isinstance(state, Listed) or places(state) != places(container):
                if isinstance(container, dict):
                    raise NotAsNode("it puts new keys into a dict, or takes some away")
                if not whole:
                    self._carry(container, None, written)
                    self.elements[len(self.carried) - 1] = element_of(self.exporter, state)
                    learned = True
                continue
            for key in places(container):
                is_carried = whole or any(c is container and k == key for c, k in self.around)
                if state[key] is not container[key] and not is_carried:
                    self._carry(container, key, written)
                    learned = True
        return learned

    def _carry(self, container: Any, key: Any, written: Written) -> None:
        around = self.exporter.listed(container)
        start = container[key] if key is not None else list(container) if around is None else around
        if key is not None and not isinstance(start, (Output, *KINDS)):
            raise NotAsNode(f"it replaces {kind(start)} in a list or dict")
        self.around.append((container, key))
        self.carried.append(start)

    def _learned_list(self, position: int, state: Any) -> bool:
        if not isinstance(state, (Listed, list)):
            raise NotAsNode(f"it carries a list on as {kind(state)}")
        element = element_of(self.exporter, self.carried[position], state)
        previous, self.elements[position] = self.elements[position], element
        return element != previous

    def _learned_of(self, i: int, param: Any, result: Any) -> bool:
        if param is UNSET:
            if result is UNSET:
                self.fixed.add(i)
            elif isinstance(result, list):
                raise NotAsNode("it makes a list")
            self.carried[i] = empty(self.exporter, result) if result is not UNSET else UNSET
            return True
        if not isinstance(result, (Output, *KINDS)):
            raise NotAsNode(f"it carries {kind(result)}")
        output = result if isinstance(result, Output) else self.exporter.writer.number(result)
        if output.dtype is not param.dtype:
            raise NotAsNode(f"it carries a tensor of {param.dtype} on as one of {output.dtype}")
        if output.ndim != param.ndim:
            raise NotAsNode(f"it carries a tensor of {param.ndim} dims on as one of {output.ndim}")
        changed = {(i, axis) for axis, n in enumerate(param.sizes) if n != output.sizes[axis]} - self.dynamic
        self.dynamic |= changed
        return bool(changed)

    # ---- the node
    def _finished(self, params: list[Any], written: Written) -> list[Any]:
        writer = self.exporter.writer
        moving = [i for i in range(len(params)) if i not in self.fixed]
        start_go = writer.cast(self.condition, weft.bool)
        ends: list[Any] = [leaving(self.exporter, written.scope, written.results[0], weft.bool)]
        ends += [self._end(i, params, written) for i in moving]
        ends += [leaving(self.exporter, written.scope, written.writes.get(o, o), o.dtype) for o in self.outer]
        inner = [value_info(self.index), value_info(start_go, writer.name("go"))]
        inner += [_info(params[i]) for i in moving] + [value_info(o, name) for o, name in self.inner.items()]
        graph = helper.make_graph(written.scope.nodes, "body", inner, [_info(end) for end in ends])
        starts = [self._start(i) for i in moving]
        most = "" if not isinstance(self.trip, Output) and self.trip == ENDLESS else writer.number(self.trip).name
        names = [writer.name("loop") for _ in (*moving, *self.outer)]
        inputs = [most, start_go.name, *(s.name for s in (*starts, *self.outer))]
        if names:  # else it leaves nothing
            writer.append(helper.make_node("Loop", inputs, names, body=graph))
        results = list(params)
        for name, i, end in zip(names, moving, ends[1:], strict=False):
            results[i] = self._behind(i, params[i], end, name)
        for name, o, end in zip(names[len(moving) :], self.outer, ends[1 + len(moving) :], strict=True):
            self.exporter.rebind(o, Output(writer, name, end.example, end.sizes))
        for i in moving:
            if self._is_tensor(self.carried[i]) and (params[i] in written.writes or params[i] in written.lost):
                self.exporter.lose(self.carried[i])  # the first step may have written it
                lose([self.carried[i].root])
        lose(written.lost)
        self._note_twins(results, self.carried)
        self._leave(results)
        return [self._argument(i, r) for i, r in enumerate(results[: self.count])]

    def _end(self, position: int, params: list[Any], written: Written) -> Any:
        result = self._result(position, params, written)
        if position in self.elements:
            return leaving_list(self.exporter, written.scope, result, self.elements[position])
        return leaving(self.exporter, written.scope, result, params[position].dtype)

    def _start(self, position: int) -> Any:
        value, writer = self.carried[position], self.exporter.writer
        if position in self.elements:
            return value if isinstance(value, Listed) else listed(writer, value, self.elements[position])
        return value if isinstance(value, Output) else writer.number(value)

    def _behind(self, position: int, param: Any, end: Any, name: str) -> Any:
        """What is carried has, behind the loop, the sizes that no step changes."""
        element = self.elements.get(position)
        if element is not None:
            return Listed(name, end.items, element)
        sizes = [None if (position, axis) in self.dynamic else n for axis, n in enumerate(param.sizes)]
        return (Number if isinstance(param, Number) else Output)(self.exporter.writer, name, end.example, sizes)

    def _leave(self, results: list[Any]) -> None:
        """Let the containers around the loop have what it has left."""
        for (container, key), result in zip(self.around, results[self.count :], strict=True):
            if key is None:
                self.exporter.lists[id(container)] = (container, result)
            else:
                container[key] = result


def _info(value: Any) -> Any:
    return value.info() if isinstance(value, Listed) else value_info(value)
