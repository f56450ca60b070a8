"""`python -m weft.torch SCRIPT.py [ARGS]` and `-m MODULE [ARGS]`: run a program for PyTorch on weft, as Python would
run it."""

from __future__ import annotations

import atexit
import importlib.util
import os
import runpy
import sys
from collections.abc import Sequence

from weft.torch import missing
from weft.torch.hook import install

CHILDREN = os.path.join(os.path.dirname(os.path.abspath(__file__)), "children")
USAGE = """\
usage: python -m weft.torch [--missing] SCRIPT.py [ARGS]
       python -m weft.torch [--missing] -m MODULE [ARGS]

Runs a program that is written for PyTorch on weft: `import torch` gives weft in it.

  --missing  when the program ends, list the names of torch that it asked for in vain, with file and line
  -h, --help show this"""


def main(arguments: Sequence[str]) -> int:
    """Run a program. Its own exit code and errors go on as Python gives them; 2 where there is no such program."""
    rest = list(arguments)
    while rest and rest[0].startswith("-") and rest[0] != "-m":
        option = rest.pop(0)
        if option in ("-h", "--help"):
            print(USAGE)
            return 0
        if option != "--missing":
            return _refuse(f"no option {option}; options of the program come behind its name")
        atexit.register(lambda: print(missing.report(), file=sys.stderr))
    if not rest or rest == ["-m"]:
        return _refuse("name a script, or -m and a module")
    if rest[0] == "-m":
        return _run_module(rest[1], rest[2:])
    return _run_script(rest[0], rest[1:])


def _refuse(why: str) -> int:
    print(f"weft.torch: {why}\n\n{USAGE}", file=sys.stderr)
    return 2


def _prepare(first: str, arguments: list[str]) -> None:
    """The process as Python makes it for a program: what imports look through first, and the arguments."""
    sys.path[0] = first
    sys.path.append(CHILDREN)  # which processes that multiprocessing spawns are given
    sys.argv[:] = arguments
    above = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = f"{CHILDREN}{os.pathsep}{above}" if above else CHILDREN
    install()


def _run_script(script: str, arguments: list[str]) -> int:
    if not os.path.exists(script):
        return _refuse(f"there is no file {script}")
    _prepare(os.path.dirname(os.path.abspath(script)), [script, *arguments])
    runpy.run_path(script, run_name="__main__")
    return 0


def _run_module(module: str, arguments: list[str]) -> int:
    _prepare(os.getcwd(), [module, *arguments])
    try:
        is_there = importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:
        is_there = False
    if not is_there:
        return _refuse(f"there is no module {module}")
    runpy.run_module(module, run_name="__main__", alter_sys=True)
    return 0
