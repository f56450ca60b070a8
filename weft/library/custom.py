"""custom_op: a Python function as an operator."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import weft.library.registry as registry
from weft.library.operators import USER_OPERATORS, UserOperator
from weft.library.schemas import infer_schema, parse
from weft.ops.packet import Overload
from weft.support.errors import ValueProblem

Rule = Callable[..., Any]


def custom_op(
    name: str, fn: Rule | None = None, /, *, mutates_args: str | Iterable[str] = (),
    device_types: str | Sequence[str] | None = None, schema: str | None = None, tags: Any = None,
    effect: str | None = None,
) -> Any:
    """Make an operator of a Python function. Nothing looks into it: not autograd, not vmap, not weft.compile, whose
    programs call it where it stands.

    Args:
        name: `namespace::name`; `weft.ops.namespace.name` finds it. A later operator of the same name takes its place.
        fn: the function; without it, a decorator.
        mutates_args: names of the arguments that it writes into, or "unknown" for all of its tensors.
        device_types: the devices whose tensors it takes; all if None.
        schema: the arguments and results in text, `(Tensor x, float k) -> Tensor`; from the annotations if None.
        tags: accepted as PyTorch has them.
        effect: "pure" (the default; a call whose results nobody reads may be left out, and two equal ones may be one),
            "random" for one that draws from weft's generators (a compiled function that calls it runs as it is
            written), or "python" for what must happen once for each call, in order, whoever reads the results. An
            operator without results that writes nothing has the effect "python".

    Returns a CustomOpDef. Raises ValueProblem (a ValueError) for names and annotations that make no operator.
    """
    if effect not in (None, "pure", "random", "python"):
        raise ValueProblem(f'custom_op: effect is "pure", "random" or "python", not {effect!r}')

    def make(function: Rule) -> CustomOpDef:
        namespace, base = _parts(name)
        text = infer_schema(function, mutates_args=mutates_args) if schema is None else schema
        return CustomOpDef(namespace, base, text, function, device_types, effect)

    return make if fn is None else make(fn)


def _parts(name: str) -> tuple[str, str]:
    namespace, separator, base = name.partition("::") if isinstance(name, str) else ("", "", "")
    if not separator or not namespace.isidentifier() or not base.isidentifier():
        raise ValueProblem(f"custom_op: expected a name of the form namespace::name, got {name!r}")
    return namespace, base


class CustomOpDef:
    """A custom operator: call it, and register what belongs to it."""

    def __init__(
        self, namespace: str, name: str, schema: str, fn: Rule, device_types: str | Sequence[str] | None = None,
        effect: str | None = None,
    ) -> None:
        self._namespace, self._name = namespace, name
        parsed = parse(f"{namespace}::{name}{schema}")
        earlier = USER_OPERATORS.get(parsed.name)
        if earlier is not None:
            earlier.destroy()
        self._user_operator = UserOperator(parsed, effect, inspect.getdoc(fn) or "")
        self.__name__, self.__doc__ = name, inspect.getdoc(fn)
        registry.register_kernel(self, device_types, fn)

    @property
    def _qualname(self) -> str:
        return f"{self._namespace}::{self._name}"

    @property
    def _opoverload(self) -> Overload:
        """`weft.ops.namespace.name.default`."""
        return self._user_operator.overload

    def __copy__(self) -> CustomOpDef:
        return self

    def __deepcopy__(self, memo: Any) -> CustomOpDef:
        return self

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the operator."""
        return self._user_operator.overload(*args, **kwargs)

    def register_fake(self, fn: Rule | None = None, /) -> Any:
        """See weft.library.register_fake."""
        return registry.register_fake(self, fn)

    register_abstract = register_fake

    def register_kernel(self, device_types: str | Sequence[str] | None, fn: Rule | None = None, /) -> Any:
        """See weft.library.register_kernel."""
        return registry.register_kernel(self, device_types, fn)

    def register_autograd(self, backward: Rule, /, *, setup_context: Rule | None = None) -> None:
        """See weft.library.register_autograd."""
        registry.register_autograd(self, backward, setup_context=setup_context)

    def register_vmap(self, func: Rule | None = None, /) -> Any:
        """See weft.library.register_vmap."""
        return registry.register_vmap(self, func)

    def __repr__(self) -> str:
        return f"<CustomOpDef({self._qualname})>"
