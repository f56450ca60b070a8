"""Inline caches of backward calls: the graph that came behind a state of the trace the last time, node by node, and
what was saved; its gradients are one entry, and leaves take them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

from weft.autograd.accumulate import AccumulateGrad, is_row_major, taking
from weft.autograd.node import Edge
from weft.autograd.saved import SavedTensor
from weft.lazy.device import LazyDevice
from weft.lazy.inline.arguments import constant
from weft.lazy.inline.writer import Unfit, Writer
from weft.lazy.recording import FreshResult, Replay
from weft.lazy.states import Point
from weft.lazy.trace import ENOUGH
from weft.ops import overrides
from weft.tensor.tensor import Tensor


def learn_graph(
    device: LazyDevice, at: Point, roots: Sequence[Edge], seeds: Sequence[Tensor],
    nodes: Sequence[Any], replay: Replay,
) -> Callable[..., Any]:
    """The cache of a backward call that has just appended entries to the trace, and has given no gradients to leaves
    yet. at: where that stood before; nodes: those of operators, the latest first, then leaves. Raises Unfit.
    """
    return _Backward(device, at, roots, seeds, nodes, replay).function()


class _Backward:
    def __init__(
        self, device: LazyDevice, at: Point, roots: Sequence[Edge],
        seeds: Sequence[Tensor], nodes: Sequence[Any], replay: Replay,
    ) -> None:
        if at.entries >= ENOUGH or device.trace.nodes[-1].op is not replay.calls:
            raise Unfit
        self.code = Writer("inline(roots, seeds, keep)", device, at)
        self.roots, self.seeds, self.nodes, self.found = roots, seeds, nodes, replay
        self.places = {id(node): place for place, node in enumerate(nodes)}
        self.bound: set[int] = set()
        self.payloads: list[tuple[Any, str]] = []  # of operands, and where they are found

    def function(self) -> Callable[..., bool]:
        """The cache."""
        code = self.code
        code.missed_if("local.grad or local.special is not None or local.capture is not None")
        code.missed_if(f"{code.name(overrides)}.override_classes")
        code.begin(code.name(taking))
        self._roots()
        for place, node in enumerate(self.nodes):
            if type(node) is AccumulateGrad:
                self._leaf(place, node)
            else:
                self._node(place, node)
        for later, earlier in pairwise(self._operators()):
            code.missed_if(f"n{later}.sequence <= n{earlier}.sequence")
        for j, (payload, holder) in enumerate(self.payloads):
            code.operand(j, payload, holder, j in self.found.calls.used)
        code.adds_views_and_one()
        code.append()
        self._give()
        code.add("return True")
        return code.function()

    def _operators(self) -> list[int]:
        return [place for place, node in enumerate(self.nodes) if type(node) is not AccumulateGrad]

    # ---- what is asked
    def _roots(self) -> None:
        code = self.code
        code.missed_if(f"len(roots) != {len(self.roots)}")
        for i, (node, index) in enumerate(self.roots):
            code.missed_if(f"roots[{i}][1] != {index}")
            self._bind(node, f"roots[{i}][0]")
        for i, seed in enumerate(self.seeds):
            code.missed_if(f"type(seeds[{i}]) is not {code.name(type(seed))}")
            self.payloads.append((seed._data, f"seeds[{i}]._data"))

    def _bind(self, node: Any, expression: str) -> None:
        place = self.places[id(node)]
        if place in self.bound:
            self.code.missed_if(f"{expression} is not n{place}")
        else:
            self.bound.add(place)
            self.code.add(f"n{place} = {expression}")

    def _node(self, place: int, node: Any) -> None:
        code, n = self.code, f"n{place}"
        if place not in self.bound:
            raise Unfit
        code.missed_if(f"type({n}) is not {code.name(type(node))} or {n}.hook_tables is not None")
        counts, metadata = code.name(node.argument_counts), code.name(node.metadata_of_inputs)
        code.missed_if(f"{n}.argument_counts != {counts} or {n}.metadata_of_inputs != {metadata}")
        code.add(f"saved, edges = {n}.saved_values, {n}.edges")
        code.missed_if(f"saved is None or len(saved) != {len(node.saved_values)} or len(edges) != {len(node.edges)}")
        for i, edge in enumerate(node.edges):
            if edge is None:
                code.missed_if(f"edges[{i}] is not None")
                continue
            code.add(f"edge = edges[{i}]")
            code.missed_if(f"edge is None or edge[1] != {edge[1]}")
            self._bind(edge[0], "edge[0]")
        for i, saved in enumerate(node.saved_values):
            self._saved(f"saved[{i}]", saved)

    def _saved(self, x: str, saved: Any) -> None:
        code = self.code
        if type(saved) is SavedTensor:
            self._saved_tensor(x, saved)
        elif type(saved) is tuple and any([type(s) is not int for s in saved]):
            code.missed_if(f"type({x}) is not tuple or len({x}) != {len(saved)}")
            for i, s in enumerate(saved):
                self._saved(f"{x}[{i}]", s)
        else:
            constant(code, x, saved)

    def _saved_tensor(self, x: str, saved: SavedTensor) -> None:
        """What SavedTensor.shown() gives."""
        code, j = self.code, len(self.payloads)
        if saved.unpack_hook is not None:
            raise Unfit
        code.add(f"p = {x}")
        code.missed_if(f"type(p) is not {code.name(SavedTensor)} or p.unpack_hook is not None")
        if saved.leaf is not None:
            code.add(f"a{j} = p.leaf")
            code.missed_if(f"type(a{j}) is not {code.name(type(saved.leaf))} or a{j}._storage is None")
            code.missed_if(f"a{j}._storage.version != p.version")
            self.payloads.append((saved.leaf._data, f"a{j}._data"))
            return
        code.missed_if("p.leaf is not None or p.storage is None or p.storage.version != p.version")
        code.add(f"q{j}, o = p.payload, p.origin")
        code.missed_if(
            f"o is not None and (o._autograd is None or o._autograd.node is None or o._data is not q{j})"
        )
        self.payloads.append((saved.payload, f"q{j}"))

    def _leaf(self, place: int, leaf: AccumulateGrad) -> None:
        """One without a gradient, which it takes as it comes."""
        code, n, variable = self.code, f"n{place}", leaf.variable
        state = None if variable is None else variable._autograd
        if state is None or state.grad is not None or not state.requires_grad or not is_row_major(variable):
            raise Unfit
        code.missed_if(f"type({n}) is not {code.name(AccumulateGrad)} or {n}.hook_tables is not None")
        code.missed_if(f"{n}.metadata_of_inputs != {code.name(leaf.metadata_of_inputs)}")
        code.add(f"x = {n}._variable()")
        code.missed_if(f"type(x) is not {code.name(type(variable))}")
        code.add(f"h{place} = x._autograd", "d = x._data")
        code.missed_if(f"h{place} is None or not h{place}.requires_grad or h{place}.grad is not None")
        code.missed_if(
            f"h{place}.post_accumulate or type(d) is not LazyPayload or d.path or d.permuted is not False"
        )

    # ---- what is done
    def _give(self) -> None:
        """The gradients as tensors, each of one leaf; what was saved goes."""
        code, kinds = self.code, self.found.calls.types
        leaves = range(len(self._operators()), len(self.nodes))
        if type(self.found.outputs) is not tuple or len(self.found.outputs) != len(leaves):
            raise Unfit
        for place, output in zip(leaves, self.found.outputs, strict=True):
            if output is None:
                continue
            if type(output) is not FreshResult or output.path or output.turn < 0:
                raise Unfit
            code.value("r", kinds[output.turn], output.turn)
            code.tensor(place, "r", kinds[output.turn], output.order)
            code.add(f"h{place}.grad, h{place}.owns_grad = t{place}, True")
        kept = [place for place in self._operators() if self.nodes[place].saves]
        if kept:
            code.add("if not keep: " + " = ".join(f"n{place}.saved_values" for place in kept) + " = None")
