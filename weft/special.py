"""weft.special: special functions. Each is the operator `aten::special_<name>`, or one of weft's own under PyTorch's
other name for it."""

from __future__ import annotations

from typing import Any

from weft.layers.operator_namespaces import OperatorNamespace

_names = {name: name for name in (
    "erf", "erfc", "erfinv", "exp2", "expm1", "log1p", "logit", "xlogy", "sinc", "round", "softmax", "log_softmax",
    "logsumexp", "digamma", "i0",
)}
_names |= {"expit": "sigmoid", "psi": "digamma", "gammaln": "lgamma", "multigammaln": "mvlgamma"}
_functions = OperatorNamespace("special", globals(), _names)


def __getattr__(name: str) -> Any:
    return _functions.find(name)


def __dir__() -> list[str]:
    return _functions.names()
