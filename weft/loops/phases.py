"""Phases of a nest: how many passes it takes, what each needs, and which values are stashed by one for a later one."""

from __future__ import annotations

from weft.loops.nest import FULL, Instr, Nest, Ref, Store

KEEP_WEIGHT = 4  # a value used in a later phase is computed again if that takes no more than this


def settle_phases(nest: Nest) -> None:
    """Count the phases and mark values that a later phase loads instead of computing them again."""
    last = 0
    for instr in nest.instrs:
        if instr.kind == "reduce":
            last = max(last, instr.phase)
        elif instr.level == FULL or instr.kind == "column":
            last = max(last, instr.phase + 1)
    for store in nest.stores:
        if is_inner_store(nest, store):
            last = max(last, nest.instrs[store.index].phase + 1)
    nest.phases = last
    for phase in range(last - 1, 0, -1):
        for root in phase_roots(nest, phase):
            _keep(nest, root, phase)


def is_inner_store(nest: Nest, store: Store) -> bool:
    """Whether a store happens within the inner loops (a column's running result is kept there too, but is no store)."""
    count = len(nest.outer)
    kind = nest.instrs[store.index].kind
    return kind not in ("column", "total") and any(s != 0 for s in store.access.strides[count:])


def phase_roots(nest: Nest, phase: int) -> list[int]:
    """Instructions whose values one pass needs: sources of reductions, stores, values stashed for later."""
    roots = []
    for i, instr in enumerate(nest.instrs):
        if (instr.kind == "reduce" and instr.phase == phase + 1) or (instr.kind == "column" and instr.phase == phase):
            roots.append(instr.args[0].index)
        if instr.stashed and instr.phase == phase:
            roots.append(i)
    roots += [s.index for s in nest.stores if is_inner_store(nest, s) and nest.instrs[s.index].phase == phase]
    return roots


def operands(instr: Instr) -> list[int]:
    """Numbers of the instructions that an instruction reads."""
    indices = []
    for a in instr.args:
        if type(a) is Ref:
            indices.append(a.index)
        elif type(a) is tuple and type(a[0]) is Ref:
            indices.append(a[0].index)
    return indices


def _keep(nest: Nest, index: int, phase: int) -> None:
    instr = nest.instrs[index]
    if instr.level < FULL or (instr.stashed and instr.phase < phase):
        return
    if instr.phase < phase and _cone(nest, index, set()) > KEEP_WEIGHT:
        instr.stashed = True
        return
    for operand in operands(instr):
        _keep(nest, operand, phase)


def _cone(nest: Nest, index: int, seen: set[int]) -> int:
    """Weight of computing a value again from loads and row values."""
    if index in seen or nest.instrs[index].level < FULL:
        return 0
    seen.add(index)
    instr = nest.instrs[index]
    return (
        max(instr.weight, 1 if instr.kind == "load" else 0)
        + sum(_cone(nest, i, seen) for i in operands(instr) if not nest.instrs[i].stashed)
    )
