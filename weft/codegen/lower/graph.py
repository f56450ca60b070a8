"""A graph as kernels: group, build nests, emit each distinct nest once. `lower_graph` is the compiler's way from nodes to calls."""

from __future__ import annotations

from weft.codegen.emit import Module
from weft.codegen.lower.accumulate import lower_embedding_backward, lower_index_add, lower_index_copy
from weft.codegen.lower.lowering import GENERAL, LOWERINGS, Lowering
from weft.codegen.lower.move import lower_cat, lower_copy, lower_flip, lower_pad, lower_roll, lower_scatter, lower_shift
from weft.codegen.lower.pick import lower_checked, lower_embedding, lower_gather, lower_index, lower_index_select
from weft.codegen.lower.product import lower_product
from weft.codegen.lower.scan import lower_scan
from weft.codegen.target import Target
from weft.ir.graph import Graph
from weft.loops.kernel import LoweredGraph


def lower_graph(graph: Graph, module: Module, target: Target, with_text: bool = False) -> LoweredGraph:
    """Lower a graph; functions are written to `module`. `with_text` keeps each kernel's readable loops."""
    return Lowering(graph, module, target, with_text).block(graph.block)


LOWERINGS.update({
    "aten::mm": lower_product,
    "aten::bmm": lower_product,
    "aten::cat": lower_cat,
    "aten::constant_pad_nd": lower_pad,
    "aten::flip": lower_flip,
    "aten::roll": lower_roll,
    "aten::embedding": lower_embedding,
    "aten::index_select": lower_index_select,
    "aten::gather": lower_gather,
    "aten::index.Tensor": lower_index,
    "aten::checked_index": lower_checked,
    "aten::embedding_dense_backward": lower_embedding_backward,
    "aten::index_add": lower_index_add,
    "aten::index_copy": lower_index_copy,
    "aten::cumsum": lower_scan,
    "aten::cumprod": lower_scan,
    "aten::_exclusive_cumprod": lower_scan,
    "aten::_linear_scan": lower_scan,
    "aten::_shift": lower_shift,
})
GENERAL[:] = [lower_copy, lower_scatter]
