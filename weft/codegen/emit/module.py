"""Modules and functions of LLVM text, printed whole."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence

from weft.codegen.target import Target

from .flow import ControlFlow
from .types import PTR, VOID, EmitError, LType, Signature, Value, const

Parameter = tuple[LType, str] | tuple[LType, str, str]  # type, name, attribute words such as "noalias readonly"
_SYMBOL = re.compile(r"@([\w.$]+)")


class Function(ControlFlow):
    """One function being written: the instruction set as methods. `params` are its arguments,
    `signature` is for callers."""

    def __init__(
        self, module: Module, name: str, result: LType, params: Sequence[Parameter], is_internal: bool, attrs: str
    ) -> None:
        super().__init__(module.declare, result)
        self.module, self.is_internal = module, is_internal
        self.params = tuple(Value(p[0], "%" + self._fresh(p[1])) for p in params)
        self.signature = Signature(name, result, tuple(p.type for p in self.params))
        words = [
            f"{p[0].text}{' ' + p[2] if len(p) > 2 else ''} {v.text}" for p, v in zip(params, self.params, strict=True)
        ]
        head = "internal " if is_internal else ""
        self._head = f"define {head}{result.text} @{name}({', '.join(words)}) {attrs} {{"

    @property
    def name(self) -> str:
        """The symbol's name."""
        return self.signature.name

    @property
    def size(self) -> int:
        """How many instructions and labels it has."""
        return len(self._lines)

    @property
    def pointer(self) -> Value:
        """The function's address. `Module.keep` does not follow it."""
        return Value(PTR, "@" + self.signature.name)

    def text(self) -> str:
        """The definition. Raises EmitError if the last block has no terminator."""
        if self._open:
            raise EmitError(f"function {self.name}: block {self.current} has no terminator")
        for at, phi in self._phis:
            self._lines[at] = phi.line
        return "\n".join([self._head, "entry:", *self._allocas, *filter(None, self._lines), "}"])


def unwatched(function: Function) -> None:
    """What becomes of a finished function at once: nothing."""


