"""The floor table of the design, enforced: a module imports only from lower floors or its own package,
imports inside of functions included."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from tests.imports import imports_of, tree_of

ROOT = Path(__file__).parent.parent / "weft"
FLOORS = {
    "support": (0, ""), "types": (1, ""), "guards": (1, ""), "ops": (2, "left"), "runtime": (2, "right"), "ir": (3, ""),
    "catalogue": (4, ""), "passes": (5, "right"), "tensor": (6, "left"), "loops": (6, "right"),
    "functionalizer": (7, "left"), "layers": (8, "left"), "autograd": (8, "left"), "plan": (7, "right"),
    "codegen": (8, "right"), "record": (9, ""), "programs": (10, ""), "compile": (11, ""),
}
TOP = (12, "")
# The programming model keeps its bytes in runtime storage and eager operators run ops' kernels:
# runtime serves both columns.
SHARED = {"runtime", "ops"}
# Packages of one floor and one column that are one body: the layers call autograd and autograd records
# what the layers do.
TOGETHER = ({"layers", "autograd"},)
# What a folder may hold: as many modules as its __init__ can introduce on one screen.
# A folder over the limit is named with its count, which may only fall.
MODULES_OF_A_FOLDER = 30
OVER: dict[str, int] = {}


def imported(path: Path) -> Iterator[tuple[int, str]]:
    """(line, package below weft) of every import of a file."""
    for node in imports_of(path):
        names = [a.name for a in node.names]
        if isinstance(node, ast.ImportFrom):
            assert node.level < 2, f"{path}:{node.lineno}: a relative import that leaves the package"
            if node.level:
                continue
            names = [f"{node.module}.{a.name}" if node.module == "weft" else str(node.module) for a in node.names]
        yield from ((node.lineno, n.split(".")[1] if "." in n else "") for n in names if n.split(".")[0] == "weft")


def allowed(user: str, used: str) -> bool:
    """Whether package `user` may import package `used`."""
    if user == used or any({user, used} <= group for group in TOGETHER):
        return True
    (high, mine), (low, theirs) = FLOORS.get(user, TOP), FLOORS.get(used, TOP)
    if high == low == TOP[0]:
        return True
    return low < high and (used in SHARED or not mine or not theirs or mine == theirs)


def test_every_import_leads_down() -> None:
    found = []
    for path in sorted(ROOT.rglob("*.py")):
        parts = path.relative_to(ROOT).parts
        if len(parts) == 1:
            continue  # the front door imports everything
        found += [
            f"{path.relative_to(ROOT.parent)}:{line}: {parts[0]} imports {used or 'weft'}"
            for line, used in imported(path) if not allowed(parts[0], used)
        ]
    assert not found, "\n".join(found)


def test_the_table_covers_every_package() -> None:
    top = {"nn", "optim", "func", "jit", "compiled_autograd", "lazy", "onnx", "interop", "utils", "cli", "library",
           "ao", "amp", "batching", "debug", "profiler", "explanations", "distributions", "distributed", "torch",
           "array_api", "sparse", "signal",
           "export"}
    packages = {p.parent.name for p in ROOT.glob("*/__init__.py")}
    assert packages <= set(FLOORS) | top, packages - set(FLOORS) - top


def test_no_folder_holds_more_than_its_introduction_can_name() -> None:
    folders = {str(p.parent.relative_to(ROOT)): len(list(p.parent.glob("*.py"))) - 1 for p in ROOT.rglob("__init__.py")}
    too_many = {name: count for name, count in folders.items() if count > OVER.get(name, MODULES_OF_A_FOLDER)}
    assert not too_many, f"more than {MODULES_OF_A_FOLDER} modules, make packages by subject: {too_many}"
    assert all(folders.get(name, 0) > MODULES_OF_A_FOLDER for name in OVER), (
        "a folder is below the limit now: take it off OVER"
    )


def test_packages_say_their_own_floors_and_what_they_import() -> None:
    wrong = []
    for path in sorted(ROOT.glob("*/__init__.py")):
        package, doc = path.parent.name, ast.get_docstring(tree_of(path)) or ""
        text = " ".join(doc.split())
        floor = re.match(r"Floor (\d+)", text)
        if floor and int(floor[1]) != FLOORS.get(package, TOP)[0]:
            wrong.append(f"{package} says {floor[0]}")
        only = re.search(r"Imports only ([a-z/, ]+)\.", text)
        if only:
            said = set(re.findall(r"(\w+)/", only[1]))
            used = {name for file in path.parent.rglob("*.py") for _, name in imported(file)} - {package, ""}
            wrong += [f"{package} imports {name} and does not say so" for name in used - said]
    assert not wrong, wrong
