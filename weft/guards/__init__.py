"""Guards on Python state: what the function that was captured read, whether any of it has changed, and what it wrote.

    result, observation = observe(step, (x, y), kinds=Kinds(leaves=(Tensor,), modules=(Module,)))
    ...
    if not observation.guards.check():                 # on the next call: one generated function
        miss = observation.guards.first_miss()         # train.py:12: self.temperature was 0.7, is now 0.5
        if miss.is_number:                           # capture again with a stand-in, and never miss for it again
            with observation.substitute([(miss.lift_target, SymFloat())]) as lifted:
                result, observation = observe(step, (x, y), kinds=kinds, substitution=lifted)
            numbers = [get() for get in lifted.getters]   # runtime inputs of later calls

Start reading at observation.py (the whole story on a page), then frame_watcher.py (the profile hook), analyse.py
(bytecode to Plan), visit.py and reads.py (a frame's Plan to recorded reads), guard.py and guard_set.py (the check),
writes.py and effects.py (what changed, what is refused).

asked.py has what Python answers from hidden state, and which objects written in C tell what they hold.

What is not seen: code in C that keeps Python objects where nothing leads to them, builtins that are replaced, frames
of callers, and the content of NumPy arrays above 1 MiB (their identity is guarded). What was drawn from an older
iterator in a `for` cannot be put back when the call is refused. Where `is_strict`, all this is refused when it is met.
Imports support/ only; Tensor, Module and the rest are known through `Kinds`.
"""

from weft.guards.effects import SideEffectError
from weft.guards.frame_watcher import FrameWatcher
from weft.guards.guard import Miss
from weft.guards.guard_set import GuardSet
from weft.guards.kinds import Kinds
from weft.guards.lifting import Substitution
from weft.guards.observation import Midway, Observation, observe
from weft.guards.origin import Origins
from weft.guards.slots import ContentSlot, Slot
from weft.guards.switches import Switch
from weft.guards.values import MISSING, number_kind
from weft.guards.writes import NumberWrite, ObjectWrite, Write

__all__ = [
    "MISSING",
    "ContentSlot",
    "FrameWatcher",
    "GuardSet",
    "Kinds",
    "Midway",
    "Miss",
    "NumberWrite",
    "ObjectWrite",
    "Observation",
    "Origins",
    "SideEffectError",
    "Slot",
    "Substitution",
    "Switch",
    "Write",
    "number_kind",
    "observe",
]