class Module:
    """Functions, declarations, constant tables and metadata that are compiled together.

    target_cpu, target_features, vector_bits: attributes of every function; what is empty or 0 is left out.
    """

    def __init__(self, triple: str = "", target_cpu: str = "", target_features: str = "", vector_bits: int = 0) -> None:
        words = ["nounwind"]
        words += [f'"target-cpu"="{target_cpu}"'] if target_cpu else []
        words += [f'"target-features"="{target_features}"'] if target_features else []
        words += (
            [f'"prefer-vector-width"="{vector_bits}" "min-legal-vector-width"="{vector_bits}"'] if vector_bits else []
        )
        self.triple = triple
        self.functions: dict[str, Function] = {}
        self._machine = " ".join(words)
        self._declarations: dict[str, tuple[Signature, str]] = {}
        self._globals: dict[str, str] = {}
        self._tables: dict[tuple[str, str], str] = {}
        self._groups: dict[str, int] = {}
        self._metadata: dict[str, int] = {}
        self.finished: Callable[[Function], None] = unwatched  # is told what is written to its end

    @classmethod
    def for_target(cls, target: Target) -> Module:
        """An empty module whose functions are compiled for `target`."""
        return cls(target.triple, target.cpu, target.features, 8 * target.vector_bytes)

    def function(
        self,
        name: str,
        result: LType = VOID,
        params: Sequence[Parameter] = (),
        internal: bool = False,
        attrs: str = "",
    ) -> Function:
        """Begin a function. params: (type, name) or (type, name, attribute words such as "noalias readonly")."""
        if name in self.functions or name in self._declarations:
            raise EmitError(f"function {name}: the module has one of that name already")
        group = self.attribute_group(f"{attrs} {self._machine}".strip())
        function = self.functions[name] = Function(self, name, result, params, internal, group)
        return function

    def keep(self, names: Iterable[str]) -> None:
        """Take away every function that neither is one of `names` nor is called, at any depth, by one of them."""
        reached: set[str] = set()
        waiting = list(names)
        while waiting:
            function = self.functions.get(waiting.pop())  # None: declared, defined elsewhere
            if function is not None and function.name not in reached:
                reached.add(function.name)
                waiting += function.callees
        self.functions = {name: f for name, f in self.functions.items() if name in reached}

    def declare(
        self, name: str, result: LType, params: Sequence[LType] = (), varargs: bool = False, attrs: str = ""
    ) -> Signature:
        """An external function or intrinsic; the same declaration again gives the same one back."""
        declared = self._declarations.get(name)
        if declared is not None and declared[0].result is result and declared[0].params == tuple(params):
            return declared[0]
        if declared is not None or name in self.functions:
            raise EmitError(f"declare {name}: the module has another function of that name")
        signature = Signature(name, result, tuple(params), varargs)
        words = [t.text for t in params] + (["..."] if varargs else [])
        self._declarations[name] = (
            signature,
            f"declare {result.text} @{name}({', '.join(words)}){' ' + attrs if attrs else ''}",
        )
        return signature

    def table(self, name: str, elem: LType, values: Sequence[int | float], align: int = 64) -> Value:
        """The address of a constant array; equal arrays are kept once."""
        body = f"[{len(values)} x {elem.text}] [{', '.join(f'{elem.text} {const(elem, v).text}' for v in values)}]"
        return self._constant(name, body, align)

    def addresses(self, name: str, functions: Sequence[Signature], align: int = 64) -> Value:
        """The address of a constant array of functions' addresses."""
        return self._constant(
            name, f"[{len(functions)} x ptr] [{', '.join(f'ptr @{s.name}' for s in functions)}]", align
        )

    def _constant(self, name: str, body: str, align: int) -> Value:
        key = (body, str(align))
        symbol = self._tables.get(key)
        if symbol is None:
            symbol = self._tables[key] = self._unused(name)
            self._globals[symbol] = f"@{symbol} = private unnamed_addr constant {body}, align {align}"
        return Value(PTR, "@" + symbol)

    def variable(self, name: str, type: LType, count: int = 1, align: int = 64) -> Value:
        """The address of zeroed memory private to the module."""
        symbol = self._unused(name)
        self._globals[symbol] = f"@{symbol} = internal global [{count} x {type.text}] zeroinitializer, align {align}"
        return Value(PTR, "@" + symbol)

    def _unused(self, name: str) -> str:
        count, symbol = 0, name
        while symbol in self._globals or symbol in self.functions or symbol in self._declarations:
            count += 1
            symbol = f"{name}.{count}"
        return symbol

    def attribute_group(self, words: str) -> str:
        """The reference (#0, #1, ...) to a group of function attributes."""
        return f"#{self._groups.setdefault(words, len(self._groups))}"

    def metadata(self, body: str) -> str:
        """The reference (!0, !1, ...) to a metadata node, e.g. body '!{!"branch_weights", i32 1, i32 9}'."""
        return f"!{self._metadata.setdefault(body, len(self._metadata))}"

    def text(self, names: Iterable[str] | None = None) -> str:
        """The whole module; or a module of those functions, to be linked with the others: what it uses of this one is
        declared in it, or, where nobody else can see it, is in it once more."""
        parts = [f'target triple = "{self.triple}"'] if self.triple else []
        if names is None:
            parts += self._globals.values()
            parts += [text for _, text in self._declarations.values()]
            parts += [f.text() for f in self.functions.values()]
        else:
            parts += self._closed(names)
        parts += [f"attributes #{n} = {{ {words} }}" for words, n in self._groups.items()]
        parts += [f"!{n} = {body}" for body, n in self._metadata.items()]
        return "\n".join(parts) + "\n"

    def _closed(self, names: Iterable[str]) -> list[str]:
        """The text of functions, and of all that they refer to."""
        defined = dict.fromkeys(names)
        waiting, texts = list(defined), dict[str, str]()
        while waiting:
            name = waiting.pop()
            if name not in texts:
                texts[name] = self._symbol(name, name in defined)
                waiting += _SYMBOL.findall(texts[name])
        return list(texts.values())

    def _symbol(self, name: str, is_defined: bool) -> str:
        """What a module says of a symbol that it uses, or defines."""
        function = self.functions.get(name)
        if function is None:
            return self._globals.get(name) or self._declarations[name][1]
        if is_defined or function.is_internal:
            return function.text()
        signature = function.signature
        return f"declare {signature.result.text} @{name}({', '.join(t.text for t in signature.params)})"
