"""A user's operator: its entry, what is registered for it, and who answers its calls.

The entry is one like any other: a host call with a type rule. Calls on tensors come to `UserOperator.enter` first, for
gradients, rules of vmap and kernels are registered whenever the user likes. An operator that writes into arguments
has a functional twin, `mylib::name.default_functional`, whose results are the new values: captures record that one.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from weft.layers.backends import backend_of, plain_backend
from weft.layers.walk import copy_into, walk
from weft.library.fake import fake_types
from weft.library.history import call_function
from weft.library.schemas import check, functional_schema, source_of
from weft.library.values import (
    as_arrays,
    as_given,
    as_tensors,
    device_of,
    fits,
    joined,
    pairs,
    separated,
    types_in,
    types_of,
)
from weft.ops.op import NOT_DIFFERENTIABLE, Op, define, forget
from weft.ops.packet import Overload, overload_of, renew
from weft.ops.schema import Schema
from weft.runtime.storage import root_of
from weft.support import limits
from weft.support.errors import NoFake, StateError, Unsupported
from weft.support.memo import Memo
from weft.tensor.backend import tensors_in
from weft.tensor.dense import is_dense
from weft.tensor.modes import Floor, by_itself, modes, no_grad, top_interceptor
from weft.types.dims import Expr

Args = tuple[Any, ...]
ANY_DEVICE = ""

USER_OPERATORS: dict[str, UserOperator] = {}


class UserOperator:
    """What is registered for one operator of the user's.

    kernels: implementations by device, "" for all others. composite: an implementation that autograd looks into.
    on_autograd: one that sees calls before autograd does. fake, backward, setup_context, vmap: as registered.
    """

    def __init__(self, schema: Schema, effect: str | None = None, doc: str = "") -> None:
        self.schema = schema
        self.kernels: dict[str, Callable[..., Any]] = {}
        self.composite: Callable[..., Any] | None = None
        self.on_autograd: Callable[..., Any] | None = None
        self.fake: Callable[..., Any] | None = None
        self.backward: Callable[..., Any] | None = None
        self.setup_context: Callable[..., Any] | None = None
        self.vmap: Callable[..., Any] | None = None
        self.functions: dict[Any, Any] = {}  # autograd Functions of calls, by how their lists lie
        self.mutated = tuple([i for i, a in enumerate(schema.arguments) if a.alias.endswith("!")])
        self.given_back = tuple([source_of(schema, r.alias) for r in schema.returns])
        self._types: Memo[Any, Any] = Memo(limits.TYPES_OF_A_USERS_OPERATOR)
        self._below = threading.local()
        check(schema)
        if effect is None:
            effect = "pure" if schema.returns or self.mutated else "python"
        text = doc or f"An operator of the user's: {schema}"
        common: dict[str, Any] = {"vjp": NOT_DIFFERENTIABLE, "public": (), "enter": self.enter}
        self.op = define(
            schema, text, type=self.types, kernel=self.on_arrays, effect="io" if self.mutated else effect, **common
        )
        self.twin: Op | None = None
        if self.mutated:
            self.twin = define(
                functional_schema(schema, self.mutated), text, type=self.twin_types, kernel=self.twin_on_arrays,
                effect=effect, vjp=NOT_DIFFERENTIABLE, public=(), enter=lambda walk, op, args: walk(op, args),
            )
        renew(schema.namespace, schema.base)
        USER_OPERATORS[schema.name] = self

    @property
    def overload(self) -> Overload:
        """`weft.ops.mylib.name.default`."""
        return overload_of(self.op)

    def destroy(self) -> None:
        """Take the operator out of the catalogue."""
        for op in (self.op, self.twin):
            if op is not None:
                forget(op)
        renew(self.schema.namespace, self.schema.base)
        if USER_OPERATORS.get(self.schema.name) is self:
            del USER_OPERATORS[self.schema.name]

    # ---- a call on tensors
    def enter(self, go_on: Callable[[Op, Args], Any], op: Op, args: Args) -> Any:
        """The operator's results, with the history that its formula gives."""
        if self.composite is not None:
            return self.call(self.composite, args)
        if not getattr(self._below, "depth", 0):
            if self.on_autograd is not None:
                return self._above(args)
            has_level = modes.special is not None and hasattr(top_interceptor(), "apply_function")
            if has_level or (modes.grad and any([t.requires_grad for t in tensors_in(args)])):
                return call_function(self, args)
        return self.compute(go_on, args)

    def _above(self, args: Args) -> Any:
        """What was registered for autograd; the operator that it calls is the one below."""
        assert self.on_autograd is not None
        self._below.depth = 1
        try:
            return self.call(self.on_autograd, args)
        finally:
            self._below.depth = 0

    def compute(self, go_on: Callable[[Op, Args], Any], args: Args) -> Any:
        """The results without history."""
        above = [entry for entry in modes.special or () if not isinstance(entry, Floor)]
        if not above and backend_of(self.op, args) is plain_backend():
            return self._on_dense(args)
        if self.twin is None:
            out = go_on(self.op, args)
            return out if self.schema.returns else None
        twin_results = walk(self.twin, args)
        results = separated(twin_results)
        written = [i for i in self.mutated if args[i] is not None]
        with no_grad():
            for i in reversed(written):
                for target, value in pairs(args[i], results.pop()):
                    copy_into(target, value)
        return joined([args[at] if at is not None else results.pop(0) for at in self.given_back])

    def _on_dense(self, args: Args) -> Any:
        storages = [t.storage() for i in self.mutated for t, _ in pairs(args[i], args[i])]
        before = [storage.version for storage in storages]
        try:
            with no_grad():
                out = self._checked(self.call(self.kernel(device_of(args)), args), args)
        finally:
            for storage, version in zip(storages, before, strict=True):
                storage.version += storage.version == version
        return out

    def kernel(self, device: str) -> Callable[..., Any]:
        """The implementation for a device. Raises Unsupported if none is registered."""
        implementation = self.kernels.get(device) or self.kernels.get(ANY_DEVICE)
        if implementation is None:
            raise Unsupported(
                f"Could not run '{self.schema.name}' with arguments from the '{device.upper()}' backend: no "
                "implementation is registered for it (weft.library.register_kernel, Library.impl)"
            )
        return implementation

    def call(self, function: Callable[..., Any], args: Args) -> Any:
        """Call an implementation with bound arguments as the user wrote them."""
        arguments = self.schema.arguments
        as_written = [as_given(a, value) for a, value in zip(arguments, args, strict=True)]
        named = {a.name: v for a, v in zip(arguments, as_written, strict=True) if a.keyword_only}
        return function(*as_written[: len(as_written) - len(named)], **named)

    def _checked(self, out: Any, args: Args) -> Any:
        """The results as the schema has them. Raises StateError where one is an argument, or shows memory of one."""
        results = self.results(out)
        seen = [id(root_of(t._data)) for t in tensors_in(args) if is_dense(t)]
        checked: list[Any] = []
        for r, at in zip(results, self.given_back, strict=True):
            if at is not None:
                checked.append(args[at])
                continue
            for t in tensors_in((r,)):
                if is_dense(t) and id(root_of(t._data)) in seen and t._data.size:
                    raise StateError(_ALIAS.format(name=self.schema.base))
                seen.append(id(root_of(t._data)))
            checked.append(tuple(r) if isinstance(r, list) else r)
        return joined(checked)

    def results(self, out: Any) -> list[Any]:
        """What an implementation returned, one for each of the schema's. Raises StateError for another number."""
        returns = self.schema.returns
        returned = [] if not returns and out is None else [out] if len(returns) == 1 else out
        if not isinstance(returned, (tuple, list)) or len(returned) != len(returns):
            count = len(returned) if isinstance(returned, (tuple, list)) else type(returned).__name__
            raise StateError(f"{self.schema.name}: the schema promises {len(returns)} results, got {count}")
        return list(returned)

    # ---- types
    def types(self, *args: Any) -> Any:
        """The type rule: what the fake implementation gives. Raises Unsupported where there is none."""
        try:
            promised = self._types.get(args)
        except TypeError:  # a number that is known when the program runs
            return self._fake_types(args)
        if promised is None:
            promised = self._fake_types(args)
            if not any(isinstance(d, Expr) for t in types_in((args, promised)) for d in t.shape):
                self._types[args] = promised
        return promised

    def _fake_types(self, args: Args) -> Any:
        if None not in self.given_back:
            return joined([args[at] for at in self.given_back if at is not None]) if self.given_back else ()
        function = self.fake or self.composite
        if function is None:
            raise NoFake(
                f"There was no fake impl registered for {self.schema.name}. It says which dtype and sizes the results "
                "have, which weft.compile, functionalization and meta tensors need: weft.library.register_fake"
            )
        promised = self.results(fake_types(lambda *fake_args: self.call(function, fake_args), args))
        return joined([
            args[at] if at is not None else tuple(r) if isinstance(r, list) else r
            for r, at in zip(promised, self.given_back, strict=True)
        ])

    def twin_types(self, *args: Any) -> Any:
        """The type rule of the functional twin: those results that are new, then what is written."""
        results = separated(self.types(*args) or None)
        fresh = [r for r, at in zip(results, self.given_back, strict=True) if at is None]
        return joined(fresh + [args[i] for i in self.mutated if args[i] is not None])

    def redo(self) -> None:
        """Something was registered: what was found out before does not hold any more."""
        self._types.clear()
        self.functions.clear()

    # ---- in a program
    def on_arrays(self, *args: Any) -> Any:
        """The operator as a host call of a program: arrays in, arrays out."""
        keeps = self.op.effect == "python"  # others may look at what they are given only while they run
        out, _ = self._run_on_arrays(tuple([as_tensors(a, keeps) for a in args]))
        return out if self.schema.returns else ()

    def _run_on_arrays(self, args: Args) -> tuple[Any, Args]:
        with by_itself():
            function = self.composite or self.kernel(device_of(args))
            out = self._checked(self.call(function, args), args)
        return self._as_promised(out, args), args

    def twin_on_arrays(self, *args: Any) -> Any:
        """The functional twin as a host call: what is written is a copy."""
        tensors = tuple([as_tensors(a, i in self.mutated) for i, a in enumerate(args)])
        out, _ = self._run_on_arrays(tensors)
        results = separated(out)
        fresh = [r for r, at in zip(results, self.given_back, strict=True) if at is None]
        return joined(fresh + [as_arrays(tensors[i]) for i in self.mutated if tensors[i] is not None])

    def _as_promised(self, out: Any, args: Args) -> Any:
        """Results as arrays. Raises StateError where the fake implementation promised others: memory is laid out by
        it."""
        try:
            promised = self.types(*[types_of(g) for g in args]) if self.schema.returns else ()
        except NoFake:  # nothing is promised: it is computed at once
            promised = ()
        for t, r in zip(types_in((promised,)), tensors_in((out,)), strict=False):
            if t.dtype is not r.dtype or not fits(t.shape, r.shape):
                raise StateError(
                    f"{self.schema.name}: register_fake promises {t}, the implementation gave {r.type_}"
                )
        return as_arrays(out)


_ALIAS = (
    "{name}: The output of this custom operator (1) must not also be an input to this custom operator and (2) may not "
    "alias any inputs to this custom operator or other returns. The most common way to trigger this error is if we "
    "have y = custom_op(x) and y and x are the same Tensor. Please instead return a clone of the offending output "
    "tensor(s) (e.g. return x.clone()) or refactor the custom operator to not return y."
)
