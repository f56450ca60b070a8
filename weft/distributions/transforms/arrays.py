"""Transforms of vectors and matrices."""

from __future__ import annotations

import math

import weft.distributions.constraints as constraints
import weft.nn.functional as F
from weft.distributions.transforms.pointwise import clipped_sigmoid
from weft.distributions.transforms.transform import TOO_FEW, SameClass, Transform
from weft.distributions.utils import arange, eye, tril_matrix_to_vec, vec_to_tril_matrix
from weft.ops.packet import aten
from weft.support.errors import ValueProblem
from weft.tensor.size import Size
from weft.tensor.tensor import Tensor
from weft.types.limits import finfo


def _need(shape: Size, dims: int) -> None:
    if len(shape) < dims:
        raise ValueProblem(TOO_FEW)


def _after(values: Tensor) -> Tensor:
    """1, and all values but the last, along the last dim."""
    return aten.constant_pad_nd(values[..., :-1], [1, 0], 1)


class SoftmaxTransform(SameClass):
    """y = exp(x) over its sum along the last dim. The inverse is log(y), so it is not bijective."""

    domain = constraints.real_vector
    codomain = constraints.simplex

    def _call(self, x: Tensor) -> Tensor:
        return aten.softmax(x, -1)

    def _inverse(self, y: Tensor) -> Tensor:
        return y.log()

    def forward_shape(self, shape: Size) -> Size:
        _need(shape, 1)
        return shape

    inverse_shape = forward_shape


class StickBreakingTransform(SameClass):
    """n numbers as n + 1 that sum up to 1: each is the part that is broken off of what is left of a stick."""

    domain = constraints.real_vector
    codomain = constraints.simplex
    bijective = True

    @staticmethod
    def _log_left(x: Tensor) -> Tensor:
        """log of n, n - 1, ..., 1: with it, zeros are broken to equal parts."""
        return arange(x.shape[-1], 0, -1, dtype=x.dtype, device=x.device).log()

    def _call(self, x: Tensor) -> Tensor:
        part = clipped_sigmoid(x - self._log_left(x))
        left = (1 - part).cumprod(-1)
        return aten.constant_pad_nd(part, [0, 1], 1) * aten.constant_pad_nd(left, [1, 0], 1)

    def _inverse(self, y: Tensor) -> Tensor:
        parts = y[..., :-1]
        left = (1 - parts.cumsum(-1)).clamp(finfo(y.dtype).tiny)
        return parts.log() - left.log() + self._log_left(parts)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        logits = x - self._log_left(x)
        return (F.logsigmoid(logits) - logits + y[..., :-1].log()).sum(-1)  # 1 - sigmoid(x) = exp(-x) sigmoid(x)

    def forward_shape(self, shape: Size) -> Size:
        _need(shape, 1)
        return Size((*shape[:-1], shape[-1] + 1))

    def inverse_shape(self, shape: Size) -> Size:
        _need(shape, 1)
        return Size((*shape[:-1], shape[-1] - 1))


class CorrCholeskyTransform(Transform):
    """n (n - 1) / 2 numbers as the Cholesky factor [n, n] of a correlation matrix: tanh of them, in rows below the
    diagonal, are the parts that are broken off of each row's length of 1, squared and with signs."""

    domain = constraints.real_vector
    codomain = constraints.corr_cholesky
    bijective = True

    def _call(self, x: Tensor) -> Tensor:
        eps = finfo(x.dtype).eps
        part = vec_to_tril_matrix(x.tanh().clamp(-1 + eps, 1 - eps), diag=-1)
        left = (1 - part * part).sqrt().cumprod(-1)
        return (part + eye(part.shape[-1], dtype=x.dtype, device=x.device)) * _after(left)

    def _inverse(self, y: Tensor) -> Tensor:
        left = tril_matrix_to_vec(_after(1 - (y * y).cumsum(-1)), diag=-1)
        return (tril_matrix_to_vec(y, diag=-1) / left.sqrt()).atanh()

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """Of x and the numbers below the diagonal of y."""
        left = tril_matrix_to_vec(1 - (y * y).cumsum(-1), diag=-2)
        of_tanh = (x + F.softplus(-2 * x) - math.log(2.0)).sum(-1)
        return 0.5 * left.log().sum(-1) - 2 * of_tanh

    def forward_shape(self, shape: Size) -> Size:
        _need(shape, 1)
        length = shape[-1]
        n = round((0.25 + 2 * length) ** 0.5 + 0.5)
        if n * (n - 1) // 2 != length:
            raise ValueProblem("Input is not a flattened lower-diagonal number")
        return Size((*shape[:-1], n, n))

    def inverse_shape(self, shape: Size) -> Size:
        _need(shape, 2)
        n = shape[-1]
        if shape[-2] != n:
            raise ValueProblem("Input is not square")
        return Size((*shape[:-2], n * (n - 1) // 2))


class LowerCholeskyTransform(SameClass):
    """The lower triangle of a matrix with the exponentials of its diagonal."""

    domain = constraints.independent(constraints.real, 2)
    codomain = constraints.lower_cholesky

    def _call(self, x: Tensor) -> Tensor:
        return x.tril(-1) + x.diagonal(dim1=-2, dim2=-1).exp().diag_embed()

    def _inverse(self, y: Tensor) -> Tensor:
        return y.tril(-1) + y.diagonal(dim1=-2, dim2=-1).log().diag_embed()


class PositiveDefiniteTransform(SameClass):
    """Positive definite matrices by their Cholesky factors (LowerCholeskyTransform)."""

    domain = constraints.independent(constraints.real, 2)
    codomain = constraints.positive_definite

    def _call(self, x: Tensor) -> Tensor:
        factor = LowerCholeskyTransform()(x)
        return factor @ factor.mT

    def _inverse(self, y: Tensor) -> Tensor:
        return LowerCholeskyTransform().inv(aten.linalg_cholesky(y))
