"""The name of a program on disk: what was captured, for which machine, by which compiler."""

from __future__ import annotations

import functools
import hashlib
import os
from collections.abc import Iterator

from weft.codegen.compiler import object_key
from weft.codegen.target import Target

_HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
# Everything between a captured graph and its code.
_PACKAGES = ("types", "ops", "ir", "catalogue", "passes", "loops", "plan", "codegen", "runtime")


def program_key(text: str, target: Target) -> str:
    """Hex digest for the cache. text: canonical text of the captured graph, and of whatever else its
    program depends on."""
    return object_key(f"program\0{compiler_stamp()}\0{text}", target)


@functools.cache
def compiler_stamp() -> str:
    """Digest of the names, sizes and times of the compiler's own files: a program that another version
    made is never taken.

    It costs a few milliseconds, once for each process that uses stored programs.
    """
    digest = hashlib.blake2b(digest_size=16)
    for package in _PACKAGES:
        for entry in sorted(_sources(os.path.join(_HERE, package)), key=lambda e: e.path):
            status = entry.stat()
            digest.update(f"{entry.path[len(_HERE):]}|{status.st_size}|{status.st_mtime_ns}\n".encode())
    return digest.hexdigest()


@functools.cache
def compiler_digest() -> str:
    """Digest of the content of those files: the same on every machine that has this version."""
    digest = hashlib.blake2b(digest_size=16)
    for package in _PACKAGES:
        for entry in sorted(_sources(os.path.join(_HERE, package)), key=lambda e: e.path):
            with open(entry.path, "rb") as file:
                digest.update(f"{entry.path[len(_HERE):]}|".encode() + file.read())
    return digest.hexdigest()


def _sources(folder: str) -> Iterator[os.DirEntry[str]]:
    with os.scandir(folder) as listing:
        for entry in listing:
            if entry.is_dir() and entry.name != "__pycache__":
                yield from _sources(entry.path)
            elif entry.name.endswith(".py"):
                yield entry
