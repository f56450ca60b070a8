"""The guards of a program: whether a call fits, and the values of the program's symbols there."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from operator import is_
from typing import Any

from weft.autograd.anomaly import anomaly
from weft.autograd.hooks import does_more, hooks_on
from weft.autograd.saved import captured_hooks, default_hooks
from weft.compile.program.bound_state import BoundState
from weft.compile.program.call_plan import Symbols
from weft.compile.program.container_identity import IdentityGuard
from weft.compile.program.quick_match import Quick, quick_match
from weft.compile.program.state_guards import StateGuards
from weft.guards.guard import OBJECT, remedy_of
from weft.guards.values import MISSING, is_list_of_numbers, same
from weft.programs.arguments import (
    TensorFacts,
    expanded_dims,
    facts_of,
    layout_of,
    memory_order,
    shown_once,
    strides_of,
    with_given,
)
from weft.programs.program_io import (
    ArgumentSource,
)
from weft.programs.shape_check import shape_check
from weft.programs.store import Miss
from weft.record.capture import Capture
from weft.record.miss_text import call_text
from weft.record.numbers.random_state import RandomState
from weft.support import pytree
from weft.tensor.dense import dense_array, is_dense
from weft.tensor.device import chosen
from weft.tensor.modes import modes
from weft.tensor.tensor import Tensor
from weft.types import dtype as dt
from weft.types.dims import Expr
from weft.types.relation import ShapeGuard

# what a user can do about calls that find something else
_MODE = "nothing, if it changes seldom: each setting has a program of its own; else set it outside of the loop"
_STRUCTURE = "nothing, if there are few: each has a program of its own; else give as many arguments each time"
_ANOMALY = "leave the block of anomaly mode"
_TENSOR = (
    "each dtype, number of dims and memory format has a program of its own: convert arguments to one before the call "
    "(x.to(dtype), x.contiguous(), x.detach())"
)
_CLASS = "give the same kind of value at each call (a number always as a float, or as a tensor)"
_SIZES = (
    "the program asked a question about a size (an if, a broadcast of 1), and the answer is another one: pad to few "
    "sizes, or write it without the question; that a size changes makes no program by itself"
)
_QUESTION = (
    "the function asked a question about the number (an if, a range): each answer has a program of its own; make it a "
    "tensor and decide with weft.where, weft.cond or weft.while_loop"
)


_OBJECT = (
    "nothing, if this is said once: the next program takes any object of the class; else give the same object at each "
    "call, or what differs of it as tensors"
)


def _argument_remedy(old: Any, new: Any) -> str:
    """What to do about an argument that is another value."""
    remedy = remedy_of(old, new)
    return _OBJECT if remedy == OBJECT else remedy


class CallGuards:
    """Everything that a call is asked. facts: of each leaf that is a tensor or a lifted number; constants: the other
    leaves.
    """

    def __init__(
        self, facts: list[Any], leaves: list[Any], spec: pytree.TreeSpec, python: Any, state: StateGuards,
        bound: BoundState, sources: list[Any], random: list[RandomState], capture: Capture,
        identity: IdentityGuard | None,
    ) -> None:
        self.facts, self.spec, self.python, self.state, self.bound = facts, spec, python, state, bound
        self.constants = [None if isinstance(leaf, Tensor) else leaf for leaf in leaves]
        self.identity = identity
        self.grad_mode, self.default_dtype, self.saving = bool(modes.grad), dt.get_default(), captured_hooks()
        self.autocast = modes.autocast
        self.device, self.goes_backward = chosen.device, capture.evaluator.has_own_walks
        self.random, self.number_guards, self.env = random, capture.python_state.number_guards, capture.env
        self.numbers = capture.python_state.numbers
        self.shape_check, self.shape_names = shape_check(capture.env)
        outer = [n for n in capture.python_state.numbers if n.leaf is None]
        self.outer_keys, self.outer_getters = [n.key for n in outer], [n.getter for n in outer]
        self.leaf_numbers: list[tuple[str, int, int | None]] = [
            (n.key, n.leaf, n.element) for n in capture.python_state.numbers if n.leaf is not None
        ]
        arguments = [source for source in sources if type(source) is ArgumentSource]
        self.sizes = [(a.leaf, tuple((i, str(d)) for i, d in enumerate(a.dims) if type(d) is Expr)) for a in arguments]
        self.strides = [(a.leaf, tuple(map(str, a.strides))) for a in arguments if a.strides is not None]
        self.answered: tuple[Symbols, list[Any]] | None = None  # sizes and numbers for which the program holds
        self.quick = self._quick_match()

    def _quick_match(self) -> Quick | None:
        """The written-out check of the leaves, if they are simple enough for one."""
        state, memory = self.state, self.state.memory
        tensors = [i for i, fact in enumerate(self.facts) if type(fact) is TensorFacts]
        if (
            state.by_argument or self.strides or state.sharing != tuple([(i, i) for i in tensors])
            or any([element is not None for _, _, element in self.leaf_numbers])
        ):
            return None
        numbers = [(key, leaf) for key, leaf, _ in self.leaf_numbers]
        return quick_match(
            self.facts, self.constants, self.sizes, memory.outside, state.beside, memory.written, numbers
        )

    def match(self, leaves: list[Any], spec: pytree.TreeSpec) -> Symbols | Miss:
        """The values of the program's symbols for this call, or why it does not fit."""
        if spec is not self.spec and spec != self.spec:
            return Miss(
                lambda: f"the structure of the arguments was {call_text(self.spec)}, is now {call_text(spec)}", 0,
                remedy=_STRUCTURE,
            )
        if (modes.grad or False) is not self.grad_mode:
            return Miss(f"grad mode was {self.grad_mode}, is now {bool(modes.grad)}", 1, remedy=_MODE)
        if modes.autocast != self.autocast:
            return Miss(f"autocast was {self.autocast or 'off'}, is now {modes.autocast or 'off'}", 1, remedy=_MODE)
        if dt.get_default() is not self.default_dtype:
            return Miss(f"the default dtype was {self.default_dtype}, is now {dt.get_default()}", 1, remedy=_MODE)
        if chosen.device is not self.device and chosen.device != self.device:
            return Miss(
                f"the default device was {self.device or 'cpu'}, is now {chosen.device or 'cpu'}", 1, remedy=_MODE
            )
        if anomaly.enabled and self.goes_backward:
            return Miss("anomaly mode is on, in which backward() goes node by node", 1, remedy=_ANOMALY)
        if default_hooks.stack != self.saving and captured_hooks() != self.saving:
            return Miss(
                f"{len(self.saving)} saved_tensors_hooks were in force, are now {len(captured_hooks())} (or others)",
                1, remedy=_MODE,
            )
        if self.bound.places:
            problem = self.bound.take(leaves)
            if problem is not None:
                return Miss(problem, 4, remedy="nothing: the next program looks for it there")
        elif len(leaves) > self.bound.given:  # what another program looked for
            del leaves[self.bound.given :]
        if self.identity is not None:
            missed = self.identity.miss(leaves, self.bound)
            if missed is not None:
                return missed
        sizes = self.quick(leaves) if self.quick is not None else None
        if sizes is not None and self.python.check() and self.state.match(leaves) is None:
            return self._bound(sizes)
        missed = self._match_leaves(leaves) or self.state.match_sharing(leaves)
        if missed is not None:
            return self._named(missed)
        if not self.python.check():
            return self.python_miss()
        missed = self.state.match(leaves)
        if missed is not None:
            return missed
        return self._bind(leaves)

    def symbols_of(self, leaves: list[Any]) -> Symbols | Miss:
        """The values of the program's symbols for a call that is on its way, or why its arguments do not fit."""
        return self._match_leaves(leaves) or self._bind(leaves)

    def _named(self, miss: Miss) -> Miss:
        """A miss about a leaf that is no argument, by the name of its place."""
        name = None if miss.leaf is None else self.bound.name_of(miss.leaf)
        return miss if name is None else Miss(lambda: f"{name} {miss.text}", 4, miss.lift, remedy=miss.remedy)

    def _match_leaves(self, leaves: list[Any]) -> Miss | None:
        for i, (leaf, fact) in enumerate(zip(leaves, self.facts, strict=True)):
            if type(fact) is TensorFacts:
                if not isinstance(leaf, Tensor) or not fits(leaf, fact):
                    return Miss(partial(_other_tensor, leaf, fact), 2, leaf=i, remedy=_TENSOR)
            elif fact is not None:
                if type(leaf) is not fact:
                    return Miss(f"was {fact.__name__}, is now {type(leaf).__name__}", 2, leaf=i, remedy=_CLASS)
            elif not same_constant(leaf, self.constants[i]):
                text = partial("was {!r}, is now {!r}".format, self.constants[i], leaf)
                return Miss(text, 3, self._changed_numbers(leaves), i, remedy=_argument_remedy(self.constants[i], leaf))
        return None

    def python_miss(self) -> Miss:
        """What of Python's state is not as the program takes it to be."""
        miss = self.python.first_miss()
        if miss is None:
            return Miss("Python state changed", 4, remedy="call it again")
        return Miss(str(miss), 4, self.numbers_of_python() if miss.lift_target is not None else (), remedy=miss.remedy)

    def numbers_of_python(self) -> tuple[tuple[Any, Any], ...]:
        """The numbers of Python's state that changed, by the keys of their places; with a list of numbers, all in it.
        """
        pairs: list[tuple[Any, Any]] = []
        for target in [m.lift_target for m in self.python.misses() if m.lift_target is not None]:
            value = target.get()
            pairs.append((target.key, target))
            pairs += [(("leaf", (*target.key, i)), None) for i in range(len(value) if is_list_of_numbers(value) else 0)]
        return tuple(pairs)

    def _changed_numbers(self, leaves: list[Any]) -> tuple[tuple[Any, Any], ...]:
        """The arguments that are other numbers of the same type than in the capture; () if anything else about the
        first that differs changed.
        """
        pairs = [
            (i, a, b) for i, (a, b, fact) in enumerate(zip(leaves, self.constants, self.facts, strict=True))
            if fact is None and not same_constant(a, b)
        ]
        numbers = [
            (("leaf", self.bound.key_of(i)), None)
            for i, a, b in pairs if type(a) in (int, float) and type(a) is type(b)
        ]
        return tuple(numbers) if numbers and numbers[0][0][1] == self.bound.key_of(pairs[0][0]) else ()

    def _bind(self, leaves: list[Any]) -> Symbols | Miss:
        symbols: Symbols = {}
        for leaf, names in self.sizes:
            shape = leaves[leaf]._data.shape
            for i, name in names:
                symbols[name] = shape[i]
        for leaf, strided in self.strides:
            symbols.update(zip(strided, strides_of(leaves[leaf]._data), strict=False))
        for key, leaf, element in self.leaf_numbers:
            symbols[key] = leaves[leaf] if element is None else int(leaves[leaf]._data.reshape(-1)[element])
        return self._bound(symbols)

    def _bound(self, symbols: Symbols) -> Symbols | Miss:
        """The sizes of a call with its other symbols; or a Miss, if the program does not hold for them."""
        if self.outer_getters or self.leaf_numbers or self.number_guards:
            return self._bound_with_numbers(symbols)
        for state in self.random:
            state.bind(symbols)
        missed = self._missed(symbols) if self.shape_names else None
        return symbols if missed is None else missed

    def _bound_with_numbers(self, symbols: Symbols) -> Symbols | Miss:
        numbers = [getter() for getter in self.outer_getters]
        symbols.update(zip(self.outer_keys, numbers, strict=True))
        numbers += [symbols[key] for key, _, _ in self.leaf_numbers]
        answered = self.answered
        # (the very numbers: zeros have signs)
        is_answered = answered is not None and all(map(is_, numbers, answered[1])) and symbols == answered[0]
        asked = None if is_answered else symbols.copy()
        for state in self.random:
            state.bind(symbols)
        return symbols if asked is None else self._asked(symbols, asked, numbers)

    def _asked(self, symbols: Symbols, sizes: Symbols, numbers: list[Any]) -> Symbols | Miss:
        """The symbols, if the program holds for their values; else a Miss. It is not asked again as long as the same
        sizes and numbers come, unless the answer hangs on the state of a generator, too."""
        noted = _NotedReads(symbols)
        missed = self._missed(noted)
        if missed is not None:
            return missed
        if noted.read <= sizes.keys():
            self.answered = sizes, numbers
        return symbols

    def _missed(self, symbols: Symbols) -> Miss | None:
        """Why the program does not hold for the values of a call's symbols."""
        if self.shape_names and not self.shape_check(*[symbols[n] for n in self.shape_names]):
            return self._shape_miss(symbols)
        for number_guard in self.number_guards:
            if not number_guard.holds(symbols):
                return Miss(number_guard.miss(symbols), 6, remedy=_QUESTION)
        return None

    def _shape_miss(self, symbols: Symbols) -> Miss:
        for guard in self.env.guards.values():
            if not guard.holds(symbols):
                used = tuple(sorted(guard.relation.expr.symbols()))
                return Miss(partial(self._other_sizes, guard, used, symbols), 6, sizes=used, remedy=_SIZES)
        return Miss("sizes changed", 6, remedy=_SIZES)

    def _other_sizes(self, guard: ShapeGuard, used: Sequence[str], symbols: Symbols) -> str:
        """What is wrong with the sizes of a call. used: the symbols that a guard is about."""
        where = f"{guard.where}: " if guard.where else ""
        names = {n.key: f"{n.name} ({n.key})" for n in self.numbers}
        old, new = (", ".join(str(values[s]) for s in used) for values in (self.env.examples, symbols))
        be = ("was", "is") if len(used) == 1 else ("were", "are")
        return (
            f"{where}{', '.join(names.get(s, f'size {s}') for s in used)} {be[0]} {old}, {be[1]} now {new}; "
            f"the program needs {guard}"
        )


