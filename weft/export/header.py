"""The header of an exported step: its functions, where things are in its state, and how they are called."""

from __future__ import annotations

import re
from collections.abc import Mapping

from weft.export.description import Array, Description

_C_TYPES = {
    "float32": "float", "float64": "double", "int64": "int64_t", "int32": "int32_t", "int16": "int16_t",
    "int8": "int8_t", "uint8": "uint8_t", "bool": "uint8_t", "float16": "uint16_t /* float16 */",
    "bfloat16": "uint16_t /* bfloat16 */", "complex64": "float _Complex", "complex128": "double _Complex",
}


def header(step: Description) -> str:
    """The text of the header."""
    name, upper = step.name, step.name.upper()
    lines = [
        f"/* {name}: one call of {step.function}, compiled by {step.made_by} for {step.target} ({step.cpu}). */",
        f"#ifndef {upper}_H", f"#define {upper}_H", "", "#include <stdint.h>", "", "#ifdef __cplusplus",
        'extern "C" {', "#endif", "",
        f"#define {upper}_STATE_BYTES {step.state_bytes}  /* {name}.state has them as they were when it was written */",
    ]
    if step.arena_most is not None:
        lines.append(f"#define {upper}_ARENA_BYTES_MOST {step.arena_most}  /* for all sizes that are allowed */")
    if step.has_pool:
        lines.append(f"#define {upper}_POOL_BYTES {step.pool_bytes}")
    lines += ["", "/* sizes[]: integers that are arguments */"]
    for i, size in enumerate(step.sizes):
        lines.append(f"#define {upper}_SIZE_{size.name} {i}  /* {size.of}, {size.least} to {size.most} */")
    lines += [f"#define {upper}_SIZES {len(step.sizes)}", "", "/* inputs[]: addresses of row-major arrays */"]
    names = {size.symbol: size.name for size in step.sizes}
    lines += [_array_line(f"{upper}_IN", i, a, names) for i, a in enumerate(step.inputs)]
    lines += [f"#define {upper}_INPUTS {len(step.inputs)}", "", "/* outputs[]: addresses of row-major arrays */"]
    lines += [_array_line(f"{upper}_OUT", i, a, names) for i, a in enumerate(step.outputs)]
    lines += [f"#define {upper}_OUTPUTS {len(step.outputs)}", "", "/* offsets in the state, in bytes */"]
    for tensor in step.tensors:
        dims = "".join(f"[{d}]" for d in tensor.dims)
        comment = f"{_C_TYPES[tensor.dtype]}{dims}: {tensor.name}"
        lines.append(f"#define {upper}_STATE_{_word(tensor.name)} {tensor.offset}  /* {comment} */")
    for number in step.numbers:
        kind = {"float": "double", "int": "int64_t", "flag": "uint8_t"}[number.kind]
        lines.append(f"#define {upper}_STATE_{_word(number.name)} {number.offset}  /* {kind}: {number.name} */")
    for place in step.random:
        for part, offset in (("seed", place.seed), ("key", place.key), ("offset", place.offset)):
            lines.append(f"#define {upper}_STATE_{_word(place.name)}_{part} {offset}  /* int64_t */")
    lines += ["", *_functions(step), "", "#ifdef __cplusplus", "}", "#endif", "", "#endif", ""]
    return "\n".join(lines)


def _array_line(prefix: str, index: int, array: Array, names: Mapping[str, str]) -> str:
    dims = "".join(f"[{re.sub(r'[si][0-9]+', lambda m: names.get(m[0], m[0]), str(d))}]" for d in array.dims)
    written = ", written in place" if array.written else ""
    return f"#define {prefix}_{_word(array.name)} {index}  /* {_C_TYPES[array.dtype]}{dims}: {array.name}{written} */"


def _functions(step: Description) -> list[str]:
    name, upper = step.name, step.name.upper()
    lines = [
        "/* One step. state: at a multiple of 64. arena: memory that is used during the call alone. sizes: may be 0",
        "   where there are none. pool: one that was started, or 0 for this thread alone; the results are the same.",
        "   Returns 0; below 0 where it refuses the sizes, above 0 where an operator fails: the state is as it was. */",
        f"int64_t {name}_step(void *state, const void *const *inputs, void *const *outputs, const int64_t *sizes,",
        f"    {' ' * len(name)}          void *arena, void *pool);", "",
        "/* Bytes of the arena for these sizes; below 0 where they are refused. */",
        f"int64_t {name}_arena_bytes(const int64_t *sizes);", "",
        "/* What a status says. */",
        f"const char *{name}_text(int64_t status);",
    ]
    if step.has_pool:
        lines += [
            "", f"/* Start the threads of a pool in {upper}_POOL_BYTES of memory, the caller counted as one; returns",
            "   how many there are. End them before the memory goes. */",
            f"int64_t {name}_pool_start(void *pool, int64_t threads);", f"void {name}_pool_stop(void *pool);",
        ]
    return lines


def _word(name: str) -> str:
    return re.sub(r"\W+", "_", name, flags=re.ASCII).strip("_")
