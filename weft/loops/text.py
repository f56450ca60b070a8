"""A nest as readable loops, for explain and for debugging."""

from __future__ import annotations

from typing import Any

from weft.loops.nest import FULL, ROW, Access, Instr, Nest, Ref


def nest_text(nest: Nest, name: str = "kernel") -> str:
    """The loops of a nest, one instruction a line."""
    lines = [
        f"{name}({', '.join(map(_buffer_text, nest.reads))}) -> {', '.join(map(_buffer_text, nest.writes))}  "
        f"# {nest.form}"
    ]
    lines += [f"  {line}" for line in _level_lines(nest, 0, None)]
    for k, size in enumerate(nest.outer):
        how = " parallel" if k == 0 else ""
        lines.append("  " * (k + 1) + f"for i{k} in 0..{size}{how}:")
    pad = "  " * (len(nest.outer) + 1)
    for phase in range(nest.phases + 1):
        lines += [pad + line for line in _level_lines(nest, ROW, phase)]
        body = _level_lines(nest, FULL, phase)
        if phase < nest.phases:
            lines.append(
                pad
                + f"for {', '.join(f'j{k} in 0..{d}' for k, d in enumerate(nest.inner)) or 'once'}:  # phase {phase}"
            )
            lines += [pad + "  " + line for line in body]
    for store in nest.stores:
        lines.append(pad + f"{_access_text(nest, store.access)} = %{store.index}")
    return "\n".join(lines)


def _buffer_text(value: Any) -> str:
    return f"{value.name or '_'}: {value.type}"


def _level_lines(nest: Nest, level: int, phase: int | None) -> list[str]:
    return [
        f"%{i} = {_instr_text(nest, x)}"
        for i, x in enumerate(nest.instrs) if x.level == level and (phase is None or x.phase == phase)
    ]


def _instr_text(nest: Nest, instr: Instr) -> str:
    stashed = "  # stashed" if instr.stashed else ""
    if instr.kind in ("load", "index"):
        return f"{instr.kind} {_access_text(nest, nest.accesses[instr.what])}"
    if instr.kind in ("offset", "gather"):
        where = ", ".join(f"%{a.index}*{s}" for a, s in zip(instr.args, instr.what.strides, strict=False))
        return f"{instr.kind} {_access_text(nest, nest.accesses[instr.what.access])} at {where}"
    args = ", ".join(_argument_text(a) for a in instr.args)
    what = instr.what.name if instr.kind == "apply" else instr.what
    if instr.kind == "apply":
        return f"{what}({args}): {instr.dtype.short}{stashed}"
    return f"{instr.kind} {what if what is not None else ''}({args}): {instr.dtype.short}{stashed}"


def _argument_text(argument: Any) -> str:
    if type(argument) is Ref:
        return f"%{argument.index}"
    if type(argument) is tuple:
        return f"%{argument[0].index}" if type(argument[0]) is Ref else str(argument[1])
    return str(argument)


def _access_text(nest: Nest, access: Access) -> str:
    buffers = [*nest.reads, *nest.writes]
    name = "range" if access.buffer == -1 else "scratch" if access.buffer < 0 else f"b{access.buffer}"
    if 0 <= access.buffer < len(buffers) and buffers[access.buffer].name:
        name = buffers[access.buffer].name
    axes = [f"i{k}" for k in range(len(nest.outer))] + [f"j{k}" for k in range(len(nest.inner))]
    terms = [f"{a}*{s}" if s != 1 else a for a, s in zip(axes, access.strides, strict=False) if s != 0]
    if access.offset != 0 or not terms:
        terms.append(str(access.offset))
    return f"{name}[{' + '.join(terms)}]"
