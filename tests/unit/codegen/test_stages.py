"""stages() of a compiled function: graphs, then the loops and the LLVM text of each kernel,
all under one set of names."""

from __future__ import annotations

import numpy as np
import pytest

import weft
from weft.codegen.compiler import compile_object
from weft.codegen.emit import Module
from weft.codegen.lower.graph import lower_graph
from weft.codegen.program.layout import native_layout
from weft.codegen.stages import kernel_stages
from weft.codegen.target import aarch64_target, x86_target
from weft.ir.graph import Graph


def softmax_twice(x):
    return (x.softmax(-1) * 2).softmax(-1)


def test_kernels_are_stages(rng: np.random.Generator) -> None:
    x = weft.from_numpy(rng.normal(size=tuple(rng.integers(2, 9, size=2))))
    compiled = weft.compile(softmax_twice, backend="llvm")
    compiled(x)
    stages = compiled.stages(x)
    assert [name for name, stage in stages.items() if isinstance(stage, Graph)] == ["captured", "opened", "optimized"]
    assert stages["nests"] and set(stages["nests"]) <= set(stages["llvm"])
    for name, text in stages["nests"].items():
        assert text.startswith(f"{name}(") and f"@{name}(" in stages["llvm"][name].split("\n")[0]
    assert str(stages["nests"]).count("reduce max") == sum(t.count("reduce max") for t in stages["nests"].values())


def test_the_numpy_back_end_has_no_kernels() -> None:
    x = weft.ones(2, 3)
    assert not {"nests", "llvm"} & set(weft.compile(softmax_twice, backend="numpy").stages(x))


@pytest.mark.parametrize(
    "target", [x86_target("x86-64"), x86_target("x86-64-v3"), aarch64_target()],
    ids=lambda t: f"{t.arch}-{t.vector_bytes}",
)
def test_the_text_is_what_is_compiled_for_any_machine(target) -> None:
    graph = weft.compile(softmax_twice).stages(weft.ones(2, 3))["optimized"]
    module = Module.for_target(target)
    native_layout(lower_graph(graph, module, target), module)
    text = module.text()
    assert all(function in text for function in kernel_stages(graph, target)["llvm"].values())
    assert compile_object(text, target)
