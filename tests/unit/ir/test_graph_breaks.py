"""Graphs split at calls of Python: what each part reads, gives and ends, against what a run needs."""

from __future__ import annotations

import weft  # noqa: F401
from weft.ir.backward_calls import ACCUMULATE_LEAF, TENSOR_HOOK_CALL
from weft.ir.builder import Builder
from weft.ir.graph import values_in
from weft.ir.graph_breaks import parts_of, uses_of
from weft.ir.python_calls import PYTHON_CALL, READ_AFTER
from weft.ops.packet import aten
from weft.types import dtype as dt
from weft.types.tensor_type import OBJECT, TENSOR, tensor_type

VECTOR = tensor_type(dt.float64, (3,))
ADD = aten.add.Tensor.op


def hooked_graph(rng, length):
    """Sums, calls of hooks and accumulation into leaves, of values that are there."""
    b = Builder("hooked")
    hook = b.param(OBJECT, "hook")
    values = [b.param(TENSOR, f"t{i}") for i in range(3)]
    for _ in range(length):
        kind, x, y = rng.integers(4), *(values[int(rng.integers(len(values)))] for _ in range(2))
        if kind == 0:
            b.emit_raw(ACCUMULATE_LEAF, (hook, x, bool(rng.integers(2))), ())
        elif kind == 1:
            values += b.emit_raw(TENSOR_HOOK_CALL, (hook, x), (TENSOR,)).outputs
        else:
            values += b.emit_raw(ADD, (x, y, 1), (TENSOR,)).outputs
    return b.graph([values[int(rng.integers(len(values)))]])


def runs_hooks(call):
    return call.op is not ACCUMULATE_LEAF or call.args[2]


def test_a_run_by_parts_has_what_it_reads_and_keeps_no_more(rng):
    for _ in range(60):
        graph = hooked_graph(rng, int(rng.integers(1, 25)))
        start = int(rng.integers(len(graph.nodes)))
        parts = parts_of(graph, uses_of(graph), runs_hooks, most_waiting=int(rng.integers(1, 4)), start=start)
        assert [n for p in parts for n in p.nodes] == [n for n in graph.nodes if n.op is ADD]
        assert [c.node for p in parts for c in p.calls] == [n for n in graph.nodes if n.op is not ADD]
        assert graph.nodes[start].op is not ADD or any(p.nodes and p.first == start for p in parts)
        kept = set(graph.params)
        for k, part in enumerate(parts):
            assert not any(runs_hooks(call.node) and call.number < part.after - 1 for call in part.calls)
            assert set(part.reads) <= kept
            kept |= set(part.outputs)
            later = {v for p in parts[k + 1 :] for v in p.reads}
            later |= {v for p in parts[k:] for c in p.calls for v in c.node.inputs()}
            later |= {v for r in graph.results for v in values_in(r)}
            assert {v for n in part.nodes for v in n.outputs} & later == set(part.outputs)
            for call in part.calls:
                assert set(call.node.inputs()) <= kept
                kept |= set(call.node.outputs)
            kept -= set(part.dead)
        assert kept == {v for r in graph.results for v in values_in(r)}


def test_what_is_read_again_after_a_call_belongs_to_the_call():
    b = Builder("renewed")
    x = b.param(VECTOR, "x")
    y = b.emit_raw(ADD, (x, x, 1), (VECTOR,)).output
    call = b.emit_raw(PYTHON_CALL, (0, (y,), (), ()), ())
    own = b.emit_raw(READ_AFTER, (y, 0, -1), (VECTOR,))
    memory = b.emit_raw(READ_AFTER, (x, 0, 0), (VECTOR,))
    last = b.emit_raw(ADD, (own.output, memory.output, 1), (VECTOR,))
    graph = b.graph([last.output])
    uses = uses_of(graph)
    first, second = parts_of(graph, uses)
    assert first.calls[0].node is call and first.calls[0].rereads == [own, memory] and second.nodes == [last]
    assert uses[x] == [0] and first.dead == [x, y]  # the memory is read again, what was there is not


def test_an_empty_graph_is_one_part():
    b = Builder("empty")
    x = b.param(VECTOR, "x")
    graph = b.graph([x])
    (part,) = parts_of(graph, uses_of(graph))
    assert not part.nodes and not part.calls and not part.dead
