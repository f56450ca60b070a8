"""Kernels as text: the readable loops and the LLVM code of what a graph is lowered to,
for `stages()` and for reading."""

from __future__ import annotations

from weft.codegen.emit import Module
from weft.codegen.lower.graph import lower_graph
from weft.codegen.program.layout import native_layout
from weft.codegen.target import Target, host_target
from weft.ir.graph import Graph
from weft.loops.kernel import BlockStep, KernelCall, LoweredGraph


class Texts(dict[str, str]):
    """Texts by the name of a function; prints all of them."""

    def __str__(self) -> str:
        return "\n\n".join(self.values())


def kernel_stages(graph: Graph, target: Target | None = None) -> dict[str, Texts]:
    """What becomes of an optimized graph: `nests` has the loops of each kernel, `llvm` each function of the program
    as LLVM gets it.

    target: the machine to generate for, which need not be this one; default the one of WEFT_CPU.
    """
    target = target or host_target()
    module = Module.for_target(target)
    lowered = lower_graph(graph, module, target, with_text=True)
    native_layout(lowered, module)
    return {"nests": _nests(lowered, Texts()), "llvm": Texts({name: f.text() for name, f in module.functions.items()})}


def _nests(lowered: LoweredGraph, texts: Texts) -> Texts:
    for step in lowered.steps:
        if isinstance(step, KernelCall) and step.text:
            texts.setdefault(step.function, step.text)
        elif isinstance(step, BlockStep):
            for block in step.blocks:
                _nests(block, texts)
    return texts
