"""Names of distributed computing: reductions, back ends, and the errors of processes that do not answer."""

from __future__ import annotations

from datetime import timedelta
from enum import Enum

from weft.support.errors import StateError

DEFAULT_TIMEOUT = timedelta(minutes=30)


class ReduceOp(Enum):
    """How values of several ranks become one, element by element. AVG is the sum divided by the number of ranks, for
    floating-point and complex numbers; BAND, BOR and BXOR are for integers and bool. For bool, SUM and MAX are `or`,
    PRODUCT and MIN are `and`."""

    SUM = 0
    AVG = 1
    PRODUCT = 2
    MIN = 3
    MAX = 4
    BAND = 5
    BOR = 6
    BXOR = 7


class Backend(str):
    """The name of what carries tensors between processes. weft has "mpi"."""

    UNDEFINED, GLOO, NCCL, UCC, MPI, XCCL = "undefined", "gloo", "nccl", "ucc", "mpi", "xccl"


class DistError(StateError):
    """What went wrong between processes."""


class DistBackendError(DistError):
    """A peer is gone, has not answered in time, or MPI reports an error. The text names the ranks."""
