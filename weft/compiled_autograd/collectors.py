"""The code that takes down an operator's node for a structure (structure.py), written for each operator: a call that
was captured before is as long in there as in all else that it does."""

from __future__ import annotations

from collections.abc import Callable
from weakref import WeakKeyDictionary

from weft.autograd.accumulate import AccumulateGrad
from weft.autograd.node import Node, OpNode
from weft.autograd.saved import SavedTensor
from weft.autograd.views import CopySlices
from weft.compiled_autograd.forms import FLOAT, LEAF, SIZE, STRUCTURED, kind_of, slots_of
from weft.compiled_autograd.program_runs import identity_of
from weft.ops.backward import Plan
from weft.support.generated import FunctionWriter

# Adds the form of a node to a flat list, and what stands beside it to the lists of a structure.
Collector = Callable[..., None]
# By class. A string: the kind of a node that is no operator's, or STRUCTURED.
COLLECTORS: dict[type, Collector | str] = {}
_OF_USERS: WeakKeyDictionary[type, Collector | str] = WeakKeyDictionary()  # classes of custom Functions may go


def collector_of(node: Node) -> Collector | str:
    """What takes down nodes of a class that COLLECTORS does not have (yet)."""
    if not node.is_users:
        COLLECTORS[type(node)] = _collector_of(node)
        return COLLECTORS[type(node)]
    collect = _OF_USERS.get(type(node))
    if collect is None:
        collect = _OF_USERS[type(node)] = _collector_of(node)
    return collect


def _collector_of(node: Node) -> Collector | str:
    if isinstance(node, OpNode):
        return STRUCTURED if node.argument_counts is not node.plan.one_each else _collector(node.plan)
    if type(node) is AccumulateGrad:
        return LEAF
    return STRUCTURED if node.stands_for_many or type(node) is CopySlices else kind_of(node)


def _collector(plan: Plan) -> Collector:
    """For an operator each of whose arguments has one edge. `s` is the structure, `m` what flows into the node."""
    code = FunctionWriter(
        "collect", "collect(s, node, hooks, flat, sizes, places, nodes)", SavedTensor=SavedTensor,
        identity_of=identity_of,
    )
    form: list[str] = []
    count = len(plan.differentiable)
    code.lines += [
        "m = node.metadata_of_inputs[0]", "dims = m[0]", "sizes += dims",
        f"({''.join(f'e{i}, ' for i in range(count))}) = node.edges",
        "positions, tensors = s.positions, s.tensors", "values = node.saved_values",
        "if values is None: values = node.raw_values()",  # (which says that they were freed)
        f"({''.join(f'v{i}, ' for i in range(len(plan.slots)))}) = values",
    ]
    for i in range(count):
        code.lines += [
            f"if e{i} is None: p{i} = n{i} = None",
            "else:",
            f"    target, n{i} = e{i}",
            f"    p{i} = places.get(target)",
            f"    if p{i} is None:",
            f"        p{i} = places[target] = len(nodes)",
            "        nodes.append(target)",
        ]
        form += [f"p{i}", f"n{i}"]
    for i, (is_size, decides) in enumerate(slots_of(plan)):
        other = f"f{i} = s.form_of(v{i}, node, {is_size}, {code.name(decides)})"
        if is_size:
            code.lines += [
                f"if type(v{i}) is tuple and v{i} and type(v{i}[0]) is int:",
                f"    sizes += v{i}",
                f"    f{i} = ({SIZE!r},) * len(v{i})",
                f"else: {other}",
            ]
        else:
            code.lines += [
                f"if v{i} is None: f{i} = None",
                *([] if decides else [f"elif type(v{i}) is float: s.floats.append(v{i}); f{i} = {FLOAT!r}"]),
                f"elif type(v{i}) is SavedTensor and v{i}.unpack_hook is None:",
                f"    t = v{i}.unpack(node)",
                "    key = id(t._data) if t._autograd is None else identity_of(t)",
                f"    f{i} = positions.get(key)",
                f"    if f{i} is None:",
                f"        f{i} = positions[key] = len(tensors)",
                "        tensors.append(t)",
                f"        s.saved.append((v{i}, node))",
                f"else: {other}",
            ]
        form.append(f"f{i}")
    code.lines.append(
        f"flat += ({code.name(plan)}, len(dims), m[1], hooks, node.argument_counts, {''.join(f + ', ' for f in form)})"
    )
    return code.function()
