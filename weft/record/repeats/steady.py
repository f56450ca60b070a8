"""Whether iterations of a `for` statement differ by nothing but the tensors that they read and hand on: its body, and
the functions of the user's that it calls, are followed instruction by instruction with what their names stand for.

A branch on what stays the same (a setting, None, a number of an inner loop) is followed the way that it goes; a loop
over such things, over modules or over a list of states is followed item by item.

What is allowed leaves nothing behind in Python (no attribute, global, item or list but those that are looked at), and
asks nothing of the index: it selects rows of tensors, which the recorded calls show. Whatever else is met is refused;
the loop is then a loop of so many iterations.
"""

from __future__ import annotations

import builtins
import operator
import sys
from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from dis import Instruction
from types import CodeType, FrameType, ModuleType
from typing import Any

from weft.guards.rewrite import original
from weft.record.numbers.sym_float import SymFloat
from weft.record.repeats.called import GRAD_MODES, OLDER_SIGNS, combined, result_of
from weft.record.repeats.for_statement import (
    ForStatement,
    Unsteady,
    instructions,
    is_held_alone,
    is_late,
    is_method_load,
)
from weft.record.repeats.objects import (
    computed,
    is_data,
    is_in_place,
    is_number,
    is_tensor,
    item,
    items_of,
    member,
    truth,
)
from weft.record.repeats.values import (
    DATA,
    EXIT,
    NULL,
    RESULT,
    Collected,
    Data,
    Item,
    Items,
    Known,
    List,
    Method,
    Number,
    has_index,
    of_item,
    of_state,
)
from weft.tensor.size import Size
from weft.tensor.tensor import Tensor
from weft.types.sym import SymInt, to_dim

_STEPS = 20_000  # instructions that are followed
_OF_CONTAINERS = frozenset((*dir(list), *dir(dict))) - set(dir(object)) - {"__add__", "__mul__"}
_IN_PLACE = "="
_TURNED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "==": "==", "!=": "!="}
Mark = tuple[CodeType, int]  # an instruction
_END = 1 + (sys.version_info >= (3, 13))  # instructions that take an iterator off the stack, which FOR_ITER has done


class Steady:
    """One look at a body, in front of an iteration. index: its number there; those of the iterations behind it are
    larger. (Of a loop that counts down it is the least of them all, and `now` is the number there.) rows: where the
    index is used, by instruction of the statement's code; indices: the names that it has, or a number computed of it;
    changed: the lists of which items are assigned; numbers: by instruction, what is computed of the index for each of
    its calls with data."""

    def __init__(self, index: int | None, now: SymInt | None = None) -> None:
        self.index, self.now = index, now
        self.at: Mark | None = None  # the latest instruction
        self.numbers: dict[Mark, list[list[Number]]] = {}
        self.rows: list[int] = []
        self.indices: set[str] = set()
        self.changed: set[str] = set()
        self.steps = 0

    def follow(self, statement: ForStatement, frame: FrameType, names: Mapping[str, Any], item: Any) -> None:
        """Follow the body of a statement. names: what the frame's local names stand for now; item: what its iterator
        gives (tensor/capture.py). Raises Unsteady."""
        stored, lists = statement.stored, statement.lists
        if any(type(names.get(name)) is not list for name in lists):
            raise Unsteady
        values: dict[str, Any] = {}
        # (without a local name for the lists, which would be one more reference to each)
        own = {n for n in names if type(names[n]) is list and is_data(names[n]) and is_held_alone(frame, n)}
        for name, value in names.items():
            if name in lists:
                values[name] = Collected(name)
            elif name not in stored:
                values[name] = List(map(of_state, value), name) if name in own else Known(value)
            elif is_data(value):
                values[name] = of_state(value)
        cells = {name: Known(names[name]) for name in (*frame.f_code.co_cellvars, *frame.f_code.co_freevars)
                 if name in names and name not in stored}
        body = _Code(self, statement.code, statement.body, values, cells, frame.f_globals, (), statement)
        body.run([of_item(item)])
        if not body.read_first.isdisjoint(self.indices):
            raise Unsteady


