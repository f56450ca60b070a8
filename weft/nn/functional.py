"""weft.nn.functional: the functions of neural networks, found by name.

`nn::` entries of the catalogue have the signatures that users write; operators that need no other signature are
`aten::` entries; what has no entry is written with operators in weft/nn/functions.
"""

from __future__ import annotations

import sys
from typing import Any

import weft.nn.functions as functions
from weft.layers.variants import with_out
from weft.ops.op import PACKETS
from weft.ops.overrides import overridable
from weft.ops.packet import Namespace, aten
from weft.support.absent import refuse

_nn = Namespace("nn")
_COMPOSED: dict[str, Any] = {name: getattr(module, name) for module in functions.MODULES for name in module.__all__}


_IN_PLACE = ("relu_", "leaky_relu_", "elu_", "selu_", "celu_", "rrelu_", "hardtanh_", "threshold_")


def _in_place(name: str) -> Any:
    """`F.elu_(x, ...)`: F.elu with inplace=True."""

    def function(input: Any, *args: Any, **kwargs: Any) -> Any:
        return getattr(sys.modules[__name__], name[:-1])(input, *args, inplace=True, **kwargs)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"In-place version of {name[:-1]}."
    function.__module__ = __name__
    return function


def __getattr__(name: str) -> Any:
    space, overloads = _nn, PACKETS.get(f"nn::{name}")
    if overloads is None:
        space, overloads = aten, PACKETS.get(f"aten::{name}")
    if name in _COMPOSED:
        value = overridable(_COMPOSED[name])
    elif overloads is not None and any("nn.functional" in op.public or "weft" in op.public for op in overloads):
        value = with_out(getattr(space, name))
        value.__module__ = __name__  # where pickle finds it again
    elif name in _IN_PLACE:
        value = _in_place(name)
    else:
        refuse("module 'weft.nn.functional'", name)
    return globals().setdefault(name, value)  # (another thread may have been faster: one function for all)


def __dir__() -> list[str]:
    shown = {key.split("::")[1] for key, ops in PACKETS.items() if any("nn.functional" in op.public for op in ops)}
    return sorted({*globals(), *shown, *_COMPOSED})
