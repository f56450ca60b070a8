"""Bytes in and out of paths and open files. A path is replaced in one step, or stays as it was."""

from __future__ import annotations

import os
from pathlib import Path
from typing import IO, Any, Union

from weft.support.errors import ArgumentError
from weft.support.whole_files import replace_file

Target = Union[str, "os.PathLike[str]", IO[bytes]]


def write(target: Target, content: bytes) -> None:
    """Write to a path (whole or not at all) or into a binary file. Raises OSError, ArgumentError."""
    if isinstance(target, (str, os.PathLike)):
        replace_file(Path(target), content)
        return
    if not hasattr(target, "write"):
        raise ArgumentError(f"save: expected a path or a binary file, got {type(target).__name__}")
    target.write(content)


def read(source: Any) -> bytearray:
    """All bytes of a path or a binary file, in memory that tensors may own. Raises OSError, ArgumentError."""
    if isinstance(source, (str, os.PathLike)):
        with open(source, "rb") as file:
            return _filled(file, os.fstat(file.fileno()).st_size)
    if isinstance(source, (bytes, bytearray, memoryview)):
        return bytearray(source)
    if not hasattr(source, "read"):
        raise ArgumentError(f"load: expected a path or a binary file, got {type(source).__name__}")
    return bytearray(source.read())


def _filled(file: Any, size: int) -> bytearray:
    content = bytearray(size)
    got = file.readinto(content)
    content[got:] = file.read()  # all the same if the file grew or shrank meanwhile
    return content
