"""Parametrizations of weights: weight_norm, spectral_norm and orthogonal, built on parametrize.py."""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np

import weft.nn.functional as F
from weft.nn.modules.conv import ConvTranspose1d, ConvTranspose2d, ConvTranspose3d
from weft.nn.modules.module import Module
from weft.nn.parameter import eye, randn, zeros
from weft.nn.utils import parametrize
from weft.nn.utils.weight_norm import norm_except_dim
from weft.ops.packet import aten
from weft.support.errors import IndexBoundsError, Unsupported, ValueProblem
from weft.tensor.modes import no_grad
from weft.tensor.tensor import Tensor, tensor_around
from weft.types.limits import finfo

__all__ = ["orthogonal", "spectral_norm", "weight_norm"]
M = TypeVar("M", bound=Module)


# ---- weight_norm
class _WeightNorm(Module):
    """From the lengths `original0` and the directions `original1`."""

    def __init__(self, dim: int | None = 0) -> None:
        super().__init__()
        self.dim = -1 if dim is None else dim

    def forward(self, weight_g: Tensor, weight_v: Tensor) -> Tensor:
        return weight_v * (weight_g / norm_except_dim(weight_v, self.dim))

    def right_inverse(self, weight: Tensor) -> tuple[Tensor, Tensor]:
        """Lengths and directions of a weight."""
        return norm_except_dim(weight, self.dim), weight


def weight_norm(module: M, name: str = "weight", dim: int | None = 0) -> M:
    """A parameter as length (`parametrizations.<name>.original0`, one for each index of `dim`, one in all for None)
    times direction (`original1`). Returns the module. Source: Salimans and Kingma (arXiv:1602.07868)."""
    parametrize.register_parametrization(module, name, _WeightNorm(dim), unsafe=True)
    module._register_load_state_dict_pre_hook(_OldNames(name))
    return module


