"""Normal vectors: MultivariateNormal, and LowRankMultivariateNormal, whose covariance is a few columns and a diagonal.
"""

from __future__ import annotations

import math
from typing import Any

import weft.distributions.constraints as constraints
from weft.distributions.distribution import Distribution
from weft.distributions.utils import Shape, _standard_normal, eye, lazy_property
from weft.layers.predicates import broadcast_shapes
from weft.ops.packet import aten
from weft.support.errors import ValueProblem
from weft.tensor.size import Size
from weft.tensor.tensor import Tensor


def _batch_mv(bmat: Tensor, bvec: Tensor) -> Tensor:
    """Matrices [..., n, m] times vectors [..., m]."""
    return (bmat @ bvec.unsqueeze(-1)).squeeze(-1)


def _batch_mahalanobis(bL: Tensor, bx: Tensor) -> Tensor:
    """x' (L L')^-1 x of vectors [..., n] and lower triangular matrices [*batch, n, n].

    Dims of x in front of the batch become columns, so that each matrix is solved with once."""
    batch = bL.dim() - 2
    lead = max(bx.dim() - 1 - batch, 0)
    front = bx.shape[:lead]
    columns = bx.reshape((-1, *bx.shape[lead:])).movedim(0, -1)
    while columns.dim() < batch + 2:
        columns = columns.unsqueeze(0)
    squares = aten.linalg_solve_triangular(bL, columns, upper=False).square().sum(-2)
    rows = squares.movedim(-1, 0)
    return rows.reshape(front + rows.shape[1:])


def _precision_to_scale_tril(precision: Tensor) -> Tensor:
    """The Cholesky factor of the inverse: of the matrix turned around, transposed, inverted."""
    factor = aten.linalg_cholesky(precision.flip((-2, -1))).flip((-2, -1)).mT
    identity = eye(precision.shape[-1], dtype=precision.dtype, device=precision.device)
    return aten.linalg_solve_triangular(factor, identity, upper=False)


def log_diagonal(matrix: Tensor) -> Tensor:
    """The sum of the logarithms of diagonals."""
    return matrix.diagonal(dim1=-2, dim2=-1).log().sum(-1)


class Gaussian(Distribution):
    """Normal vectors, whatever their covariance is stored as."""

    support = constraints.real_vector
    has_rsample = True
    _parameter_dims = {}
    loc: Tensor

    @property
    def mean(self) -> Tensor:
        return self.loc

    @property
    def mode(self) -> Tensor:
        return self.loc

    def _half_log_det(self) -> Tensor:
        """Half of the logarithm of the covariance's determinant."""
        raise NotImplementedError

    def _mahalanobis(self, x: Tensor) -> Tensor:
        """x' C^-1 x for the covariance C."""
        raise NotImplementedError

    def _root(self) -> Tensor:
        """A matrix R, [..., n, m], with R R' = C."""
        raise NotImplementedError

    def _log_prob(self, value: Tensor) -> Tensor:
        constant = 0.5 * self._event_shape[0] * math.log(2 * math.pi)
        return -0.5 * self._mahalanobis(value - self.loc) - self._half_log_det() - constant

    def entropy(self) -> Tensor:
        entropy = self._half_log_det() + 0.5 * self._event_shape[0] * (1 + math.log(2 * math.pi))
        return entropy.expand(self._batch_shape)

    def _divergence(self, other: Gaussian) -> Tensor:
        """KL(self || other). The trace of Cq^-1 Cp is the sum over the columns of a root of Cp."""
        if self.event_shape != other.event_shape:
            raise ValueProblem(
                "KL-divergence between two (Low Rank) Multivariate Normals with different event shapes cannot be "
                "computed"
            )
        batch = broadcast_shapes(self.batch_shape, other.batch_shape)
        root = self._root()
        columns = root.mT.movedim(-2, 0)
        columns = columns.reshape(columns.shape[:1] + (1,) * (len(batch) - columns.dim() + 2) + columns.shape[1:])
        trace = other._mahalanobis(columns.expand(columns.shape[:1] + batch + columns.shape[-1:])).sum(0)
        between = other._mahalanobis((other.loc - self.loc).expand(batch + self.event_shape))
        return other._half_log_det() - self._half_log_det() + 0.5 * (trace + between - self.event_shape[0])


