"""Messages from one rank to another."""

from __future__ import annotations

from typing import Any

from weft.distributed.buffers import check_tensor, read, written
from weft.distributed.collectives import root_in
from weft.distributed.groups import ProcessGroup, is_member, the_group
from weft.distributed.work import Work, move_on
from weft.support.errors import ValueProblem
from weft.tensor.tensor import Tensor


def _peer(group: ProcessGroup, peer: int | None, group_peer: int | None, what: str) -> int:
    rank = root_in(group, peer, group_peer, what)
    if rank == group.rank():
        raise ValueProblem(f"{what}: rank {rank} is this rank itself")
    return rank


def isend(
    tensor: Tensor, dst: int | None = None, group: Any = None, tag: int = 0, group_dst: int | None = None
) -> Work | None:
    """Start to send a tensor to rank `dst`; it must stay as it is until the Work is done."""
    if not is_member(group):
        return None
    on = the_group(group)
    to = _peer(on, dst, group_dst, "isend")
    sent = read(check_tensor("isend", tensor), "isend")
    what = f"send to rank {on.ranks[to]}"
    return move_on(on.start(what, on.channel.send(sent, to, tag), lambda: tensor, sent, is_message=True))


def irecv(
    tensor: Tensor, src: int | None = None, group: Any = None, tag: int = 0, group_src: int | None = None
) -> Work | None:
    """Start to receive a tensor from rank `src` (from any if None) into `tensor`."""
    if not is_member(group):
        return None
    on = the_group(group)
    source = None if src is None and group_src is None else _peer(on, src, group_src, "irecv")
    buffer, finish = written(check_tensor("irecv", tensor), "irecv")
    what = "recv from any rank" if source is None else f"recv from rank {on.ranks[source]}"
    return move_on(on.start(what, on.channel.receive(buffer, source, tag), finish, buffer, is_message=True))


def send(tensor: Tensor, dst: int | None = None, group: Any = None, tag: int = 0, group_dst: int | None = None) -> None:
    """Send a tensor to rank `dst`; it may be changed afterwards."""
    work = isend(tensor, dst, group, tag, group_dst)
    if work is not None:
        work.wait()


def recv(
    tensor: Tensor, src: int | None = None, group: Any = None, tag: int = 0, group_src: int | None = None
) -> int:
    """Receive a tensor from rank `src` (from any if None) into `tensor`. Returns the sender's global rank; -1 outside
    of the group."""
    work = irecv(tensor, src, group, tag, group_src)
    if work is None:
        return -1
    work.wait()
    return the_group(group).ranks[work.source_rank()]


class P2POp:
    """One message for batch_isend_irecv: `op` is isend or irecv."""

    def __init__(
        self, op: Any, tensor: Tensor, peer: int | None = None, group: Any = None, tag: int = 0,
        group_peer: int | None = None,
    ) -> None:
        self.op, self.tensor, self.peer, self.group = op, tensor, peer, group
        self.tag, self.group_peer = tag, group_peer


def batch_isend_irecv(p2p_op_list: list[P2POp]) -> list[Work]:
    """Start several messages."""
    works = [p.op(p.tensor, p.peer, p.group, p.tag, p.group_peer) for p in p2p_op_list]
    return [work for work in works if work is not None]