class _OldNames:
    """Before loading: the names that weft.nn.utils.weight_norm gives, changed into those of this parametrization."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __call__(self, state_dict: dict[str, Any], prefix: str, *rest: Any) -> None:
        old = [f"{prefix}{self.name}_{part}" for part in "gv"]
        if all(key in state_dict for key in old):
            for i, key in enumerate(old):
                state_dict[f"{prefix}parametrizations.{self.name}.original{i}"] = state_dict.pop(key)


# ---- spectral_norm
class _SpectralNorm(Module):
    """The weight, as a matrix with `dim` first, divided by its greatest singular value; _u and _v are its singular
    vectors so far."""

    _u: Tensor
    _v: Tensor

    def __init__(self, weight: Tensor, n_power_iterations: int = 1, dim: int = 0, eps: float = 1e-12) -> None:
        super().__init__()
        ndim = weight.ndim
        if not -ndim <= dim < ndim:
            raise IndexBoundsError(
                f"Dimension out of range (expected to be in range of [-{ndim}, {ndim - 1}] but got {dim})"
            )
        if n_power_iterations <= 0:
            raise ValueProblem(
                f"Expected n_power_iterations to be positive, but got n_power_iterations={n_power_iterations}"
            )
        self.dim, self.eps, self.n_power_iterations = dim % ndim, eps, n_power_iterations
        if ndim > 1:
            matrix = self._as_matrix(weight.detach())
            for vector, size in (("_u", matrix.shape[0]), ("_v", matrix.shape[1])):
                drawn = randn((size,), dtype=weight.dtype, device=weight.device)
                self.register_buffer(vector, F.normalize(drawn, dim=0, eps=eps))
            self._power_method(matrix, 15)

    def _as_matrix(self, weight: Tensor) -> Tensor:
        lined = weight.movedim(self.dim, 0) if self.dim else weight
        return lined.flatten(1)

    def _power_method(self, matrix: Tensor, n_power_iterations: int) -> None:
        with no_grad():
            for _ in range(n_power_iterations):
                self._u.copy_(F.normalize(matrix.mv(self._v), dim=0, eps=self.eps))
                self._v.copy_(F.normalize(matrix.H.mv(self._u), dim=0, eps=self.eps))

    def forward(self, weight: Tensor) -> Tensor:
        if weight.ndim == 1:
            return F.normalize(weight, dim=0, eps=self.eps)
        matrix = self._as_matrix(weight)
        if self.training:
            self._power_method(matrix, self.n_power_iterations)
        u, v = self._u.clone(), self._v.clone()  # a second forward before backward moves the buffers on
        return weight / u.vdot(matrix.mv(v))

    def right_inverse(self, value: Tensor) -> Tensor:
        """The value, which is taken as it is."""
        return value


def spectral_norm(
    module: M, name: str = "weight", n_power_iterations: int = 1, eps: float = 1e-12, dim: int | None = None
) -> M:
    """A weight, seen as a matrix with `dim` first, divided by its greatest singular value. Returns the module.

    The value comes of n_power_iterations steps of power iteration each time the weight is read in training mode.
    Source: Miyato et al. (arXiv:1802.05957).
    """
    weight = _weight(module, name)
    if dim is None:
        dim = 1 if isinstance(module, (ConvTranspose1d, ConvTranspose2d, ConvTranspose3d)) else 0
    return parametrize.register_parametrization(module, name, _SpectralNorm(weight, n_power_iterations, dim, eps))


# ---- orthogonal
_MAPS = ("matrix_exp", "cayley", "householder")


class _Orthogonal(Module):
    """Matrices [..., n, k] with orthonormal columns (n >= k) or rows, of any matrix of that shape.

    base: with trivialization, the orthogonal matrix [..., n, n] that the map's result is multiplied with.
    """

    base: Any

    def __init__(self, weight: Tensor, orthogonal_map: str, *, use_trivialization: bool = True) -> None:
        super().__init__()
        if weight.is_complex() and orthogonal_map == "householder":
            raise ValueProblem("The householder parametrization does not support complex tensors.")
        self.shape, self.orthogonal_map, self.use_trivialization = weight.shape, orthogonal_map, use_trivialization
        if use_trivialization:
            self.register_buffer("base", None)

    def forward(self, X: Tensor) -> Tensor:
        is_wide = X.shape[-2] < X.shape[-1]
        tall = X.mT if is_wide else X
        q = self._reflected(tall) if self.orthogonal_map == "householder" else self._rotated(tall)
        if self.use_trivialization:
            q = self.base @ q
        return q.mT if is_wide else q

    def _rotated(self, tall: Tensor) -> Tensor:
        """exp(A), or the Cayley map of A, of a skew-symmetric A, cut to the columns of `tall`."""
        n, k = tall.shape[-2:]
        lower = tall.tril()
        if n != k:
            lower = aten.cat((lower, zeros((*tall.shape[:-1], n - k), dtype=tall.dtype, device=tall.device)), -1)
        skew = lower - lower.mH
        if self.orthogonal_map == "matrix_exp":
            square = aten.linalg_matrix_exp(skew)
        else:
            identity = eye(n, dtype=tall.dtype, device=tall.device)
            square = aten.linalg_solve(identity - 0.5 * skew, identity + 0.5 * skew)
        return square if n == k else square[..., :k]

    def _reflected(self, tall: Tensor) -> Tensor:
        """The product of the Householder reflections along the columns below the diagonal, with the diagonal's signs.

        All reflections at once: H1 H2 ... = I - V T V', where 1/T = diag(1/tau) + the upper part of V'V
        (the compact WY form; Schreiber and Van Loan, 1989).
        """
        n, k = tall.shape[-2:]
        identity = eye(n, k, dtype=tall.dtype, device=tall.device)
        columns = tall.tril(-1) + identity
        square = columns.mT @ columns
        scales = 0.5 * aten.diag_embed(aten.diagonal(square, 0, -2, -1))  # tau = 2 / |v|^2
        inverse = scales + aten.triu(square, 1)
        first = aten.expand(columns.mT @ identity, (*tall.shape[:-2], k, k))
        q = identity - columns @ aten.linalg_solve_triangular(inverse, first, upper=True)
        signs = aten.unsqueeze(tall.diagonal(0, -2, -1).detach().sign(), -2)
        return q * signs

    def right_inverse(self, Q: Tensor) -> Tensor:
        """What gives an orthogonal matrix (the nearest that QR makes of another one). Sets `base`."""
        if Q.shape != self.shape:
            raise ValueProblem(
                f"Expected a matrix or batch of matrices of shape {self.shape}. Got a tensor of shape {Q.shape}."
            )
        is_wide = Q.shape[-2] < Q.shape[-1]
        with no_grad():
            tall = Q.mT if is_wide else Q
            if not self.use_trivialization:
                reflectors = self._reflectors(tall)
                return reflectors.mT if is_wide else reflectors
            n, k = tall.shape[-2:]
            if n != k:
                rest = randn((*tall.shape[:-1], n - k), dtype=tall.dtype, device=tall.device)
                self.base = _orthonormal(aten.cat((tall, rest), -1))
            else:
                self.base = tall.clone() if _is_orthogonal(tall) else _orthonormal(tall)
            start = aten.zeros_like(Q)
            aten.diagonal(start, 0, -2, -1).fill_(-1.0)  # the reflections along nothing, which negate: see _reflected
            return start

    def _reflectors(self, tall: Tensor) -> Tensor:
        """The reflections of the QR decomposition, below a diagonal of the signs of R."""
        if self.orthogonal_map != "householder":
            raise Unsupported(
                "It is not possible to assign to the matrix exponential or the Cayley parametrizations when "
                "use_trivialization=False."
            )
        array = tall.numpy()
        packed, tau = (np.stack(parts) for parts in zip(
            *(np.linalg.qr(m, mode="raw") for m in array.reshape(-1, *array.shape[-2:])), strict=True
        ))
        reflectors = np.swapaxes(packed, -1, -2).reshape(array.shape).copy()
        diagonal = np.arange(array.shape[-1])
        signs = np.sign(reflectors[..., diagonal, diagonal])
        reflectors[..., diagonal, diagonal] = np.where(tau.reshape(signs.shape) == 0, -signs, signs)
        return tensor_around(reflectors)


def _orthonormal(matrix: Tensor) -> Tensor:
    """Q of the QR decomposition whose R has a positive diagonal."""
    q, r = aten.linalg_qr(matrix)
    return q * aten.unsqueeze(aten.diagonal(r, 0, -2, -1).sgn(), -2)


def _is_orthogonal(q: Tensor) -> bool:
    n, k = q.shape[-2:]
    identity = aten.expand(eye(k, dtype=q.dtype, device=q.device), (*q.shape[:-2], k, k))
    return bool(aten.allclose(q.mH @ q, identity, atol=10.0 * n * finfo(q.dtype).eps))


def orthogonal(
    module: M, name: str = "weight", orthogonal_map: str | None = None, *, use_trivialization: bool = True
) -> M:
    """A weight [..., m, n] with orthonormal columns (m >= n) or rows. Returns the module.

    orthogonal_map: "matrix_exp" (for square and complex matrices), "cayley" or "householder" (for others).
    use_trivialization: the map is taken around the weight's first value. Source: Lezcano Casado (arXiv:1909.09501).
    """
    weight = _weight(module, name)
    if weight.ndim < 2:
        raise ValueProblem(f"Expected a matrix or batch of matrices. Got a tensor of {weight.ndim} dimensions.")
    if orthogonal_map is None:
        is_square = weight.shape[-2] == weight.shape[-1]
        orthogonal_map = "matrix_exp" if is_square or weight.is_complex() else "householder"
    if orthogonal_map not in _MAPS:
        raise ValueProblem(
            f'orthogonal_map has to be one of "matrix_exp", "cayley", "householder". Got: {orthogonal_map}'
        )
    parametrization = _Orthogonal(weight, orthogonal_map, use_trivialization=use_trivialization)
    return parametrize.register_parametrization(module, name, parametrization, unsafe=True)


def _weight(module: Module, name: str) -> Tensor:
    weight = getattr(module, name, None)
    if not isinstance(weight, Tensor):
        raise ValueProblem(f"Module '{module}' has no parameter or buffer with name '{name}'")
    return weight
