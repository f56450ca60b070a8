"""The check of the commonest calls, written out: distinct row-major tensors that are leaves, in memory that nothing
else shows, and numbers.

`CallGuards.match` asks the same questions of any call, one function per question; small steps spend more time there
than in their kernels. What this check cannot answer with yes it leaves to that one, which also has the words for a
miss.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any

import numpy as np

from weft.autograd.hooks import NO_HOOKS
from weft.guards.values import same
from weft.programs.arguments import TensorFacts
from weft.runtime.storage import root_of
from weft.support.generated import FunctionWriter
from weft.types import dtype as dt

Quick = Callable[[Sequence[Any]], "dict[str, Any] | None"]
MOST = 400  # leaves; each is a few lines of the function
_CONSTANTS = (type(None), bool, int, float, str)


def quick_match(
    facts: Sequence[Any], constants: Sequence[Any], sizes: Sequence[tuple[int, Sequence[tuple[int, str]]]],
    outside: Collection[int], shareable: Collection[int] = (), written: Collection[int] = (),
    numbers: Sequence[tuple[str, int]] = (),
) -> Quick | None:
    """A function of the leaves: the sizes and numbers by symbol, or None for a call that must be looked at closely.
    None where no call is that simple.

    facts: what the program depends on about each leaf; None for one that is constant. sizes: (leaf, (axis, symbol)
    ...). numbers: (symbol, leaf). outside: ids of the roots of the program's state, and of the tensors that it knows.
    shareable: leaves that may share memory with each other, and with state that is not among what is `written`.
    """
    tensors = [i for i, fact in enumerate(facts) if type(fact) is TensorFacts]
    others = [i for i, fact in enumerate(facts) if type(fact) is not TensorFacts]
    if (
        len(facts) > MOST or not all([_is_simple(facts[i]) for i in tensors])
        or not all([facts[i] is not None or type(constants[i]) in _CONSTANTS for i in others])
    ):
        return None
    code = FunctionWriter(
        "quick match", "quick(leaves)", ndarray=np.ndarray, root_of=root_of, outside=outside, written=written,
        same=same, dtypes=(dt.DType,),
    )
    code.lines += [_other(code, i, facts[i], constants[i]) for i in others]
    for i in tensors:
        code.lines += _tensor(code, i, facts[i])
    code.lines += _sharing([i for i in tensors if i not in shareable], [i for i in tensors if i in shareable])
    named = [f"{name!r}: d{leaf}.shape[{axis}]" for leaf, axes in sizes for axis, name in axes]
    named += [f"{name!r}: leaves[{leaf}]" for name, leaf in numbers]
    code.lines.append(f"return {{{', '.join(named)}}}")
    return code.function()


def _is_simple(fact: TensorFacts) -> bool:
    return (
        fact.is_leaf and fact.permutation is None and fact.strided is None and not fact.expanded
        and fact.layout is None and fact.hooks == NO_HOOKS and not fact.given
    )


def _other(code: FunctionWriter, i: int, fact: Any, constant: Any) -> str:
    """What a leaf is asked that is no tensor."""
    if fact is not None:
        return f"if type(leaves[{i}]) is not {code.name(fact)}: return None"
    name = code.name(constant)
    return f"if leaves[{i}] is not {name} and not same(leaves[{i}], {name}, dtypes): return None"


def _tensor(code: FunctionWriter, i: int, fact: TensorFacts) -> list[str]:
    """What a tensor is asked by itself. A view of what was written may want a gradient that it did not want before."""
    wants = [
        f"a = t{i}._autograd",
        "if a is None or not a.requires_grad or a.node is not None or a.hooks or a.post_accumulate or "
        f"t{i}._view is not None: return None",
        "if (n := a.accumulate) is not None and (n.pre_hooks or n.post_hooks): return None",
    ]
    plain = [f"if t{i}._autograd is not None or (t{i}._view is not None and t{i}.requires_grad): return None"]
    return [
        f"t{i} = leaves[{i}]",
        f"if type(t{i}) is not {code.name(fact.kind)}: return None",
        *(wants if fact.requires_grad else plain),
        f"d{i} = t{i}._data",
        f"if type(d{i}) is not ndarray or d{i}.dtype is not {code.name(fact.dtype)} or d{i}.ndim != {fact.ndim} or not "
        f"d{i}.flags.c_contiguous: return None",
        f"r{i} = id(d{i} if d{i}.base is None else root_of(d{i}))",
    ]


def _sharing(alone: Sequence[int], shareable: Sequence[int]) -> list[str]:
    """All tensors are different ones, and none shows memory that the program does not expect it to show."""
    lines = []
    if alone:
        lines += [
            f"roots = {_set('r{}', alone)}",
            f"if len(roots) != {len(alone)} or not outside.isdisjoint(roots) or "
            f"not outside.isdisjoint({_set('id(t{})', alone)}): return None",
        ]
    if shareable:
        lines += [
            f"own, shown = {_set('id(t{})', shareable)}, {_set('r{}', shareable)}",
            f"if len(own) != {len(shareable)} or not written.isdisjoint(own) or "
            "not written.isdisjoint(shown): return None",
        ]
    if alone and shareable:
        lines.append("if not roots.isdisjoint(shown): return None")
    return lines


def _set(form: str, leaves: Sequence[int]) -> str:
    return f"{{{', '.join([form.format(i) for i in leaves])}}}"
