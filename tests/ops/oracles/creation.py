"""Tensors from nothing, and joint shapes."""

from __future__ import annotations

import numpy as np

from tests.ops.oracles.table import given
from weft.catalogue.samples import F, case

given("broadcast_tensors", lambda xs: tuple(np.broadcast_arrays(*xs)), case((F(3, 1), F(4), F())))
given("broadcast_tensors.one", lambda x: (x,))
given("meshgrid", lambda xs: tuple(np.meshgrid(*xs, indexing="ij")), case((F(3), F(2), F())))
given(
    "meshgrid.indexing", lambda xs, indexing: tuple(np.meshgrid(*xs, indexing=indexing)),
    case((F(3), F(2)), indexing="xy"), case((F(3), F(2), F(4)), indexing="ij"),
)
given("meshgrid.one", lambda x, indexing: (np.atleast_1d(x),))
given("cartesian_prod.one", lambda x: x)
given("tril_indices triu_indices", None, case(3, 4), case(4, 3, 1), case(3, 3, -1))
given("empty_permuted", lambda size, order, *_: np.zeros(size), case((2, 3), (1, 0)), case((2, 3, 4), (2, 0, 1)))
given("new_empty_strided", lambda x, size, stride, *_: np.zeros(size, x.dtype), case(F(2), (2, 3), (1, 2)))
given("empty_strided", lambda size, stride, *_: np.zeros(size), case((2, 3), (3, 1)), case((2, 3), (1, 2)))
