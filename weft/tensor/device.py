"""Device: a kind of device with an optional index, as a value. Tensors are on those that have a back end;
others are refused where they are used."""

from __future__ import annotations

import threading
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any

from weft.runtime.generator import Generator
from weft.support.errors import ArgumentError, NoSuchDevice, StateError

if TYPE_CHECKING:
    from weft.tensor.backend import Backend

providers: dict[str, str] = {}  # by type of device: the package that registers its back end when it is imported
backends: dict[str, Backend] = {}  # by type of device: what makes its tensors (tensor/backend.py: `register`)
KNOWN = (
    "cpu", "meta", "lazy", "cuda", "mps", "xpu", "xla", "hip", "mtia", "hpu", "ipu", "maia", "vulkan", "npu",
    "privateuseone",
)


class Device(str):
    """A device. `weft.device("cpu")`; compares equal to its text. A device that this machine lacks is a value too:
    tensors cannot be put there.

    Within `with weft.device("lazy"):` factories make tensors there, unless they are told otherwise.
    """

    __slots__ = ()

    def __new__(cls, device: Any = "cpu", index: int | None = None, *, type: Any = None) -> Device:
        text = device if type is None else type
        if isinstance(text, Device) and index is None:
            return text
        if isinstance(text, int) and not isinstance(text, bool):
            raise NoSuchDevice(
                f"device {text}: an index alone names an accelerator, and there is none; use device='cpu'"
            )
        if not isinstance(text, str) or not (index is None or isinstance(index, int)):
            raise ArgumentError(
                f"device(): expected a text such as 'cpu', and an index, got {_kind(text)} and {_kind(index)}"
            )
        return str.__new__(cls, _checked(str(text), index))

    @property
    def type(self) -> str:
        """The kind of device: its text up to the colon."""
        return str(self).partition(":")[0]

    @property
    def index(self) -> int | None:  # type: ignore[override]  # PyTorch's name; str has a method of that name
        """Which of several devices of the kind; None where that is left open."""
        number = str(self).partition(":")[2]
        return int(number) if number else None

    def __repr__(self) -> str:
        return f"device(type='{self.type}'" + (f", index={self.index})" if self.index is not None else ")")

    def __enter__(self) -> Device:
        chosen.before = (*chosen.before, chosen.device)
        chosen.device = usable(self)
        return self

    def __exit__(self, *problem: object) -> None:
        *before, chosen.device = chosen.before
        chosen.before = tuple(before)


Generator.as_device = staticmethod(Device)


class _Chosen(threading.local):
    """The device that a thread's factories use where they are given none (None: the CPU), and those that it had outside
    of the blocks that it is in."""

    device: Device | None = None
    before: tuple[Device | None, ...] = ()


chosen = _Chosen()


def _checked(text: str, index: int | None) -> str:
    """The text of a device, or what is wrong with it."""
    kind, colon, number = text.partition(":")
    if kind not in KNOWN and kind not in backends:
        raise StateError(f"Expected one of {', '.join(KNOWN)} device type at start of device string: {text}")
    if colon and not (number.isascii() and number.isdigit() and number == str(int(number))):
        raise StateError(f"Invalid device string: '{text}'")
    if index is None:
        return text
    if colon:
        raise StateError(f"type (string) must not include an index because index was passed explicitly: {text}")
    if index < 0:
        raise StateError(f"Device index must not be negative, got {index}")
    return f"{kind}:{index}"


@cache
def device_named(kind: str) -> Device:
    """The device of a type, one object for each."""
    return Device(kind)


def _kind(value: object) -> str:
    return value.__class__.__name__


def usable(device: Any) -> Device:
    """The device, where tensors can be put. Raises NoSuchDevice for one without a back end."""
    where = device if type(device) is Device else Device(device)
    if where.type not in backends and where.type in providers:
        import_module(providers[where.type])
    if where.type not in backends:
        raise NoSuchDevice(f"device {str(where)!r}: weft computes on the CPU only; use device='cpu'")
    return where
