"""weft.distributed: what programs ask before they train in several processes. weft computes in one: questions are
answered, uses are refused."""

from __future__ import annotations

from enum import Enum
from typing import Any

from weft.support.absent import refused
from weft.support.errors import StateError

_USES = (
    "all_gather", "all_gather_into_tensor", "all_gather_object", "all_reduce", "all_to_all", "barrier", "broadcast",
    "broadcast_object_list", "destroy_process_group", "gather", "gather_object", "get_backend", "get_global_rank",
    "get_process_group_ranks", "get_rank", "get_world_size", "init_process_group", "irecv", "isend",
    "monitored_barrier", "new_group", "recv", "reduce", "reduce_scatter", "reduce_scatter_tensor", "scatter",
    "scatter_object_list", "send",
)
__all__ = [
    "Backend", "GroupMember", "ProcessGroup", "ReduceOp", "Work", "group", "is_available", "is_gloo_available",
    "is_initialized", "is_mpi_available", "is_nccl_available", "is_torchelastic_launched", "is_ucc_available",
    "is_xccl_available",
]
__path__: list[str] = []


def is_available() -> bool:
    """Whether processes can compute together: never."""
    return False


is_initialized = is_mpi_available = is_nccl_available = is_gloo_available = is_available
is_ucc_available = is_xccl_available = is_torchelastic_launched = is_available


class ReduceOp(Enum):
    """How values of several processes would become one: names."""

    SUM = 0
    AVG = 1
    PRODUCT = 2
    MIN = 3
    MAX = 4
    BAND = 5
    BOR = 6
    BXOR = 7


class Backend(str):
    """The name of what would carry tensors between processes."""

    UNDEFINED, GLOO, NCCL, UCC, MPI, XCCL = "undefined", "gloo", "nccl", "ucc", "mpi", "xccl"


class ProcessGroup:
    """Several processes that compute together: a type that programs name. Raises StateError where it is made."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        raise StateError("ProcessGroup: weft computes in one process; ask weft.distributed.is_available() first")


class Work:
    """What is under way between processes: a type that programs name."""


class GroupMember:
    """Membership in a group of processes: names."""

    WORLD: Any = None
    NON_GROUP_MEMBER: Any = -100


group = GroupMember


def _refused(name: str) -> Any:
    reason = f"distributed.{name}: weft computes in one process. Ask weft.distributed.is_available() first."
    return refused(name, __name__, reason, "Refused: there is one process.", StateError)


def __getattr__(name: str) -> Any:
    """What only several processes can do: refused where it is called."""
    if name not in _USES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return globals().setdefault(name, _refused(name))


def __dir__() -> list[str]:
    return sorted({*globals(), *_USES})
