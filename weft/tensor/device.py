"""Device: "cpu", "meta" or "lazy", with an optional index. Anything else is refused plainly."""

from __future__ import annotations

from typing import Any

from weft.support.errors import StateError, ValueProblem

KNOWN = ("cpu", "meta", "lazy")
_ELSEWHERE = ("cuda", "mps", "xpu", "hip", "xla", "npu", "mtia", "hpu")


class Device(str):
    """A device. `weft.device("cpu")`; compares equal to its text."""

    __slots__ = ()

    def __new__(cls, text: Any = "cpu", index: int | None = None, *, type: Any = None) -> Device:
        text = text if type is None else type
        if isinstance(text, Device):
            return text
        kind, _, number = str(text).partition(":")
        if kind in _ELSEWHERE:
            raise StateError(f"device {str(text)!r}: weft computes on the CPU only; use device='cpu'")
        if kind not in KNOWN:
            raise ValueProblem(f"Expected one of {', '.join(KNOWN)} device type at start of device string: {text}")
        if number and not number.isdigit():
            raise ValueProblem(f"Invalid device string: '{text}'")
        at = int(number) if number else index
        return str.__new__(cls, kind if at is None else f"{kind}:{at}")

    @property
    def type(self) -> str:
        return str(self).partition(":")[0]

    @property
    def index(self) -> int | None:  # type: ignore[override]  # PyTorch's name; str has a method of that name
        number = str(self).partition(":")[2]
        return int(number) if number else None

    def __repr__(self) -> str:
        return f"device(type='{self.type}'" + (f", index={self.index})" if self.index is not None else ")")
