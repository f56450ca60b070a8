"""Floor 2: what an operator is (schema, entry, scalar protocol), how its NumPy value is computed,
and how a call is routed.

Start reading at op.py (the entry), then schema.py (the contract), scalar.py (what a pointwise body may say), route.py
(a call's first step). Operators themselves are entries in weft/catalogue, those of users are made by
weft/library. Imports only support/ and types/.
"""

from typing import Any, NoReturn

from weft.ops.packet import aten as aten
from weft.ops.packet import has_operators as _has_operators
from weft.ops.packet import namespace_of as _namespace_of
from weft.ops.packet import prim as prim
from weft.support.errors import NoLibrary

refused_libraries: list[str] = []  # those that the process asked for


def load_library(path: str) -> NoReturn:
    """Refused with an OSError: libraries that are made for PyTorch need its binary."""
    refused_libraries.append(path)
    raise NoLibrary(f"ops.load_library: {path} is made for PyTorch's binary, which weft does not have")


def __getattr__(name: str) -> Any:
    """`weft.ops.mylib`: the operators of a namespace."""
    if name.startswith("__") or not _has_operators(name):
        raise AttributeError(f"module 'weft.ops' has no attribute {name!r}, and no operator is defined in {name}::")
    return _namespace_of(name)