class _NotedReads(Symbols):
    """The values of a call's symbols, which notes the ones that were asked for."""

    def __init__(self, values: Symbols) -> None:
        super().__init__(values)
        self.read: set[str] = set()

    def __getitem__(self, name: str) -> Any:
        self.read.add(name)
        return super().__getitem__(name)

    def get(self, name: str, default: Any = None) -> Any:
        self.read.add(name)
        return super().get(name, default)


def fits(leaf: Tensor, fact: TensorFacts) -> bool:
    """Whether a tensor argument has the facts."""
    data = dense_array(leaf)
    if type(leaf) is not fact.kind or data is None or data.dtype != fact.dtype or data.ndim != fact.ndim:
        return False
    if leaf.requires_grad is not fact.requires_grad or (leaf._autograd is not None and hooks_on(leaf) != fact.hooks):
        return False
    if fact.requires_grad and leaf.is_leaf is not fact.is_leaf:
        return False
    if fact.is_unheard and does_more(leaf):
        return False
    if fact.layout is not None and layout_of(leaf) != fact.layout:
        return False
    if fact.given and not all(same(value, vars(leaf).get(name, MISSING)) for name, value in fact.given):
        return False
    if expanded_dims(data) != fact.expanded:
        return False
    if fact.layout is not None:
        return True
    data = shown_once(data, fact.expanded)
    if fact.strided is not None:
        return memory_order(data) == fact.strided
    order = fact.permutation
    if order is not None:
        data = data.transpose(sorted(range(len(order)), key=order.__getitem__))
    return bool(data.flags.c_contiguous)


def _other_tensor(leaf: Any, fact: TensorFacts) -> str:
    """What is wrong with an argument that does not have the facts."""
    now = f"a {_described(leaf, fact)}" if isinstance(leaf, Tensor) else type(leaf).__name__
    return f"was a {fact.describe()}, is now {now}"


def _described(leaf: Tensor, fact: TensorFacts) -> str:
    """A tensor argument in the words of the facts that the program knows of another."""
    if not is_dense(leaf):
        return f"{leaf.type_} on the {leaf.device} device"
    return with_given(facts_of(leaf, fact.layout is not None), leaf, [name for name, _ in fact.given]).describe()


def same_constant(a: Any, b: Any) -> bool:
    """Equality of argument leaves that are no tensors: type and value (0.0 is not -0.0); objects by identity."""
    return same(a, b, (dt.DType,))