class OfScaleTril:
    """Matrices of a distribution that keeps the lower triangular factor of a covariance."""

    _batch_shape: Size
    _unbroadcasted_scale_tril: Tensor

    def _spread(self, matrix: Tensor) -> Tensor:
        return matrix.expand(self._batch_shape + matrix.shape[-2:])

    @lazy_property
    def scale_tril(self) -> Tensor:
        """The lower triangular factor of the covariance, [*batch, n, n]."""
        return self._spread(self._unbroadcasted_scale_tril)

    @lazy_property
    def covariance_matrix(self) -> Tensor:
        """The covariance, [*batch, n, n]."""
        return self._spread(self._unbroadcasted_scale_tril @ self._unbroadcasted_scale_tril.mT)

    @lazy_property
    def precision_matrix(self) -> Tensor:
        """The inverse of the covariance, [*batch, n, n]."""
        return self._spread(aten.cholesky_inverse(self._unbroadcasted_scale_tril))


class MultivariateNormal(OfScaleTril, Gaussian):
    """Normal vectors with a covariance matrix.

    Args:
        loc: the means, [..., n].
        covariance_matrix, precision_matrix, scale_tril: one of the three, [..., n, n]: the covariance, its inverse, or
            its lower triangular factor. Raises ValueProblem.
    """

    arg_constraints = {
        "loc": constraints.real_vector, "covariance_matrix": constraints.positive_definite,
        "precision_matrix": constraints.positive_definite, "scale_tril": constraints.lower_cholesky,
    }
    _parameter_dims = {"loc": 1, "covariance_matrix": 2, "precision_matrix": 2, "scale_tril": 2}
    _kept = ("_unbroadcasted_scale_tril",)

    def __init__(
        self, loc: Tensor, covariance_matrix: Tensor | None = None, precision_matrix: Tensor | None = None,
        scale_tril: Tensor | None = None, validate_args: bool | None = None,
    ) -> None:
        if loc.dim() < 1:
            raise ValueProblem("loc must be at least one-dimensional.")
        name, matrix = one_matrix(
            covariance_matrix=covariance_matrix, precision_matrix=precision_matrix, scale_tril=scale_tril
        )
        n = matrix.shape[-1]
        loc = loc.expand((*loc.shape[:-1], n)) if loc.shape[-1] == 1 else loc
        self._take(validate_args, (n,), loc=loc, **{name: matrix})
        self._unbroadcasted_scale_tril = scale_tril_of(name, matrix)

    @property
    def variance(self) -> Tensor:
        return self._unbroadcasted_scale_tril.square().sum(-1).expand(self._batch_shape + self._event_shape)

    def rsample(self, sample_shape: Shape = ()) -> Tensor:
        noise = _standard_normal(self._extended_shape(sample_shape), self.loc.dtype, self.loc.device)
        return self.loc + _batch_mv(self._unbroadcasted_scale_tril, noise)

    def _half_log_det(self) -> Tensor:
        return log_diagonal(self._unbroadcasted_scale_tril)

    def _mahalanobis(self, x: Tensor) -> Tensor:
        return _batch_mahalanobis(self._unbroadcasted_scale_tril, x)

    def _root(self) -> Tensor:
        return self._unbroadcasted_scale_tril


def one_matrix(**matrices: Tensor | None) -> tuple[str, Tensor]:
    """The one of these that is there, with its name. Raises ValueProblem."""
    present = [(name, matrix) for name, matrix in matrices.items() if matrix is not None]
    if len(present) != 1:
        raise ValueProblem(
            "Exactly one of covariance_matrix or precision_matrix or scale_tril may be specified."
        )
    name, matrix = present[0]
    if matrix.dim() < 2:
        raise ValueProblem(f"{name} must be at least two-dimensional, with optional leading batch dimensions")
    return name, matrix


def scale_tril_of(name: str, matrix: Tensor) -> Tensor:
    """The lower triangular factor of a covariance, of the inverse of a precision, or itself."""
    if name == "scale_tril":
        return matrix
    return aten.linalg_cholesky(matrix) if name == "covariance_matrix" else _precision_to_scale_tril(matrix)


def _with_identity(matrix: Tensor) -> Tensor:
    return matrix + eye(matrix.shape[-1], dtype=matrix.dtype, device=matrix.device)


