"""Where a program calls Python: the part before the call, what is made real before it, and the call itself."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from weft.autograd.function_context import FunctionCtx
from weft.autograd.node import InputMetadata
from weft.autograd.validate import validate
from weft.compile.program.call_plan import is_like, target_of
from weft.compile.program.frame import Frame
from weft.compile.program.parts import Place, ProgramPart
from weft.compile.program.step import PythonStep, call_python, zero
from weft.programs.executable import Compiled, Interpreted
from weft.programs.store import Variants
from weft.record.gradients import present_grad
from weft.record.python_call import Context, Size, ValueArgument
from weft.runtime.program import Interrupted
from weft.runtime.storage import root_of
from weft.support import limits, pytree
from weft.support.errors import VersionError
from weft.tensor.dense import is_dense, payload_of
from weft.tensor.tensor import Tensor, tensor_around
from weft.types import dims as dm

Executable = Interpreted | Compiled
_WRITTEN = (
    "{where}: one of the variables needed for gradient computation has been modified by an inplace operation: this "
    "hook writes a tensor of which the backward still reads what was saved"
)


@dataclass(eq=False)
class Boundary:
    """Call number `number` of a program, with the part before it.

    reads_after: where the program reads what is there after the call. is_next_of_table: whether the call before is of a
    hook on the same tensor. continuations: the programs in which a call of the function can go on after this one.
    """

    number: int
    part: ProgramPart
    executable: Executable | None
    step: PythonStep
    reads_after: set[Place]
    is_next_of_table: bool
    continuations: Variants[Any] = field(default_factory=lambda: Variants(limits.CONTINUATIONS_OF_A_CALL))

    # ---- up to the call
    def run_to_call(self, frame: Frame) -> None:
        """The part before the call, and what it did made real."""
        try:
            run_part(self.part, self.executable, frame)
        except Interrupted:
            self._write_back(frame)
            raise
        self._write_back(frame)
        self._copy_shared(frame)

    def _write_back(self, frame: Frame) -> None:
        """Make real what the part did: gradients, versions, generators."""
        effects = self.step.effects
        for zeroed in self.step.zeroed:
            zero(present_grad(target_of(zeroed, frame.leaves)))
        effects.apply(frame.leaves, frame.inputs, [], frame.symbols, frame.grads)
        for effect in effects.grad_effects:
            if effect.param is not None:
                frame.grads[effect.param] = present_grad(target_of(effect, frame.leaves))

    def _copy_shared(self, frame: Frame) -> None:
        """Copy what is read after the call as it is now and what Python may write."""
        inputs, slots = frame.inputs, frame.slots
        for old, slot in self.part.shared:
            slots[slot] = slots[old]
        for (held, at), slot in self.part.copied:
            slots[slot] = (inputs if held else slots)[at].copy()

    # ---- the call
    def make_call(self, frame: Frame) -> bool:
        """Call Python. Whether nothing was written of which it has a copy."""
        call = self.step.call
        arguments = self._arguments(frame)
        pairs = zip(arguments, call.arguments, strict=True)
        copies = [x for x, at in pairs if type(at) is ValueArgument and at.is_copy]
        hook = frame.hooks[self.number] if self._is_there(frame) else None
        versions, versions_of_copies = self.step.versions(frame.leaves), [x._version for x in copies]
        frame.arguments = pytree.unflatten(arguments, call.spec)
        frame.results = call_python(call, hook, frame.arguments)
        if self.step.versions(frame.leaves) != versions:
            raise VersionError(_WRITTEN.format(where=call.where))
        if [x._version for x in copies] != versions_of_copies:
            return False
        if self.has_expected_results(frame):
            self.take_results(frame)
        return True

    def _arguments(self, frame: Frame) -> list[Any]:
        arguments: list[Any] = []
        for i, leaf in enumerate(self.step.call.arguments):
            if type(leaf) is ValueArgument:
                held, at = self.part.arguments[leaf.operand]
                leaf = tensor_around(frame.inputs[at] if held else frame.slots[at])
            elif type(leaf) is Context:
                leaf = frame.contexts.setdefault(leaf.number, FunctionCtx(leaf.needs))
            elif type(leaf) is Size:
                leaf = dm.evaluate(leaf.dim, frame.symbols)
            arguments.append(frame.leaves[self.step.leaves[i]] if i in self.step.leaves else leaf)
        return arguments

    def _is_there(self, frame: Frame) -> bool:
        """Whether the hook is to be called: others before it may have removed it, but not one of the same tensor."""
        table, hook = self.step.call.table, frame.hooks[self.number]
        if table is None or self.is_next_of_table:
            return True
        return any([other is hook for other in table.values()])

    # ---- what it gave
    def has_expected_results(self, frame: Frame) -> bool:
        """Whether what a forward gave is what the program takes it to be."""
        call = self.step.call
        return call.forward is None or (
            len(frame.results) == len(call.likes) and all([
                value.dtype is dtype and value.shape == tuple([dm.evaluate(d, frame.symbols) for d in dims])
                for value, (dims, dtype) in zip(frame.results, call.likes, strict=True)
            ])
        )

    def has_results_like(self, frame: Frame) -> bool:
        """Whether the call gave what the program goes by, and None where that gives None."""
        call = self.step.call
        return self.has_expected_results(frame) and all(
            [(frame.results[i] is None) is (call.likes[i] is None) for i in call.places]
        )

    def take_results(self, frame: Frame) -> None:
        """Put what came back where the next part reads it."""
        places = [i for i, like in enumerate(self.step.call.likes) if like is not None]
        for slot, i in zip(self.part.results, places, strict=True):
            frame.slots[slot] = self._result(i, frame)

    def _result(self, place: int, frame: Frame) -> Any:
        """The bytes of a result, row-major, in memory that no part writes; None if there is none."""
        call, value = self.step.call, frame.results[place]
        like = call.likes[place]
        if value is None:
            return None
        if isinstance(like, tuple) and call.node is not None:
            dims = tuple([dm.evaluate(d, frame.symbols) for d in like[0]])
            value = validate(call.node.name(), place, value, InputMetadata(dims, like[1]))
        array = np.asarray(payload_of(value).materialize("the result of a hook"), order="C")
        root = root_of(array)
        is_shared = any([isinstance(x, np.ndarray) and root_of(x) is root for x in frame.inputs])
        return array.copy() if is_shared else array

    def take_gradients(self, frame: Frame) -> list[Tensor] | None:
        """The tensors whose `.grad` the function has set by now, of which those that Python replaced are taken up; None
        where one is not there, or is such as no program writes."""
        tensors = []
        for effect in self.step.gradients:
            tensor = target_of(effect, frame.leaves)
            tensors.append(tensor)
            now = present_grad(tensor)
            if (now is None) is not (effect.param is None):
                return None
            if now is None or effect.param is None:
                continue
            if not is_dense(now) or not is_like(now._data, tensor._data) or now._data.shape != tensor._data.shape:
                return None
            frame.inputs[effect.param], frame.grads[effect.param] = now._data, now
        return tensors


def run_part(part: ProgramPart, executable: Executable | None, frame: Frame) -> list[Any]:
    """Run a part. Gives its results."""
    if executable is None:
        return []
    inputs, slots = frame.inputs, frame.slots
    for param, slot in part.saved:
        slots[slot] = inputs[param].copy()
    operands = [inputs[at] if held else slots[at] for held, at in part.reads]
    results = executable.run(operands, frame.symbols)
    taken = set(map(id, operands))
    for at, slot in part.kept:
        array = results[at]
        slots[slot] = array.copy() if isinstance(array, np.ndarray) and id(array) in taken else array
        taken.add(id(array))
    return results
