"""Calls of functions in other processes: weft has none. The names are there since programs import them and ask
`is_available()`; whoever starts them is told so."""

from __future__ import annotations

from typing import Any, NoReturn

from weft.support.errors import Unsupported

__all__ = [
    "RRef", "RpcBackendOptions", "TensorPipeRpcBackendOptions", "WorkerInfo", "get_worker_info", "init_rpc",
    "is_available", "remote", "rpc_async", "rpc_sync", "shutdown",
]  # fmt: skip


def _refuse(name: str) -> NoReturn:
    raise Unsupported(
        f"torch.distributed.rpc.{name}: weft calls no functions in other processes; weft.distributed has collectives "
        "and messages between them"
    )


class _Absent:
    """A type that nothing is of. Raises Unsupported where it is made."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        _refuse(type(self).__name__)


class RRef(_Absent):
    """A value in another process. Raises Unsupported where it is made."""


class RpcBackendOptions(_Absent):
    """How calls are carried. Raises Unsupported where it is made."""


class TensorPipeRpcBackendOptions(RpcBackendOptions):
    """Idem, over TensorPipe. Raises Unsupported where it is made."""


class WorkerInfo(_Absent):
    """The name and the number of a process. Raises Unsupported where it is made."""


def is_available() -> bool:
    """False: there are no such calls."""
    return False


def init_rpc(*args: Any, **kwargs: Any) -> NoReturn:
    """Start to serve calls. Raises Unsupported."""
    _refuse("init_rpc")


def rpc_sync(*args: Any, **kwargs: Any) -> NoReturn:
    """Call a function in another process, and wait. Raises Unsupported."""
    _refuse("rpc_sync")


def rpc_async(*args: Any, **kwargs: Any) -> NoReturn:
    """Call a function in another process. Raises Unsupported."""
    _refuse("rpc_async")


def remote(*args: Any, **kwargs: Any) -> NoReturn:
    """Call a function in another process, where its result stays. Raises Unsupported."""
    _refuse("remote")


def get_worker_info(*args: Any, **kwargs: Any) -> NoReturn:
    """Which process this is. Raises Unsupported."""
    _refuse("get_worker_info")


def shutdown(*args: Any, **kwargs: Any) -> NoReturn:
    """Serve no more calls. Raises Unsupported."""
    _refuse("shutdown")
