"""A reader of pickles that runs nothing: opcodes build plain data, globals are names, and only calls with
a known meaning are made."""

from __future__ import annotations

import pickletools
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from weft.interop.damage import as_parse_error, excerpt
from weft.support.errors import ParseError


@dataclass(frozen=True)
class Global:
    """A name that a pickle refers to: `module.attribute`, and nothing but the name."""

    name: str


_MARK = object()
_LARGEST_KEY = 1000


class PickleReader:
    """A stack machine for the opcodes that plain data needs. `calls` gives the meaning of calls of globals, by name.

    Reading takes time and memory in proportion to the pickle's length: what a pickle names again and again may not be
    copied again and again.
    """

    def __init__(self) -> None:
        self.calls: dict[str, Callable[..., Any]] = {
            "collections.OrderedDict": self._ordered, "collections.Counter": self._counter, "builtins.set": self._set,
            "__builtin__.set": self._set, "_codecs.encode": _encoded, "collections.defaultdict": lambda *args: {},
            "builtins.complex": complex, "__builtin__.complex": complex,
        }
        self.stack: list[Any] = []
        self.memo: dict[int, Any] = {}
        self._work = 0  # how many more items may be copied out of containers

    def constant(self, name: str) -> Any:
        """The value that a global stands for, or None when it is a function or class."""
        return None

    def persistent(self, identity: Any) -> Any:
        """What a reference out of the pickle stands for."""
        raise ParseError("load: the pickle refers to something outside of it")

    def read(self, content: bytes) -> Any:
        """The object of a pickle. Raises ParseError for anything that only code could build."""
        self._work = 4 * len(content)
        with as_parse_error("load: the pickle in the file does not make sense"):
            for opcode, argument, _ in _opcodes(content):
                if opcode.name == "STOP":
                    return self._finished()
                self._step(opcode.name, argument)
        raise ParseError("load: the pickle ends in the middle")

    def _finished(self) -> Any:
        if not self.stack or self.stack[-1] is _MARK:
            raise ParseError("load: the pickle in the file does not make sense: it ends with nothing")
        return self.stack.pop()

    def items_of(self, value: Any) -> Any:
        """A container that a call is about to copy. Raises ParseError when the pickle asks for more copies than it
        could have written out."""
        self._work -= len(value)
        if self._work < 0:
            raise ParseError("load: the pickle unfolds to much more than it holds")
        return value

    def _ordered(self, pairs: Any = ()) -> OrderedDict[Any, Any]:
        items = pairs.items() if isinstance(pairs, dict) else pairs
        return OrderedDict((_key(k), v) for k, v in self.items_of(items))

    def _counter(self, counts: Any = ()) -> Counter[Any]:
        return Counter({_key(k): v for k, v in self.items_of(_expect(counts, dict)).items()} if counts else None)

    def _set(self, items: Any = ()) -> set[Any]:
        return set(map(_key, self.items_of(items)))

    def _step(self, name: str, argument: Any) -> None:
        if name in _LITERALS:
            self.stack.append(argument)
        elif name in _CONSTANTS:
            self.stack.append(_CONSTANTS[name]())
        elif name not in _IGNORED:
            method = getattr(self, "_op_" + name.lower(), None)
            if method is None:
                raise ParseError(
                    f"load: the pickle uses {excerpt(name)}, which plain data does not need; save a state dict"
                )
            method(argument)

    def _since_mark(self) -> list[Any]:
        at = len(self.stack) - 1
        while self.stack[at] is not _MARK:
            at -= 1
        items = self.stack[at + 1 :]
        del self.stack[at:]
        return items

    # ---- the stack and the memo
    def _op_mark(self, _: Any) -> None:
        self.stack.append(_MARK)

    def _op_pop(self, _: Any) -> None:
        self.stack.pop()

    def _op_pop_mark(self, _: Any) -> None:
        self._since_mark()

    def _op_dup(self, _: Any) -> None:
        self.stack.append(self.stack[-1])

    def _op_binput(self, at: int) -> None:
        self.memo[at] = self.stack[-1]

    _op_long_binput = _op_put = _op_binput

    def _op_memoize(self, _: Any) -> None:
        self.memo[len(self.memo)] = self.stack[-1]

    def _op_binget(self, at: int) -> None:
        self.stack.append(self.memo[at])

    _op_long_binget = _op_get = _op_binget

    # ---- containers
    def _op_tuple(self, _: Any) -> None:
        self.stack.append(tuple(self._since_mark()))

    def _op_tuple1(self, _: Any) -> None:
        self._tuple_of(1)

    def _op_tuple2(self, _: Any) -> None:
        self._tuple_of(2)

    def _op_tuple3(self, _: Any) -> None:
        self._tuple_of(3)

    def _tuple_of(self, count: int) -> None:
        items = tuple(self.stack[-count:])
        del self.stack[-count:]
        self.stack.append(items)

    def _op_list(self, _: Any) -> None:
        self.stack.append(self._since_mark())

    def _op_dict(self, _: Any) -> None:
        items = self._since_mark()
        self.stack.append(dict(zip(map(_key, items[::2]), items[1::2], strict=True)))

    def _op_frozenset(self, _: Any) -> None:
        self.stack.append(frozenset(map(_key, self._since_mark())))

    def _op_append(self, _: Any) -> None:
        item = self.stack.pop()
        _expect(self.stack[-1], list).append(item)

    def _op_appends(self, _: Any) -> None:
        items = self._since_mark()
        _expect(self.stack[-1], list).extend(items)

    def _op_setitem(self, _: Any) -> None:
        value, key = self.stack.pop(), self.stack.pop()
        _expect(self.stack[-1], dict)[_key(key)] = value

    def _op_setitems(self, _: Any) -> None:
        items = self._since_mark()
        _expect(self.stack[-1], dict).update(zip(map(_key, items[::2]), items[1::2], strict=True))

    def _op_additems(self, _: Any) -> None:
        items = self._since_mark()
        _expect(self.stack[-1], set).update(map(_key, items))

    # ---- names, calls, references
    def _op_global(self, argument: str) -> None:
        module, attribute = argument.split(" ", 1)
        self._push_global(f"{module}.{attribute}")

    def _op_stack_global(self, _: Any) -> None:
        attribute, module = self.stack.pop(), self.stack.pop()
        self._push_global(f"{_expect(module, str)}.{_expect(attribute, str)}")

    def _push_global(self, name: str) -> None:
        value = self.constant(name)
        self.stack.append(Global(name) if value is None else value)

    def _op_reduce(self, _: Any) -> None:
        arguments, function = self.stack.pop(), self.stack.pop()
        self.stack.append(self._call(function, _expect(arguments, tuple)))

    def _op_newobj(self, _: Any) -> None:
        self._op_reduce(None)

    def _call(self, function: Any, arguments: tuple[Any, ...]) -> Any:
        builder = self.calls.get(function.name) if isinstance(function, Global) else None
        if builder is None:
            raise ParseError(
                "load: the file holds an object that only "
                f"{getattr(function, 'name', type(function).__name__)[:200]!r} can build, and nothing in a file is "
                "run; save a state dict of tensors and plain data"
            )
        return builder(*arguments)

    def _op_build(self, _: Any) -> None:
        """State of an object: only the note that state dicts carry is kept."""
        state = self.stack.pop()
        target = self.stack[-1]
        if isinstance(target, OrderedDict) and isinstance(state, dict):
            if "_metadata" in state:
                target._metadata = state["_metadata"]  # type: ignore[attr-defined]
            return
        raise ParseError(
            f"load: the pickle sets the state of a {type(target).__name__}, which plain data does not need"
        )

    def _op_binpersid(self, _: Any) -> None:
        self.stack.append(self.persistent(self.stack.pop()))


