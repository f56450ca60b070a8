"""Compile the native code that every program shares for the kinds of processor that most machines are, into
weft/codegen/objects.

    python scripts/make_objects.py           # write what differs
    python scripts/make_objects.py --check   # exit with 1 if anything differs

Any machine makes the same files, for every kind of processor. weft/codegen/shipped.py takes them.
"""

from __future__ import annotations

import json
import sys
import zlib
from collections.abc import Iterator

from weft.codegen.compiler import compile_object, llvm_version
from weft.codegen.shared_code import SHARED_CODE
from weft.codegen.shipped import FOLDER, INDEX, KINDS, file_name, stamp


def main(arguments: list[str]) -> int:
    files = dict(contents())
    stale = [name for name, data in files.items() if read(name) != data]
    gone = [path.name for path in FOLDER.glob("*") if path.name not in files]
    if "--check" not in arguments:
        FOLDER.mkdir(exist_ok=True)
        for name in stale:
            (FOLDER / name).write_bytes(files[name])
        for name in gone:
            (FOLDER / name).unlink()
    for name in (*stale, *gone):
        print(f"{name}: {len(files.get(name, b'')):,} bytes")
    return 1 if "--check" in arguments and (stale or gone) else 0


def contents() -> Iterator[tuple[str, bytes]]:
    """(name, content) of every file."""
    stamps = {}
    for kind, (target, _) in KINDS.items():
        for code in SHARED_CODE:
            name = file_name(code, kind)
            stamps[name] = stamp(code, kind)
            made = compile_object(code.text(target), target)
            before = read(name)
            # another release of zlib packs the same object another way
            is_same = before is not None and zlib.decompress(before) == made
            yield name, before if is_same and before is not None else zlib.compress(made, 9)
    index = {"llvm": llvm_version(), "objects": stamps}
    yield INDEX, (json.dumps(index, indent=1) + "\n").encode()


def read(name: str) -> bytes | None:
    """The content of a file that is there."""
    path = FOLDER / name
    return path.read_bytes() if path.exists() else None


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
