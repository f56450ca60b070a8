"""What an installation weighs, and how long `import weft` takes. Exits with 1 if a limit is passed.

    ./dev size            # or: python scripts/installed_size.py, in any environment that has weft

Sizes are of the files that pip put there, bytecode included, in units of 2**20 bytes as `du -m` counts them;
dependencies in any depth, without matplotlib.
Import time is that of the best of several fresh processes, above that of an interpreter that imports nothing.
"""

from __future__ import annotations

import argparse
import importlib.metadata as metadata
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

PACKAGE = Path(__file__).resolve().parent.parent / "weft"
MB = 2**20  # as `du -m` counts
LIMIT_ALL, LIMIT_OWN, LIMIT_IMPORT = 270 * MB, 5 * MB, 0.15  # bytes, bytes, seconds
TRIES = 7


def main(arguments: list[str]) -> int:
    argparse.ArgumentParser(prog="./dev size", description=(__doc__ or "").split("\n", 1)[0]).parse_args(arguments)
    sizes = {name: distribution_size(name) for name in sorted(dependencies("weft"))}
    seconds = import_seconds()  # first: it writes the bytecode that belongs to weft's own share
    own = sum(path.stat().st_size for path in PACKAGE.rglob("*") if path.is_file())
    for name, size in sorted(sizes.items(), key=lambda item: -item[1]):
        print(f"{name:20} {metadata.version(name):12} {size / MB:8.1f} MB")
    results = [
        ("dependencies and weft", sum(sizes.values()) + own, LIMIT_ALL, "MB", MB),
        ("weft itself", own, LIMIT_OWN, "MB", MB),
        ("import weft", seconds, LIMIT_IMPORT, "s", 1),
    ]
    print()
    for name, value, limit, unit, scale in results:
        verdict = "" if value <= limit else "  TOO MUCH"
        print(f"{name:24} {value / scale:8.2f} {unit:2}  of at most {limit / scale:g} {unit}{verdict}")
    return int(any(value > limit for _, value, limit, _, _ in results))


def dependencies(name: str) -> set[str]:
    """Every distribution that `name` needs here without its extras, in any depth."""
    found: set[str] = set()
    waiting = [name]
    while waiting:
        for needed in required(waiting.pop()):
            if needed not in found:
                found.add(needed)
                waiting.append(needed)
    return found


def required(name: str) -> Iterator[str]:
    for requirement in metadata.requires(name) or ():
        wanted, _, condition = requirement.partition(";")
        if "extra ==" in condition:
            continue
        found = re.match(r"[A-Za-z0-9._-]+", wanted)
        if found and is_installed(found[0]):  # one that is not installed is for another platform or Python
            yield found[0].lower().replace("_", "-")


def is_installed(name: str) -> bool:
    try:
        metadata.version(name)
    except metadata.PackageNotFoundError:
        return False
    return True


def distribution_size(name: str) -> int:
    files = metadata.files(name) or []
    paths = (Path(str(file.locate())) for file in files)
    return sum(path.stat().st_size for path in paths if path.is_file())


def import_seconds() -> float:
    """Seconds of `import weft`, best of TRIES fresh processes, less those of an empty program."""
    return best_seconds("import weft") - best_seconds("pass")


def best_seconds(code: str) -> float:
    # Bytecode is kept, as it is after an installation; the first run may have to write it.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}

    def run() -> float:
        start = time.perf_counter()
        subprocess.run([sys.executable, "-c", code], check=True, cwd=PACKAGE.parent, env=environment)
        return time.perf_counter() - start

    return min(run() for _ in range(TRIES))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
