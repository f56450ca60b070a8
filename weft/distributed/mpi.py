"""MPI as a channel, by mpi4py. MPI gets the arrays' own memory.

Where MPI has no type for a dtype (float16, bfloat16), elements travel as unsigned integers of their size, and are
reduced by operations of our own, which compute with NumPy: each combination of two is rounded to the dtype.
"""

from __future__ import annotations

import atexit
import importlib.util
import os
import socket
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from weft.distributed.channel import Array, Channel, Request
from weft.distributed.launched import LAUNCHER
from weft.distributed.names import DistBackendError, ReduceOp
from weft.support.errors import DTypeError
from weft.types.dtype import BY_NUMPY

_TYPES = {  # weft's dtype: MPI's
    "bool": "C_BOOL", "uint8": "UINT8_T", "int8": "INT8_T", "int16": "INT16_T", "int32": "INT32_T",
    "int64": "INT64_T", "float16": "UINT16_T", "bfloat16": "UINT16_T", "float32": "FLOAT", "float64": "DOUBLE",
    "complex64": "C_FLOAT_COMPLEX", "complex128": "C_DOUBLE_COMPLEX",
}
_OPS = {
    ReduceOp.SUM: "SUM", ReduceOp.AVG: "SUM", ReduceOp.PRODUCT: "PROD", ReduceOp.MIN: "MIN", ReduceOp.MAX: "MAX",
    ReduceOp.BAND: "BAND", ReduceOp.BOR: "BOR", ReduceOp.BXOR: "BXOR",
}
_OPS_OF_BOOL = {
    ReduceOp.SUM: "LOR", ReduceOp.PRODUCT: "LAND", ReduceOp.MIN: "LAND", ReduceOp.MAX: "LOR",
    ReduceOp.BAND: "LAND", ReduceOp.BOR: "LOR", ReduceOp.BXOR: "LXOR",
}
_OWN: dict[ReduceOp, Callable[..., Any]] = {
    ReduceOp.SUM: np.add, ReduceOp.AVG: np.add, ReduceOp.PRODUCT: np.multiply, ReduceOp.MIN: np.minimum,
    ReduceOp.MAX: np.maximum,
}
_own_ops: dict[tuple[str, ReduceOp], Any] = {}


def has_mpi() -> bool:
    """Whether mpi4py is installed (whether it finds an MPI library shows when it is imported)."""
    return importlib.util.find_spec("mpi4py") is not None


def load_mpi() -> Any:
    """mpi4py's MPI, which is started by the first call. It is ended here at exit, and only if all went well: ending
    it waits for every rank. Raises DistBackendError where it cannot be loaded."""
    import mpi4py  # optional: weft[mpi]

    if "mpi4py.MPI" not in sys.modules:
        mpi4py.rc.finalize = False
        atexit.register(_end_at_exit)
    try:
        from mpi4py import MPI  # optional: weft[mpi]
    except (ImportError, RuntimeError) as error:
        raise DistBackendError(
            f"init_process_group: mpi4py finds no MPI library ({error}); pip install 'weft[mpi]' has one"
        ) from error
    return MPI


_broken = False
_WAIT_AT_EXIT = 3.0  # seconds


def leave_broken() -> None:
    """A peer is gone: this process must not wait for it when it ends."""
    global _broken
    _broken = True


def _end_at_exit() -> None:
    """End MPI, which waits for all ranks; mpiexec ends the others at once when a rank leaves without. Below
    weft.distributed.run, which does not, a rank waits for a moment only: it may have an exit code to tell."""
    MPI = sys.modules["mpi4py.MPI"]
    if _broken or hasattr(sys, "last_value") or not MPI.Is_initialized() or MPI.Is_finalized():
        return
    if LAUNCHER in os.environ:
        request, end = MPI.COMM_WORLD.Ibarrier(), time.monotonic() + _WAIT_AT_EXIT
        while not request.Test():
            if time.monotonic() > end:
                return
            time.sleep(0.001)
    MPI.Finalize()


def _shown(array: Array | None) -> Any:
    """A buffer as mpi4py takes it: bytes, count, type."""
    if array is None:
        return None
    MPI = sys.modules["mpi4py.MPI"]
    return [array.view(np.uint8), array.size, getattr(MPI, _TYPES[BY_NUMPY[array.dtype].name])]


