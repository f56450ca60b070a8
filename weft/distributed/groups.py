"""Process groups: how they start and end, which ranks they have."""

from __future__ import annotations

import itertools
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from weft.distributed.channel import Alone, Channel
from weft.distributed.launched import read_launched
from weft.distributed.mpi import has_mpi, open_world
from weft.distributed.names import DEFAULT_TIMEOUT, Backend, ReduceOp
from weft.distributed.peers import Peers
from weft.distributed.work import Work
from weft.support.errors import StateError, ValueProblem

_CARRIED = ("mpi", "gloo", "cpu:gloo", "cpu:mpi", "cpu:gloo,cuda:nccl", "undefined")


class ProcessGroup:
    """Ranks that compute together. Made by init_process_group and new_group.

    ranks: global ranks, by rank in the group.
    """

    def __init__(
        self, channel: Channel | None = None, ranks: Sequence[int] = (), timeout: timedelta = DEFAULT_TIMEOUT,
        name: str = "", peers: Peers | None = None, number: int = 0,
    ) -> None:
        if channel is None:
            raise StateError("ProcessGroup: init_process_group and new_group make groups")
        self.channel, self.ranks, self.name, self.peers = channel, tuple(ranks), name, peers
        self.timeout, self.number = timeout, number
        self._numbers = itertools.count(1)

    def rank(self) -> int:
        """This process's rank in the group."""
        return self.channel.rank

    def size(self) -> int:
        """How many ranks there are."""
        return self.channel.size

    def start(self, what: str, request: Any, finish: Any = None, keeps: Any = None, is_message: bool = False) -> Work:
        """A transfer of this group's as a Work. what: its name in errors."""
        if not is_message:
            what = f"{what} (collective {next(self._numbers)} of group {self.name!r})"
        return Work(request, what, self.peers, self.ranks, self.timeout.total_seconds(), finish, keeps)

    def __repr__(self) -> str:
        return f"<ProcessGroup {self.name!r}: rank {self.rank()} of {self.size()}>"


class _GroupMember:
    """Membership in a group of processes."""

    NON_GROUP_MEMBER: Any = -100

    @property
    def WORLD(self) -> ProcessGroup | None:
        """The group of all ranks; None before init_process_group."""
        return _state.world


@dataclass
class _State:
    world: ProcessGroup | None = None
    groups: int = 0  # that were asked for so far: the same number in every rank
    by_number: dict[int, ProcessGroup] = field(default_factory=dict)


_state = _State()
GroupMember = group = _GroupMember()


def is_mpi_available() -> bool:
    """Whether mpi4py is installed."""
    return has_mpi()


def is_available() -> bool:
    """Whether processes can compute together: whether mpi4py is installed (`pip install 'weft[mpi]'`). Without it a
    group of one process can be made all the same."""
    return has_mpi()


def is_initialized() -> bool:
    """Whether there is a process group."""
    return _state.world is not None


def _never() -> bool:
    """False: weft has no such back end."""
    return False


is_nccl_available = is_gloo_available = is_ucc_available = is_xccl_available = _never


def is_torchelastic_launched() -> bool:
    """Whether torchrun started this process."""
    return "TORCHELASTIC_RUN_ID" in os.environ


def init_process_group(
    backend: str | None = None, init_method: str | None = None, timeout: timedelta | None = None,
    world_size: int = -1, rank: int = -1, store: Any = None, group_name: str = "", pg_options: Any = None,
    device_id: Any = None,
) -> None:
    """Start the group of all ranks. Every rank calls it once.

    backend: "mpi", or None for it. "gloo" is taken too, for programs that name PyTorch's back end of CPUs, and MPI
        carries their collectives: get_backend() says "mpi".
    init_method: None or "env://": the launcher says who takes part (mpiexec, srun --mpi=..., weft.distributed.run).
    timeout: how long a collective waits for the other ranks, 30 minutes if None.
    world_size, rank: checked against what the launcher says.

    A process that no launcher started is a group of one, for which no MPI is needed. Raises StateError where a
    launcher says that there are several ranks and MPI does not know of them, ValueProblem for other back ends.
    """
    if _state.world is not None:
        raise ValueProblem("trying to initialize the default process group twice!")
    name = (backend or "mpi").lower()
    if name not in _CARRIED:
        raise ValueProblem(f'init_process_group: there is no backend {backend!r}; weft has "mpi" (docs/scale.md)')
    if init_method not in (None, "env://") or store is not None:
        raise ValueProblem(
            f"init_process_group: the ranks meet through MPI, not by {init_method or 'a store'}; start them with "
            "mpiexec or python -m weft.distributed.run"
        )
    limit = DEFAULT_TIMEOUT if timeout is None else timeout
    world = _open(limit)
    if (world_size, rank) != (-1, -1) and (world_size, rank) != (world.size(), world.rank()):
        seen = f"rank {world.rank()} of {world.size()}"
        _close(world)
        asked = f"world_size={world_size}, rank={rank}"
        raise ValueProblem(f"init_process_group: {asked}, but the launcher made this {seen}")
    _state.world = _state.by_number[0] = world