class _Code:
    """Instructions that are followed: of a loop's body, or of a whole function."""

    def __init__(
        self, steady: Steady, code: CodeType, steps: Sequence[Instruction], names: dict[str, Any],
        cells: Mapping[str, Any], scope: Mapping[str, Any], within: tuple[CodeType, ...],
        body: ForStatement | None = None,
    ) -> None:
        self.steady, self.code, self.steps, self.names, self.cells = steady, code, steps, names, cells
        self.scope, self.within, self.body, self.is_body = scope, within, body, body is not None
        self.places = [ins.offset for ins in steps]
        self.read_first: set[str] = set()  # names that are read before they are bound
        self.bound: set[str] = set()
        self.at = 0  # the number of the next instruction; beyond the last one at the end of an iteration
        self.stack: list[Any] = []
        self.keywords: tuple[str, ...] = ()

    def run(self, stack: list[Any]) -> Any:
        """What it returns."""
        self.stack = stack
        while self.at < len(self.steps):
            ins = self.steps[self.at]
            self.at += 1
            self.steady.steps += 1
            self.steady.at = self.code, ins.offset
            if ins.opname in ("RETURN_VALUE", "RETURN_CONST") and not self.is_body:
                return self.argument(self.pop()) if ins.opname == "RETURN_VALUE" else Known(ins.argval)
            rule = _RULES.get(ins.opname)
            if rule is None or self.steady.steps > _STEPS:
                raise Unsteady(ins.opname)
            rule(self, ins)
        if not self.is_body or self.stack:
            raise Unsteady
        return None

    # ---- where the code goes on
    def jump(self, ins: Instruction) -> None:
        """Go on at another place: in these instructions, or with the next iteration."""
        if self.body is not None and self.body.is_next(ins.argval):
            self.at = len(self.steps)
            return
        at = bisect_left(self.places, ins.argval)
        if at == len(self.steps) or ins.argval < self.places[0]:
            raise Unsteady
        self.at = at

    def branch(self, ins: Instruction) -> None:
        """Go on at another place where what is asked holds, of something whose answer stays the same."""
        name = ins.opname
        value = self.pop()
        if name.endswith("NONE"):
            holds = self._is_none(value) != name.endswith("NOT_NONE")
        else:
            holds = self._truth(value) == ("_IF_TRUE" in name)
        if name.endswith("_OR_POP") and holds:
            self.stack.append(value)
        if holds:
            self.jump(ins)

    def _truth(self, value: Any) -> bool:
        if type(value) in (Item, List):
            return bool(value.parts)
        if type(value) is Number:
            return self._answer("!=", value, 0)
        return truth(value.value) if type(value) is Known else bool(self.refuse())

    def _is_none(self, value: Any) -> bool:
        if type(value) in (Item, List) or value is RESULT:
            return False
        return value.value is None if type(value) is Known else bool(self.refuse())

    def negate(self, ins: Instruction) -> None:
        """`not`, of something whose truth stays the same; or of data."""
        value = self.pop()
        if isinstance(value, Data):
            self.stack.append(RESULT)
        else:
            self.stack.append(Known(not self._truth(value)))

    def is_same(self, ins: Instruction) -> None:
        """`is` and `is not`, of None."""
        a, b = self.pops(2)
        if type(b) is not Known or b.value is not None:
            raise Unsteady
        self.stack.append(Known(self._is_none(a) != bool(ins.arg)))

    def begin(self, ins: Instruction) -> None:
        """The iterator of a loop in the body, or in what that calls."""
        self.stack.append(self.items(self.pop()))

    def items(self, value: Any) -> Items:
        """An iterator over what a value has."""
        if type(value) is Items:
            return value
        if type(value) is List or (type(value) is Item and not has_index(value)):
            return Items(value.parts)
        if type(value) is not Known:
            raise Unsteady
        return Items(map(Known, items_of(value.value)))

    def step(self, ins: Instruction) -> None:
        """The next item of an iterator, or the end of its loop."""
        if not self.stack or type(self.stack[-1]) is not Items:
            raise Unsteady
        part = next(self.stack[-1].parts, NULL)
        if part is not NULL:
            self.stack.append(part)
            return
        self.pop()
        self.jump(ins)
        if self.at < len(self.steps) and self.steps[self.at].opname == "END_FOR":
            self.at += _END

    def pop(self) -> Any:
        """The top of the stack."""
        if not self.stack:
            raise Unsteady
        return self.stack.pop()

    def pops(self, count: int) -> list[Any]:
        """So many from the top, deepest first."""
        return [self.pop() for _ in range(count)][::-1]

    def data(self, value: Any) -> Any:
        """A value that is data, or the same object always."""
        if isinstance(value, (Data, Known, List)) or (type(value) is Item and not has_index(value)):
            return value
        raise Unsteady

    def argument(self, value: Any) -> Any:
        """The same, or a number computed of the index: what a name may stand for."""
        return value if type(value) is Number else self.data(value)

    def plain(self, value: Any) -> None:
        """Raises Unsteady for what is neither data nor a plain value or tensor."""
        if type(value) in (Item, List):
            for part in value.parts:
                self.plain(part)
        elif not isinstance(value, Data) and not (type(value) is Known and is_data(value.value)):
            raise Unsteady

    # ---- names
    def load_local(self, ins: Instruction) -> None:
        """A local name; two of them in one instruction."""
        for name in ins.argval if isinstance(ins.argval, tuple) else (ins.argval,):
            if name not in self.names:
                raise Unsteady
            if name not in self.bound:
                self.read_first.add(name)
            self.stack.append(self.names[name])

    def store_local(self, ins: Instruction) -> None:
        """Bind a local name."""
        for name in ins.argval if isinstance(ins.argval, tuple) else (ins.argval,):
            value = self.argument(self.pop())
            if type(value) is Number and self.is_body:
                self.steady.indices.add(name)
            self.bound.add(name)
            self.names[name] = value

    def load_global(self, ins: Instruction) -> None:
        """A global or builtin name."""
        if "NULL" in ins.argrepr:
            self.stack.append(NULL)
        value = self.scope.get(ins.argval, getattr(builtins, ins.argval, NULL))
        self.stack.append(Known(value) if value is not NULL else self.refuse())

    def load_cell(self, ins: Instruction) -> None:
        """A name of an outer function."""
        self.stack.append(self.cells[ins.argval] if ins.argval in self.cells else self.refuse())

    def refuse(self, *_: Any) -> Any:
        """Raises Unsteady."""
        raise Unsteady

    # ---- attributes and items
    def load_attribute(self, ins: Instruction) -> None:
        """An attribute, or a method to be called."""
        owner = self.pop()
        value = self._attribute(owner, ins.argval)
        if is_method_load(ins):
            self.stack += [value, owner] if type(value) is Method else [NULL, value]
        else:
            self.stack.append(value)

    def _attribute(self, owner: Any, name: str) -> Any:
        if type(owner) in (Collected, List) and name == "append":
            return Method(name)
        if isinstance(owner, Data) or (type(owner) is Known and is_data(owner.value)):
            kind = type(owner.value) if type(owner) is Known else Tensor
            if not hasattr(kind, name) or name in _OF_CONTAINERS:
                raise Unsteady
            if name == "shape" and type(owner) is Known and is_tensor(owner.value):
                return Known(owner.value.shape)
            return Method(name) if callable(getattr(kind, name, None)) else DATA
        if type(owner) is not Known:
            raise Unsteady
        value = owner.value
        if isinstance(value, ModuleType):
            return Known(getattr(value, name))
        return Known(member(value, name))

    def subscript(self, ins: Instruction) -> None:
        """An item: a row by the index, or one by a key that stays what it is."""
        container, key = self.pops(2)
        if type(container) is Collected and type(key) is Known and is_late(key.value):
            self.stack.append(DATA)
            return
        if type(key) is Number or (type(key) is Item and has_index(key)):
            self._row(ins, container, key)
            self.stack.append(RESULT)
            return
        if type(container) in (Item, List) and type(key) is Known and type(key.value) is int:
            self.stack.append(container.parts[key.value])
            return
        if type(container) is Known and not is_tensor(container.value) and type(key) is Known:
            if type(container.value) is Size and type(key.value) is int:
                self.stack.append(Known(container.value[key.value]))
                return
            is_slice = type(key.value) is not int and is_data(container.value)
            self.stack.append(DATA if is_slice else Known(item(container.value, key.value)))
            return
        self.plain(container)
        self.plain(key)
        self.stack.append(DATA)

    def _row(self, ins: Instruction, container: Any, key: Number | Item) -> None:
        """A row of a tensor at a place by the index."""
        parts = key.parts if type(key) is Item else (key,)
        is_place = all(part.is_place for part in parts if type(part) is Number)
        if not (self.is_body and is_place and (isinstance(container, Data) or _is_known_tensor(container))):
            raise Unsteady
        self.steady.rows.append(ins.offset)

    def assign_item(self, ins: Instruction) -> None:
        """Put something in the place of an item of a list of the body's own, or of a row of a tensor."""
        value, container, key = self.pops(3)
        if _is_known_tensor(container) and (type(key) is Number or (type(key) is Item and has_index(key))):
            self._row(ins, container, key)
            self.plain(value)
            return
        if type(container) is not List or type(key) is not Known or type(key.value) is not int:
            raise Unsteady
        self.plain(value)
        container.parts[key.value] = value
        if container.name is not None:
            self.steady.changed.add(container.name)

    def unpack(self, ins: Instruction) -> None:
        """The parts of a tuple."""
        value, count = self.pop(), ins.arg or 0
        if type(value) in (Item, List) and len(value.parts) == count:
            self.stack += value.parts[::-1]
            return
        if type(value) is Known and type(value.value) in (list, tuple) and len(value.value) == count:
            self.stack += map(Known, value.value[::-1])
            return
        self.plain(value)
        self.stack += [DATA] * count

    # ---- operators
    def binary(self, ins: Instruction) -> None:
        """An operator of two operands."""
        a, b = self.pops(2)
        sign = OLDER_SIGNS.get(ins.opname, ins.argrepr)
        number = combined(sign, a, b)
        if number is not None:
            self.stack.append(number)
            return
        if sign.endswith(_IN_PLACE) and a is not RESULT and not _is_known_tensor(a):
            raise Unsteady
        if sign == "[]":
            self.stack += [a, b]
            self.subscript(ins)
            return
        self.take(ins, [a, b])
        self.stack.append(RESULT)

    def take(self, ins: Instruction, values: Sequence[Any]) -> None:
        """Numbers of the index may be among the operands of an operator: what calls there are shows which they are."""
        numbers = [value for value in values if type(value) is Number]
        for value in values:
            if type(value) is not Number:
                self.plain(value)
            elif value.has_size:
                raise Unsteady
        if numbers:
            self.steady.numbers.setdefault((self.code, ins.offset), []).append(numbers)

    def negative(self, ins: Instruction) -> None:
        """The negative of something."""
        if type(self.stack[-1]) is Number:
            self.stack.append(Number(operator.neg, (self.pop(),)))
        elif type(self.stack[-1]) is Known and type(self.stack[-1].value) is SymFloat:
            self.stack.append(Known(-self.pop().value))
        else:
            self.gather(1)

    def _answer(self, sign: str, number: Any, other: Any) -> bool:
        """What a comparison of a number of the index gives in this iteration and in all behind it, where the numbers
        are larger."""
        if type(other) is SymInt and self.steady.now is not None and number.is_moved:
            more = to_dim(number.at(self.steady.now) - other)
            if type(more) is int and (more < 0 or (more == 0 and sign in ("<=", ">"))):
                return sign in ("<", "<=", "!=")
        if type(other) is not int or not number.is_moved or self.steady.index is None:
            raise Unsteady
        least = number.at(self.steady.index)
        if (least > other) or (least == other and sign in ("<", ">=")):
            return sign in (">", ">=", "!=")
        raise Unsteady

    def compare(self, ins: Instruction) -> None:
        """A comparison of two operands."""
        a, b = self.pops(2)
        if type(a) is Known and type(b) is Known and is_number(a.value) and is_number(b.value):
            self.stack.append(Known(computed(ins.argval, a.value, b.value)))
            return
        if type(a) is Number and type(b) is Known:
            self.stack.append(Known(self._answer(ins.argval, a, b.value)))
            return
        if type(b) is Number and type(a) is Known:
            self.stack.append(Known(self._answer(_TURNED[ins.argval], b, a.value)))
            return
        self.plain(a)
        self.plain(b)
        self.stack.append(RESULT)

    def gather(self, count: int) -> None:
        """Something made of data."""
        for value in self.pops(count):
            self.plain(value)
        self.stack.append(DATA)

    def build_tuple(self, ins: Instruction) -> None:
        """A tuple. As a subscript it may have the index among its parts."""
        values = self.pops(ins.arg or 0)
        for value in values:
            self.argument(value)
        self.stack.append(Item(tuple(values)))

    def build_list(self, ins: Instruction) -> None:
        """A list."""
        self.stack.append(List(map(self.data, self.pops(ins.arg or 0))))

    def extend(self, ins: Instruction) -> None:
        """A list literal of constants."""
        part = self.pop()
        if type(self.stack[-1]) is not List:
            raise Unsteady
        self.stack[-1].parts += self.items(part).parts

    # ---- the stack
    def enter(self, ins: Instruction) -> None:
        """Begin a `with` statement, of a grad mode."""
        manager = self.pop()
        if type(manager) is not Known or type(manager.value) not in GRAD_MODES:
            raise Unsteady
        self.stack += [EXIT, Known(None)]

    def swap(self, ins: Instruction) -> None:
        """Exchange the top with another one."""
        if ins.arg is None or ins.arg > len(self.stack):
            raise Unsteady
        self.stack[-1], self.stack[-ins.arg] = self.stack[-ins.arg], self.stack[-1]

    def copy(self, ins: Instruction) -> None:
        """One of them once more."""
        if ins.arg is None or ins.arg > len(self.stack):
            raise Unsteady
        self.stack.append(self.stack[-ins.arg])

    def rotate(self, count: int) -> None:
        """Put the top below so many others."""
        values = self.pops(count)
        self.stack += [values[-1], *values[:-1]]

    # ---- calls
    def call(self, ins: Instruction) -> None:
        """A call with as many arguments as the instruction says."""
        names = self.keywords
        self.keywords = ()
        if ins.opname == "CALL_KW":
            names = self.pop().value
        arguments = self.pops(ins.arg or 0)
        first, second = self.pops(2)
        callee, owner = (second, NULL) if first is NULL else (first, second)
        if second is NULL:
            callee, owner = first, NULL
        if callee is EXIT:
            self.stack.append(Known(None))
        elif type(callee) is Method:
            self._call_method(ins, callee, owner, arguments)
        elif type(callee) is Known and owner is NULL:
            positional = arguments[: len(arguments) - len(names)]
            named = dict(zip(names, arguments[len(positional) :], strict=True))
            self.stack.append(result_of(self, ins, callee.value, positional, named))
        else:
            raise Unsteady

    def call_alone(self, ins: Instruction) -> None:
        """A call of what stands below its arguments, without a place for an object (CPython 3.10)."""
        if ins.opname == "CALL_FUNCTION_KW":
            self.keywords = self.pop().value
        arguments = self.pops(ins.arg or 0)
        self.stack += [NULL, self.pop(), *arguments]
        self.call(ins)

    def _call_method(self, ins: Instruction, method: Method, owner: Any, arguments: list[Any]) -> None:
        if isinstance(owner, (Data, Known)):
            self.take(ins, arguments)
        else:
            for value in arguments:
                self.plain(value)
        if type(owner) is List and len(arguments) == 1:
            owner.parts += arguments
            if owner.name is not None:
                self.steady.changed.add(owner.name)
            self.stack.append(Known(None))
            return
        if type(owner) is not Collected and method.name.endswith("_") and not is_in_place(method.name):
            raise Unsteady
        self.stack.append(Known(None) if type(owner) is Collected else DATA)

    def follow_function(
        self, code: CodeType, names: dict[str, Any], cells: Mapping[str, Any], scope: Mapping[str, Any]
    ) -> Any:
        """What a function of the user's returns. names: its arguments."""
        return _Code(self.steady, code, instructions(code), names, cells, scope, (*self.within, code)).run([])