def _combining(array: Array, op: ReduceOp) -> Any:
    """MPI's operation for a reduction of a dtype. Raises DTypeError where there is none."""
    MPI: Any = sys.modules["mpi4py.MPI"]
    dtype = BY_NUMPY[array.dtype]
    kind = "bool" if dtype.name == "bool" else "f" if dtype.is_floating_point else "c" if dtype.is_complex else "i"
    bitwise = op in (ReduceOp.BAND, ReduceOp.BOR, ReduceOp.BXOR)
    if (
        (bitwise and kind in "fc") or (kind == "c" and op in (ReduceOp.MIN, ReduceOp.MAX))
        or (op is ReduceOp.AVG and kind not in "fc")
    ):
        raise DTypeError(f"ReduceOp.{op.name} is not defined for {dtype.name}")
    if kind == "bool":
        return getattr(MPI, _OPS_OF_BOOL[op])
    if dtype.itemsize != 2 or kind == "i":
        return getattr(MPI, _OPS[op])
    key = dtype.name, op
    if key not in _own_ops:
        _own_ops[key] = MPI.Op.Create(_own(_OWN[op], array.dtype), commute=True)
    return _own_ops[key]


def _own(function: Callable[..., Any], dtype: Any) -> Callable[[Any, Any, Any], None]:
    def combine(one: Any, other: Any, datatype: Any) -> None:
        out = np.frombuffer(other, dtype)
        function(np.frombuffer(one, dtype), out, out=out)

    return combine


class MPIRequest:
    """A request of MPI's."""

    def __init__(self, request: Any, is_message: bool = False) -> None:
        self.request = request
        self.source: int | None = None
        self.status = sys.modules["mpi4py.MPI"].Status() if is_message else None

    def test(self) -> bool:
        done = bool(self.request.Test(self.status))
        if done and self.status is not None:
            self.source = self.status.Get_source()
        return done


class MPIChannel:
    """The ranks of one communicator."""

    def __init__(self, comm: Any) -> None:
        self.comm, self.rank, self.size = comm, int(comm.rank), int(comm.size)
        self.MPI: Any = sys.modules["mpi4py.MPI"]

    def all_reduce(self, array: Array, op: ReduceOp) -> Request:
        return MPIRequest(self.comm.Iallreduce(self.MPI.IN_PLACE, _shown(array), _combining(array, op)))

    def reduce(self, array: Array, root: int, op: ReduceOp) -> Request:
        combining = _combining(array, op)
        if self.rank == root:
            return MPIRequest(self.comm.Ireduce(self.MPI.IN_PLACE, _shown(array), combining, root))
        return MPIRequest(self.comm.Ireduce(_shown(array), None, combining, root))

    def broadcast(self, array: Array, root: int) -> Request:
        return MPIRequest(self.comm.Ibcast(_shown(array), root))

    def all_gather(self, out: Array, array: Array) -> Request:
        buffer, _, kind = _shown(out)
        return MPIRequest(self.comm.Iallgather(_shown(array), [buffer, array.size, kind]))

    def reduce_scatter(self, out: Array, array: Array, op: ReduceOp) -> Request:
        buffer, _, kind = _shown(array)
        combining = _combining(array, op)
        return MPIRequest(self.comm.Ireduce_scatter_block([buffer, out.size, kind], _shown(out), combining))

    def all_to_all(self, out: Array, out_counts: Sequence[int], array: Array, counts: Sequence[int]) -> Request:
        received, _, kind = _shown(out)
        sent = _shown(array)[0]
        return MPIRequest(self.comm.Ialltoallv([sent, list(counts), kind], [received, list(out_counts), kind]))

    def gather(self, out: Array | None, array: Array, root: int) -> Request:
        received = None if out is None else [out.view(np.uint8), array.size, _shown(array)[2]]
        return MPIRequest(self.comm.Igather(_shown(array), received, root))

    def scatter(self, out: Array, array: Array | None, root: int) -> Request:
        sent = None if array is None else [array.view(np.uint8), out.size, _shown(out)[2]]
        return MPIRequest(self.comm.Iscatter(sent, _shown(out), root))

    def barrier(self) -> Request:
        return MPIRequest(self.comm.Ibarrier())

    def send(self, array: Array, to: int, tag: int) -> Request:
        return MPIRequest(self.comm.Isend(_shown(array), to, tag))

    def receive(self, array: Array, source: int | None, tag: int) -> Request:
        peer = self.MPI.ANY_SOURCE if source is None else source
        return MPIRequest(self.comm.Irecv(_shown(array), peer, tag), is_message=True)

    def split(self, ranks: Sequence[int], tag: int) -> Channel | None:
        """A channel of some ranks, for those of them that call; None elsewhere."""
        if self.rank not in ranks:
            return None
        group = self.comm.Get_group().Incl(list(ranks))
        return MPIChannel(self.comm.Create_group(group, tag))

    def close(self) -> None:
        self.comm.Free()


def open_world() -> tuple[MPIChannel, list[tuple[str, int]]]:
    """The channel of all ranks, and where each runs: its host's name and its process number."""
    MPI = load_mpi()
    world = MPIChannel(MPI.COMM_WORLD.Dup())
    places = MPI.COMM_WORLD.allgather((socket.gethostname(), os.getpid()))
    return world, places