_LITERALS = frozenset((
    "BINUNICODE", "SHORT_BINUNICODE", "BINUNICODE8", "UNICODE", "BININT", "BININT1", "BININT2", "INT", "LONG", "LONG1",
    "LONG4", "BINFLOAT", "FLOAT", "BINBYTES", "SHORT_BINBYTES", "BINBYTES8", "BINSTRING", "SHORT_BINSTRING", "STRING",
    "BYTEARRAY8",
))
_CONSTANTS: dict[str, Callable[[], Any]] = {
    "NONE": lambda: None, "NEWTRUE": lambda: True, "NEWFALSE": lambda: False, "EMPTY_DICT": dict, "EMPTY_LIST": list,
    "EMPTY_TUPLE": tuple, "EMPTY_SET": set,
}
_IGNORED = frozenset(("PROTO", "FRAME"))


def _opcodes(content: bytes) -> Iterator[tuple[Any, Any, Any]]:
    """The opcodes one by one: a list of them would take some hundred times the pickle's memory."""
    try:
        yield from pickletools.genops(content)
    except ValueError as problem:
        raise ParseError(f"load: not a whole pickle: {excerpt(problem)}") from None


def _expect(value: Any, kind: type) -> Any:
    if not isinstance(value, kind):
        raise ParseError(f"load: the pickle treats a {type(value).__name__} as a {kind.__name__}")
    return value


def _key(value: Any) -> Any:
    """A value that is to be hashed. Hashing goes as deep as tuples go, each time,
    so that only small ones may be keys."""
    if type(value) is tuple:
        seen = 0
        inner = [value]
        while inner:
            items = inner.pop()
            seen += len(items)
            if seen > _LARGEST_KEY:
                raise ParseError("load: the pickle has a key of too many parts")
            inner.extend(item for item in items if type(item) in (tuple, frozenset))
    return value


def _encoded(text: str, encoding: str = "latin1") -> bytes:
    """How protocol 2 writes bytes."""
    if encoding not in ("latin1", "utf-8", "ascii"):
        raise ParseError(f"load: bytes in encoding {excerpt(repr(encoding))}")
    return text.encode(encoding)
