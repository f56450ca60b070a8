"""The check of the commonest calls, written out: distinct row-major tensors that want no gradient, in memory
that nothing else shows.

`Entry.match` asks the same questions of any call, one function per question; small steps spend more time there than
in their kernels. What this check cannot answer with yes it leaves to that one, which also has the words for a miss.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence
from typing import Any

import numpy as np

from weft.programs.arguments import NO_HOOKS, TensorFacts
from weft.runtime.storage import root_of
from weft.support.generated import FunctionWriter
from weft.tensor.tensor import Tensor

Quick = Callable[[Sequence[Any]], "dict[str, int] | None"]
MOST = 16  # leaves; each is compared with each


def quick_match(
    facts: Sequence[Any], sizes: Sequence[tuple[int, Sequence[tuple[int, str]]]], outside: set[int],
    apart: Container[int] = (), written: Container[int] = (),
) -> Quick | None:
    """A function of the leaves: the sizes by symbol, or None for a call that must be looked at closely.
    None where no call is that simple.

    facts: what the program depends on about each leaf. sizes: (leaf, (axis, symbol) ...).
    outside: ids of the roots of the program's state, and of the tensors that it knows. apart: leaves that may share
    memory with each other, and with state that is not among what is `written`.
    """
    if len(facts) > MOST or not all(type(f) is TensorFacts and _is_simple(f) for f in facts):
        return None
    code = FunctionWriter(
        "quick match", "quick(leaves)", Tensor=Tensor, ndarray=np.ndarray, root_of=root_of, outside=outside,
        written=written, **{f"dtype{i}": fact.dtype for i, fact in enumerate(facts)},
    )
    for i, fact in enumerate(facts):
        code.lines += [
            f"t{i} = leaves[{i}]",
            f"if type(t{i}) is not Tensor or t{i}._autograd is not None: return None",
            f"d{i} = t{i}._data",
            f"if type(d{i}) is not ndarray or d{i}.dtype is not dtype{i} or d{i}.ndim != {fact.ndim} or not "
            f"d{i}.flags.c_contiguous: return None",
            f"r{i} = d{i} if d{i}.base is None else root_of(d{i})",
            "if id(r{0}) in {1} or id(t{0}) in {1}: return None".format(i, "written" if i in apart else "outside"),
        ]
    pairs = [
        "{0}{1} is {0}{2}".format("t" if i in apart and j in apart else "r", i, j)
        for i in range(len(facts)) for j in range(i)
    ]
    if pairs:
        code.lines.append(f"if {' or '.join(pairs)}: return None")
    named = [f"{name!r}: d{leaf}.shape[{axis}]" for leaf, axes in sizes for axis, name in axes]
    code.lines.append(f"return {{{', '.join(named)}}}")
    return code.function()


def _is_simple(fact: TensorFacts) -> bool:
    return (
        fact.kind is Tensor and not fact.requires_grad and fact.is_leaf and fact.permutation is None
        and fact.strided is None and not fact.expanded
        and fact.layout is None and fact.hooks == NO_HOOKS and not fact.given
    )