class LowRankMultivariateNormal(Gaussian):
    """Normal vectors with the covariance W W' + D.

    Args:
        loc: the means, [..., n].
        cov_factor: W, [..., n, m].
        cov_diag: the diagonal of D, [..., n]. Raises ValueProblem for shapes that do not fit.

    The determinant and the inverse take the m by m matrix I + W' D^-1 W (Woodbury).
    """

    arg_constraints = {
        "loc": constraints.real_vector, "cov_factor": constraints.independent(constraints.real, 2),
        "cov_diag": constraints.independent(constraints.positive, 1),
    }
    _parameter_dims = {"loc": 1, "cov_factor": 2, "cov_diag": 1}
    _kept = ("_unbroadcasted_cov_factor", "_unbroadcasted_cov_diag", "_capacitance_tril")
    cov_factor: Tensor
    cov_diag: Tensor
    _unbroadcasted_cov_factor: Tensor
    _unbroadcasted_cov_diag: Tensor

    def __init__(
        self, loc: Tensor, cov_factor: Tensor, cov_diag: Tensor, validate_args: bool | None = None
    ) -> None:
        if loc.dim() < 1:
            raise ValueProblem("loc must be at least one-dimensional.")
        if cov_factor.dim() < 2:
            raise ValueProblem(
                "cov_factor must be at least two-dimensional, with optional leading batch dimensions"
            )
        event = loc.shape[-1:]
        if cov_factor.shape[-2:-1] != event:
            raise ValueProblem(f"cov_factor must be a batch of matrices with shape {event[0]} x m")
        if cov_diag.shape[-1:] != event:
            raise ValueProblem(f"cov_diag must be a batch of vectors with shape {event}")
        self._unbroadcasted_cov_factor, self._unbroadcasted_cov_diag = cov_factor, cov_diag
        try:
            self._take(validate_args, event, loc=loc, cov_factor=cov_factor, cov_diag=cov_diag)
        except RuntimeError as e:
            raise ValueProblem(
                f"Incompatible batch shapes: loc {loc.shape}, cov_factor {cov_factor.shape}, cov_diag {cov_diag.shape}"
            ) from e

    @lazy_property
    def _capacitance_tril(self) -> Tensor:
        return aten.linalg_cholesky(_with_identity(self._scaled_factor() @ self._unbroadcasted_cov_factor))

    def _scaled_factor(self) -> Tensor:
        """W' D^-1."""
        return self._unbroadcasted_cov_factor.mT / self._unbroadcasted_cov_diag.unsqueeze(-2)

    def _spread(self, value: Tensor, dims: int) -> Tensor:
        return value.expand(self._batch_shape + self._event_shape * dims)

    @lazy_property
    def variance(self) -> Tensor:
        """The variance of each element, [*batch, n]."""
        return self._spread(self._unbroadcasted_cov_factor.square().sum(-1) + self._unbroadcasted_cov_diag, 1)

    @lazy_property
    def scale_tril(self) -> Tensor:
        """The lower triangular factor of the covariance, [*batch, n, n]."""
        root = self._unbroadcasted_cov_diag.sqrt().unsqueeze(-1)
        scaled = self._unbroadcasted_cov_factor / root
        return self._spread(root * aten.linalg_cholesky(_with_identity(scaled @ scaled.mT)), 2)

    @lazy_property
    def covariance_matrix(self) -> Tensor:
        """The covariance, [*batch, n, n]."""
        factor = self._unbroadcasted_cov_factor
        return self._spread(factor @ factor.mT + self._unbroadcasted_cov_diag.diag_embed(), 2)

    @lazy_property
    def precision_matrix(self) -> Tensor:
        """The inverse of the covariance, [*batch, n, n]."""
        half = aten.linalg_solve_triangular(self._capacitance_tril, self._scaled_factor(), upper=False)
        return self._spread(self._unbroadcasted_cov_diag.reciprocal().diag_embed() - half.mT @ half, 2)

    def rsample(self, sample_shape: Shape = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        few = shape[:-1] + self.cov_factor.shape[-1:]
        of_factor, of_diag = (_standard_normal(s, self.loc.dtype, self.loc.device) for s in (few, shape))
        moved = _batch_mv(self._unbroadcasted_cov_factor, of_factor)
        return self.loc + moved + self._unbroadcasted_cov_diag.sqrt() * of_diag

    def _half_log_det(self) -> Tensor:
        return log_diagonal(self._capacitance_tril) + 0.5 * self._unbroadcasted_cov_diag.log().sum(-1)

    def _mahalanobis(self, x: Tensor) -> Tensor:
        plain = (x.square() / self._unbroadcasted_cov_diag).sum(-1)
        return plain - _batch_mahalanobis(self._capacitance_tril, _batch_mv(self._scaled_factor(), x))

    def _root(self) -> Any:
        factor, diag = self._unbroadcasted_cov_factor, self._unbroadcasted_cov_diag.sqrt().diag_embed()
        batch = broadcast_shapes(factor.shape[:-2], diag.shape[:-2])
        return aten.cat([m.expand(batch + m.shape[-2:]) for m in (factor, diag)], -1)
