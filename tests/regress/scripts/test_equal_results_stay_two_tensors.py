"""Two equal results of a program stay two tensors where common subexpressions are merged, also when a third equal value
stands before them: a caller that writes one of them must not see the other change.
"""

from __future__ import annotations

import weft
import weft.jit
from weft import Tensor
from weft.passes.scripted.cse import eliminate_common_subexpressions


def tripled(x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    a = x * 2
    b = x * 2
    c = x * 2
    return b, c, a.sum()


def test_a_write_to_one_result_leaves_the_other() -> None:
    forward = weft.jit.create_function_from_graph("f", weft.jit.differentiate(weft.jit.script(tripled).graph).f)
    first, second = forward(weft.ones(3))[:2]
    first.add_(1)
    assert (first.tolist(), second.tolist()) == ([3.0] * 3, [2.0] * 3)


def test_one_of_three_computations_goes() -> None:
    graph = eliminate_common_subexpressions(weft.jit.script(tripled).graph.ir)
    assert [node.op.base for node in graph.nodes].count("mul") == 2
