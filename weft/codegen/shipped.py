"""Object code that comes with weft: the shared modules (shared_code.py), compiled for the kinds of processor that most
Linux machines are.

An object is taken where it is what this machine would compile: the same text for the same vectors, by the same release
of LLVM, with instructions that the processor has. Its code then gives the same bits. scripts/make_objects.py writes the
files; where none fits, the module is compiled as it always was.
"""

from __future__ import annotations

import functools
import json
import zlib
from pathlib import Path

from weft.codegen.compiler import code_stamp, llvm_version
from weft.codegen.shared_code import SharedCode
from weft.codegen.target import Target, aarch64_target, x86_target

FOLDER = Path(__file__).parent / "objects"
INDEX = "index.json"  # {"llvm": what compiled them, "objects": {file name: its stamp}}

_V3 = (
    "avx", "avx2", "bmi", "bmi2", "cx16", "f16c", "fma", "lzcnt", "movbe", "popcnt", "sahf", "sse3", "sse4.1", "sse4.2",
    "ssse3", "xsave",
)  # fmt: skip
_V4 = (*_V3, "avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl")
# kind of processor: what its objects are compiled for, and what a processor must have to run them
KINDS: dict[str, tuple[Target, tuple[str, ...]]] = {
    "x86-64-v4": (x86_target("x86-64-v4"), _V4),
    "x86-64-v3": (x86_target("x86-64-v3"), _V3),
    "aarch64": (aarch64_target(), ()),
}


def kind_of(target: Target) -> str | None:
    """The kind of processor whose objects do on `target` what code compiled for it would do, or None."""
    if "linux" not in target.triple:
        return None
    has = set(target.features.split(","))
    for name, (kind, needed) in KINDS.items():
        is_able = target.cpu == kind.cpu or all(f"+{feature}" in has for feature in needed)
        if is_able and (target.arch, *_vectors(target)) == (kind.arch, *_vectors(kind)):
            return name
    return None


def _vectors(target: Target) -> tuple[int, int, bool]:
    """What the text of shared modules hangs on."""
    return target.vector_bytes, target.vector_registers, target.has_fma


def shipped_object(code: SharedCode, target: Target) -> bytes | None:
    """The object code of a shared module that came with weft and is up to date; None where `target` has none."""
    kind = kind_of(target)
    if kind is None:
        return None
    name = file_name(code, kind)
    try:
        if _index().get(name) == stamp(code, kind):
            return zlib.decompress((FOLDER / name).read_bytes())
    except (OSError, zlib.error):  # installed without its data, or without its sources
        pass
    return None


def file_name(code: SharedCode, kind: str) -> str:
    """Name of the file of a shared module for a kind of processor."""
    return f"{code.name}.{kind}.o.z"


def stamp(code: SharedCode, kind: str) -> str:
    """Digest of what the object code hangs on: the text, the target, LLVM's release."""
    target, _ = KINDS[kind]
    return code_stamp(code.content(target), target, ".".join(llvm_version().split(".")[:2]))


@functools.cache
def _index() -> dict[str, str]:
    objects: dict[str, str] = json.loads((FOLDER / INDEX).read_text(encoding="utf-8"))["objects"]
    return objects
