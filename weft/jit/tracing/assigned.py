"""What a traced Module's Python assigns to its attributes: buffers are assigned by the program too, and nothing that
belongs to the trace stays on a Module.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from weft.jit.module import ScriptModule
from weft.jit.tracing.structures import holds_traced, unwrapped
from weft.jit.tracing.values import PLACE, TracedTensor
from weft.nn.modules.module import Module
from weft.tensor.tensor import Tensor


class Assigned:
    """The tensors and attributes of a Module, and of those within it, before it is traced."""

    def __init__(self, root: ScriptModule | None) -> None:
        original = None if root is None else root.__dict__["_original"]
        self.modules: list[Module] = [] if original is None else list(original.modules())
        self.buffers = [dict(m._buffers) for m in self.modules]

    @contextmanager
    def shown(self, show: Callable[[Tensor], TracedTensor]) -> Iterator[None]:
        """Within the block the Modules' tensors are the trace's, also for what asks no mode: weft's own Python."""
        tables: list[dict[str, Any]] = [t for m in self.modules for t in (m._parameters, m._buffers)]
        entries = [
            (table, name, tensor, show(tensor)) for table in tables
            for name, tensor in table.items() if tensor is not None
        ]
        for table, name, _, traced in entries:
            table[name] = traced
        try:
            yield
        finally:
            for table, name, tensor, traced in entries:
                if table.get(name) is traced:  # else it was assigned
                    table[name] = tensor

    def record(self, recorder: Any) -> None:
        """The program assigns the buffers that were assigned."""
        for module, before in zip(self.modules, self.buffers, strict=True):
            for name, tensor in module._buffers.items():
                path = recorder.modules.get(id(module))
                if isinstance(tensor, TracedTensor) and tensor is not before.get(name) and path is not None:
                    operands = (recorder._at(path).operand, name, recorder.left(tensor).operand)
                    recorder.ctx.emit(recorder.ctx.op("prim::SetAttr"), operands, PLACE, ())

    def restore(self) -> None:
        """Modules hold tensors and numbers as they are outside of a trace."""
        for module in self.modules:
            for table in (module._buffers, vars(module)):
                for name, value in list(table.items()):
                    if holds_traced(value):
                        table[name] = unwrapped(value)
