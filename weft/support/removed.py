"""PyTorch's functions that it has taken away: calling one raises its error, which names the successor."""

from __future__ import annotations

from collections.abc import Callable
from typing import NoReturn

from weft.support.absent import refused
from weft.support.errors import StateError

_GONE = "This function was deprecated since version 1.9 and is now removed."
_TEXTS = {
    "solve": (
        f"{_GONE} `solve` has given way to `linalg.solve`, which takes its arguments the other way round and gives no "
        "LU factorization: see `lu`, `lu_solve` and `lu_unpack` for that.\n"
        "X = solve(B, A).solution should be replaced with:\nX = linalg.solve(A, B)"
    ),
    "symeig": (
        f"{_GONE} Its successors read the lower triangle by default, not the upper one.\n\n"
        "L, _ = symeig(A, upper=upper) should be replaced with:\nL = linalg.eigvalsh(A, UPLO='U' if upper else 'L')\n\n"
        "and\n\nL, V = symeig(A, eigenvectors=True) should be replaced with:\n"
        "L, V = linalg.eigh(A, UPLO='U' if upper else 'L')"
    ),
    "eig": (
        f"{_GONE} `linalg.eig` gives complex tensors instead of real ones with two columns.\n\n"
        "L, _ = eig(A) should be replaced with:\nL_complex = linalg.eigvals(A)\n\n"
        "and\n\nL, V = eig(A, eigenvectors=True) should be replaced with:\nL_complex, V_complex = linalg.eig(A)"
    ),
    "lstsq": (
        f"{_GONE} `lstsq` has given way to `linalg.lstsq`, which takes its arguments the other way round and gives no "
        "QR factorization (`linalg.qr` does); the residuals are in the field `residuals`.\n"
        "X, _ = lstsq(B, A).solution[:A.size(1)] should be replaced with:\nX = linalg.lstsq(A, B).solution"
    ),
    "matrix_rank": (
        f"{_GONE}\nPlease use `linalg.matrix_rank` instead, where the parameter `symmetric` is named `hermitian`."
    ),
}  # fmt: skip
FUNCTIONS: dict[str, Callable[..., NoReturn]] = {
    name: refused(name, "weft", text, "Taken away in PyTorch: raises StateError, with its successor.", StateError)
    for name, text in _TEXTS.items()
}
METHODS = ("eig", "lstsq", "solve", "symeig")


def __getattr__(name: str) -> Callable[..., NoReturn]:
    if name in FUNCTIONS:
        return FUNCTIONS[name]
    raise AttributeError(name)
