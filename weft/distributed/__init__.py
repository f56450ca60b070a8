"""weft.distributed: processes that compute together, under PyTorch's names, carried by MPI (mpi4py: `weft[mpi]`).

names.py         reductions, back ends, errors      launched.py    what a launcher says in the environment
channel.py       the interface to what carries bytes; a group of one process       mpi.py    MPI, by mpi4py
peers.py         whether other ranks are there      work.py        collectives under way: waiting, time-outs
groups.py        how groups start and end           buffers.py     tensors as buffers
collectives.py, messages.py, objects.py             what ranks exchange
entries.py       collectives as operators, which programs keep in order
nn/              collectives that gradients flow through
optim.py         optimizers whose state is shared out      checkpoint.py     checkpoints of many ranks
run.py           `python -m weft.distributed.run -n 4 SCRIPT.py` starts ranks       rank_process.py    one of them

Start reading at groups.py. Without mpi4py there is one process: it may make a group of itself. docs/scale.md shows use.
"""

from __future__ import annotations

import weft.distributed.entries  # noqa: F401  (its operators)
from weft.distributed.collectives import (
    all_gather,
    all_gather_into_tensor,
    all_reduce,
    all_to_all,
    all_to_all_single,
    barrier,
    broadcast,
    gather,
    monitored_barrier,
    reduce,
    reduce_scatter,
    reduce_scatter_tensor,
    scatter,
)
from weft.distributed.groups import (
    GroupMember,
    ProcessGroup,
    destroy_process_group,
    get_backend,
    get_global_rank,
    get_group_rank,
    get_node_local_rank,
    get_process_group_ranks,
    get_rank,
    get_world_size,
    group,
    init_process_group,
    is_available,
    is_gloo_available,
    is_initialized,
    is_mpi_available,
    is_nccl_available,
    is_torchelastic_launched,
    is_ucc_available,
    is_xccl_available,
    new_group,
    reduce_op,
)
from weft.distributed.messages import P2POp, batch_isend_irecv, irecv, isend, recv, send
from weft.distributed.names import Backend, DistBackendError, DistError, ReduceOp
from weft.distributed.objects import all_gather_object, broadcast_object_list, gather_object, scatter_object_list
from weft.distributed.work import Work

__all__ = [
    "Backend", "DistBackendError", "DistError", "GroupMember", "P2POp", "ProcessGroup", "ReduceOp", "Work",
    "all_gather", "all_gather_into_tensor", "all_gather_object", "all_reduce", "all_to_all", "all_to_all_single",
    "barrier", "batch_isend_irecv", "broadcast", "broadcast_object_list", "destroy_process_group", "gather",
    "gather_object", "get_backend", "get_global_rank", "get_group_rank", "get_node_local_rank",
    "get_process_group_ranks", "get_rank", "get_world_size", "group", "init_process_group", "irecv", "is_available",
    "is_gloo_available", "is_initialized", "is_mpi_available", "is_nccl_available", "is_torchelastic_launched",
    "is_ucc_available", "is_xccl_available", "isend", "monitored_barrier", "new_group", "recv", "reduce", "reduce_op",
    "reduce_scatter", "reduce_scatter_tensor", "scatter", "scatter_object_list", "send",
]
