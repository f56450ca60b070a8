"""weft.special: special functions. Each is the operator `aten::special_<name>`, or one of weft's own under PyTorch's
other name for it."""

from __future__ import annotations

from typing import Any

from weft.layers.variants import with_out
from weft.ops.op import PACKETS
from weft.ops.packet import aten

_PREFIX = "special_"
_NAMES = {name: name for name in (
    "erf", "erfc", "erfinv", "exp2", "expm1", "log1p", "logit", "xlogy", "sinc", "round", "softmax", "log_softmax",
    "logsumexp", "digamma", "i0",
)}
_NAMES |= {"expit": "sigmoid", "psi": "digamma", "gammaln": "lgamma", "multigammaln": "mvlgamma"}


def _found() -> dict[str, str]:
    """Public name -> operator."""
    own = {
        key.split("::" + _PREFIX)[1]: key[6:]
        for key, ops in PACKETS.items() if "::" + _PREFIX in key and any("special" in o.public for o in ops)
    }
    return {name: op for name, op in _NAMES.items() if f"aten::{op}" in PACKETS} | own


def __getattr__(name: str) -> Any:
    operator = _found().get(name)
    if operator is None:
        raise AttributeError(f"module 'weft.special' has no attribute {name!r}")
    value = with_out(getattr(aten, operator))
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_found()})
