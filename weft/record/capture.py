"""Capture: the mode in which operators on tensors are recorded into a graph instead of computed.

One object for each job: where nodes go (recorder.py), symbolic tensors (tensors.py), tensors from outside (outside.py),
what is taken back (writes.py), `.grad` (gradients.py, wrapper_gradients.py), Python numbers and facts
(numbers/lifted.py), backward (evaluator.py).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any, TypeVar

from weft.autograd import engine
from weft.autograd.function import FunctionNode
from weft.autograd.node import Node, OpNode
from weft.guards.asides import users_aside
from weft.guards.watching import unwatched
from weft.ir.builder import Builder
from weft.ir.graph import Value
from weft.ops.op import Op
from weft.ops.packet import aten
from weft.record.backend import CaptureBackend
from weft.record.blocks.memory import OpenBlock
from weft.record.evaluator import OpaqueEvaluator
from weft.record.gradients import LeafGradients
from weft.record.numbers.lifted import LiftedNumbers
from weft.record.numbers.random_state import RandomState
from weft.record.numbers.specialize import specialized
from weft.record.outside import GuardedState
from weft.record.python_calls import PythonCalls
from weft.record.recorder import GraphRecorder, paused, refusal
from weft.record.repeats.each_call import EachCall
from weft.record.symbolic import SymbolicPayload
from weft.record.tensors import SymbolicTensors
from weft.record.wrapper_gradients import WrapperGradients
from weft.record.writes import Writes
from weft.runtime.generator import Place, key_of_seed
from weft.support.asides import aside
from weft.support.errors import CaptureError, WeftError
from weft.support.locations import user_location
from weft.tensor.modes import modes
from weft.tensor.tensor import Tensor
from weft.types import shape_env
from weft.types.dims import symbol
from weft.types.shape_env import ShapeEnv
from weft.types.sym import to_dim

R = TypeVar("R")
DETACH = aten.detach.default.op
_STRANGE_STATE = (
    "a compiled function puts a generator into a state that it has not asked for itself (get_rng_state): the seed in "
    "it is only known when the program runs. Do so outside of the function, or give it two numbers, "
    "(Generator.initial_seed(), Generator.offset)"
)


class Capture:
    """One run of a function with symbolic tensors. What the rest of weft may ask of it is tensor/capture.py's protocol.
    """

    def __init__(self, name: str, env: ShapeEnv | None = None) -> None:
        self.env = env or ShapeEnv()
        self.recorder = GraphRecorder(name, self.env)
        self.writes = Writes()
        self.python_state = LiftedNumbers(self.recorder, lambda: len(self.calls.recorded))
        self.outside = GuardedState(self.recorder, self.writes, self.python_state)
        self.tensors = SymbolicTensors(self.recorder, self.outside, self.writes)
        self.python_state.run_numbers = self.tensors.run_numbers
        self.leaf_gradients = LeafGradients(self.recorder, self.tensors, self.outside)
        self.gradients = WrapperGradients(self.leaf_gradients, self.outside)
        self.random: list[RandomState] = []
        self.calls = PythonCalls(
            self.recorder, self.tensors, self.outside, self.leaf_gradients, self.writes, self.random
        )
        self.evaluator = OpaqueEvaluator(
            self.recorder, self.tensors, self.leaf_gradients, self.calls.note_saved, lambda: self.repeats.resting()
        )
        self.calls.ran = lambda: self.evaluator.ran
        functions = self.calls.functions
        self.hooks, self.call_rule, self.call_forward = self.calls.hooks, functions.call_rule, functions.call_forward
        self.backend = CaptureBackend(self.tensors, self.calls.refuse_draws)
        self.changing_sizes: Collection[str] = ()  # symbols of sizes for which earlier programs did not fit
        self.has_loops_for_sizes = False  # whether it has a loop for that reason
        self.loops_of_one_length: list[str] = []  # loops over a size that do not go on for others, with the reason
        self.random_states: dict[Value, Place] = {}
        self.repeats = EachCall()
        self.recorder.end_repeats = lambda: self.repeats.end()
        self.python_state.may_change = lambda size: self.repeats.may_change(size)

    # ---- the mode
    @contextmanager
    def active(self) -> Iterator[Capture]:
        """Record what runs inside. After an exception, everything touched is as before."""
        previous = modes.capture
        modes.capture = self
        try:
            with users_aside(aside), shape_env.using(self.env), engine.install(self.evaluator):
                yield self
        except BaseException as error:
            self.restore()
            self.writes.roll_back()
            if isinstance(error, WeftError):
                self.recorder.explain_raised(error)
            raise
        finally:
            self.repeats.abandon()
            modes.capture = previous
            self.python_state.settle_numbers()

    def restore(self) -> None:
        """Put concrete tensors back as they were: the program that was captured will act, the capture has not."""
        self.gradients.return_borrowed()
        self.writes.restore()
        self.outside.flags.restore()

    @contextmanager
    def block(self) -> Iterator[tuple[Builder, OpenBlock]]:
        """Record into a nested block. What it writes of outer memory is undone where it ends; Python's state it may not
        change."""
        self.repeats.end()
        block = OpenBlock(self.recorder, self.tensors, self.writes)
        with self.calls.without_writes(), self.recorder.inner(block) as inner:
            yield inner, block

    # ---- what layers, modules and optimizers ask
    def call(self, function: Callable[..., R], *args: Any) -> R:
        """Call machinery of weft's, unwatched and with its errors explained."""
        return unwatched(self.explained, function, *args)  # type: ignore[no-any-return]

    def explained(self, function: Callable[..., R], *args: Any) -> R:
        """Call machinery of weft's. The user's line is put before the text of its errors, and what symbols stand for
        behind it.
        """
        try:
            return function(*args)
        except WeftError as error:
            self.recorder.explain(error, user_location(2))
            raise

    def written(self, function: Callable[[Op, tuple[Any, ...]], Any], op: Op, args: tuple[Any, ...]) -> Any:
        """Run an in-place operator: what was predicted before is recorded before."""
        return self.repeats.write(function, op, args)

    def detached(self, tensor: Tensor, make: Callable[[], Tensor]) -> Tensor:
        """What `tensor.detach()` gives, which `make` makes: a call that may repeat, where the function computed it."""
        if type(tensor) is not Tensor or type(tensor._data) is not SymbolicPayload:
            return make()
        repeats = self.repeats
        repeats.call = DETACH, (tensor,)
        for out in repeats.predicted:
            return out  # type: ignore[no-any-return]
        return unwatched(repeats.run, lambda op, args: make(), DETACH, (tensor,))  # type: ignore[no-any-return]

    def expect_history(self, args: tuple[Any, ...], node: OpNode) -> None:
        """A call with these arguments is about to be recorded that has a history."""
        self.recorder.histories.expect(args, node)

    def note_history(self, out: Any) -> None:
        """What a call gave, or wrote, has a new history: that of the value that it has now."""
        self.tensors.note_history(out)

    def note_view(self, op: Op, args: tuple[Any, ...], node: OpNode, out: Any) -> None:
        """This view operator gave views with this history."""
        self.tensors.note_view(op, args, node, out)

    def note_function(self, node: FunctionNode, inputs: Sequence[Tensor], outputs: Sequence[Any]) -> None:
        """A custom Function was called with these tensors, and has this node."""
        self.tensors.note_function(node, inputs, outputs)

    def with_hooks(self, node: Node, grads: list[Any], run: Callable[[Node, list[Any]], None]) -> None:
        """Run hooks of a node, or of its tensors. (Within blocks nothing is noted of it.)"""
        if self.recorder.depth or modes.grad or self.tensors.has_wrappers(grads):
            return run(node, grads)
        before, histories = self.tensors.operand(grads), self.recorder.histories
        with histories.of_formulas(grads):
            run(node, grads)
            if self.tensors.has_wrappers(grads):
                return
            grads[:] = self.tensors.of_formula(grads)
        histories.note_hooked(node, before, self.tensors.operand(grads))

    def note_renewal(self, view: Tensor) -> None:
        """The history of a view is about to be brought up to date: what it is within a block is the block's."""
        if self.recorder.open:
            self.recorder.open[-1].keep_history(view)

    def specialized(self, op: Op, args: tuple[Any, ...]) -> tuple[Any, ...]:
        """Bound arguments; numbers whose value decides what is computed (`Op.specialize`) are Python's, and guarded."""
        return specialized(self.python_state, op, args)

    def at_one_line(self) -> AbstractContextManager[None]:
        """Within the block only code of weft's own runs: the user's line is looked for once."""
        return self.recorder.at_line(self.recorder.builder.where or user_location(2))

    def paused(self) -> AbstractContextManager[None]:
        """Compute for real within a block (optimizer state is made this way)."""
        return paused()

    def on_roll_back(self, undo: Callable[[], None]) -> None:
        """Call `undo` should the capture fail."""
        self.writes.on_roll_back(undo)

    def keep_random_state(self, tensor: Tensor, place: Place) -> None:
        """The tensor says where a generator stands."""
        self.random_states[self.tensors.operand(tensor)] = place

    def random_state_of(self, state: Any) -> Place:
        """Where a generator is put that is to go to a state: a tensor, or seed and offset. Raises CaptureError for a
        tensor that does not come from this call's `get_rng_state`.
        """
        if isinstance(state, Tensor):
            kept = self.random_states.get(self.tensors.operand(state))
            if kept is None:
                raise self.refuse(_STRANGE_STATE)
            return kept
        seed, offset = map(to_dim, state)
        for stream_state in self.random:
            if stream_state.stream.seed_symbol is not None and stream_state.stream.seed_symbol == seed:
                return seed, symbol(stream_state.key), offset
        word = int(state[0]) & (1 << 64) - 1
        return word, key_of_seed(word), offset

    def marks_of_generators(self, left_out: Any) -> list[Any]:
        """What changes where the function draws from its generators, one of them left out."""
        return [state.stream.marks() for state in self.random if state.generator is not left_out]

    def refuse_draws(self, what: str) -> None:
        """Raises: the function runs as it is written, since it draws as no program can."""
        self.calls.refuse_draws(what)

    def refuse(self, what: str) -> CaptureError:
        """The error for something that a compiled function may not do, with the user's line."""
        return refusal(what, 3)