def _open(timeout: timedelta) -> ProcessGroup:
    launched = read_launched()
    if (launched is None or launched.size == 1) and not has_mpi():
        return ProcessGroup(Alone(), (0,), timeout, "world")
    if launched is None:
        return ProcessGroup(Alone(), (0,), timeout, "world")
    if not has_mpi():
        raise StateError(
            f"init_process_group: {launched.launcher} started {launched.size} ranks, and mpi4py is not installed: "
            "pip install 'weft[mpi]'"
        )
    channel, places = open_world()
    if channel.size != launched.size:
        raise StateError(_UNKNOWN_TO_MPI.format(launched=launched, size=channel.size))
    peers = Peers(channel.rank, places)
    return ProcessGroup(channel, range(channel.size), timeout, "world", peers)


_UNKNOWN_TO_MPI = (
    "init_process_group: {launched.launcher} started {launched.size} ranks, but MPI sees {size}. The launcher has to "
    "know the MPI library: mpiexec of the same installation, python -m weft.distributed.run -n {launched.size} (in "
    "place of torchrun, on one machine), or srun --mpi=pmi2"
)


def _close(group: ProcessGroup) -> None:
    group.channel.close()
    if group.peers is not None and group.name == "world":
        group.peers.close()


def destroy_process_group(group: ProcessGroup | None = None) -> None:
    """End a group, or all of them. Raises ValueProblem if there is none."""
    if group is GroupMember.NON_GROUP_MEMBER:
        return
    ended = the_group(group)
    _close(ended)
    _state.by_number.pop(ended.number, None)
    if ended is _state.world:
        _state.world = None


def the_group(group: Any = None) -> ProcessGroup:
    """A group, or the one of all ranks for None. Raises ValueProblem where there is none, or this rank is not in it."""
    if group is None:
        group = _state.world
        if group is None:
            raise ValueProblem(
                "Default process group has not been initialized, please make sure to call init_process_group."
            )
    if not isinstance(group, ProcessGroup):
        raise ValueProblem("Invalid process group specified: this rank is not a member of it")
    return group


def is_member(group: Any) -> bool:
    """Whether this rank takes part in a group."""
    return group is None or isinstance(group, ProcessGroup)


def new_group(
    ranks: Sequence[int] | None = None, timeout: timedelta | None = None, backend: str | None = None,
    pg_options: Any = None, use_local_synchronization: bool = False, group_desc: str | None = None,
) -> Any:
    """A group of some ranks (all if None), which every rank of the world must call in the same order. For ranks that
    are not in it the result is GroupMember.NON_GROUP_MEMBER. Raises ValueProblem for ranks that there are not."""
    world = the_group()
    chosen = list(range(world.size())) if ranks is None else sorted(ranks)
    if len(set(chosen)) != len(chosen) or not all(0 <= r < world.size() for r in chosen):
        raise ValueProblem(f"new_group: ranks {list(ranks or ())} are not different ranks of 0 to {world.size() - 1}")
    _state.groups += 1
    channel = world.channel.split(chosen, _state.groups)
    if channel is None:
        return GroupMember.NON_GROUP_MEMBER
    limit = world.timeout if timeout is None else timeout
    name = group_desc or f"group {_state.groups}"
    group = ProcessGroup(channel, chosen, limit, name, world.peers, _state.groups)
    _state.by_number[group.number] = group
    return group


def group_of_number(number: int) -> ProcessGroup:
    """The group that a program names. Raises ValueProblem where it has been destroyed."""
    group = _state.by_number.get(number)
    if group is None:
        raise ValueProblem(f"a collective of process group {number}, which is not there (any more)")
    return group


def get_rank(group: Any = None) -> int:
    """This process's rank in a group (in all of them together if None); -1 outside of it."""
    return the_group(group).rank() if is_member(group) else -1


def get_world_size(group: Any = None) -> int:
    """The number of ranks of a group; -1 outside of it."""
    return the_group(group).size() if is_member(group) else -1


def get_backend(group: Any = None) -> str:
    """The name of what carries tensors: "mpi"."""
    the_group(group)
    return Backend(Backend.MPI)


def get_process_group_ranks(group: Any = None) -> list[int]:
    """The global ranks of a group, in the order of its own ranks."""
    return list(the_group(group).ranks)


def get_global_rank(group: ProcessGroup, group_rank: int) -> int:
    """The global rank of a rank of a group. Raises ValueProblem if it has none such."""
    ranks = the_group(group).ranks
    if not 0 <= group_rank < len(ranks):
        raise ValueProblem(f"Group rank {group_rank} is not part of group {group}")
    return ranks[group_rank]


def get_group_rank(group: ProcessGroup, global_rank: int) -> int:
    """The rank in a group of a global rank. Raises ValueProblem if it is not in it."""
    ranks = the_group(group).ranks
    if global_rank not in ranks:
        raise ValueProblem(f"Global rank {global_rank} is not part of group {group}")
    return ranks.index(global_rank)


def get_node_local_rank(fallback_rank: int | None = None) -> int:
    """This process's rank on its machine, as LOCAL_RANK says. Raises StateError where that is not set, without
    fallback_rank."""
    if "LOCAL_RANK" in os.environ:
        return int(os.environ["LOCAL_RANK"])
    if fallback_rank is None:
        raise StateError("LOCAL_RANK is not in the environment. Consider passing fallback_rank")
    return fallback_rank


reduce_op = ReduceOp