def _is_known_tensor(value: Any) -> bool:
    return type(value) is Known and is_tensor(value.value)


def _gathering(count: Callable[[int], int]) -> Callable[[_Code, Instruction], None]:
    return lambda code, ins: code.gather(count(ins.arg or 0))


def _pushing(code: _Code, ins: Instruction) -> None:
    code.stack.append(Known(ins.argval))


def _keywords(code: _Code, ins: Instruction) -> None:
    code.keywords = original(code.code).co_consts[ins.arg or 0]


_RULES: dict[str, Callable[[_Code, Instruction], Any]] = {
    "LOAD_CONST": _pushing, "LOAD_SMALL_INT": _pushing, "PUSH_NULL": lambda code, ins: code.stack.append(NULL),
    "KW_NAMES": _keywords,
    "LOAD_GLOBAL": _Code.load_global, "LOAD_DEREF": _Code.load_cell,
    "LOAD_ATTR": _Code.load_attribute, "LOAD_METHOD": _Code.load_attribute,
    "UNPACK_SEQUENCE": _Code.unpack, "POP_TOP": lambda code, ins: code.pop(), "SWAP": _Code.swap, "COPY": _Code.copy,
    "BINARY_SUBSCR": _Code.subscript, "BINARY_OP": _Code.binary, "COMPARE_OP": _Code.compare,
    "STORE_SUBSCR": _Code.assign_item, "IS_OP": _Code.is_same, "UNARY_NOT": _Code.negate,
    "GET_ITER": _Code.begin, "FOR_ITER": _Code.step, "TO_BOOL": lambda code, ins: None,
    "BEFORE_WITH": _Code.enter, "SETUP_WITH": _Code.enter, "POP_BLOCK": lambda code, ins: None,
    "BINARY_SLICE": _gathering(lambda n: 3), "BUILD_SLICE": _gathering(lambda n: n),
    "BUILD_TUPLE": _Code.build_tuple, "BUILD_LIST": _Code.build_list, "LIST_EXTEND": _Code.extend,
    "CALL": _Code.call, "CALL_KW": _Code.call, "CALL_METHOD": _Code.call,
    **dict.fromkeys(("CALL_FUNCTION", "CALL_FUNCTION_KW"), _Code.call_alone),
    **dict.fromkeys(OLDER_SIGNS, _Code.binary),
    "ROT_TWO": lambda code, ins: code.rotate(2), "ROT_THREE": lambda code, ins: code.rotate(3),
    "DUP_TOP": lambda code, ins: code.stack.extend(code.pops(1) * 2),
    "UNARY_NEGATIVE": _Code.negative, **dict.fromkeys(("UNARY_POSITIVE", "UNARY_INVERT"), _gathering(lambda n: 1)),
    **dict.fromkeys(
        (
            "LOAD_FAST", "LOAD_FAST_CHECK", "LOAD_FAST_BORROW", "LOAD_FAST_LOAD_FAST",
            "LOAD_FAST_BORROW_LOAD_FAST_BORROW",
        ),
        _Code.load_local,
    ),
    **dict.fromkeys(("JUMP_FORWARD", "JUMP_BACKWARD", "JUMP_BACKWARD_NO_INTERRUPT", "JUMP_ABSOLUTE"), _Code.jump),
    **dict.fromkeys(
        [
            f"POP_JUMP_{way}IF_{what}" for way in ("", "FORWARD_", "BACKWARD_")
            for what in ("TRUE", "FALSE", "NONE", "NOT_NONE")
        ] + ["JUMP_IF_TRUE_OR_POP", "JUMP_IF_FALSE_OR_POP"],
        _Code.branch,
    ),
    **dict.fromkeys(("STORE_FAST", "STORE_FAST_STORE_FAST"), _Code.store_local),
}
