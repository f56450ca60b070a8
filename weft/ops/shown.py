"""What `inspect.signature` and `help` show of operators: the parameters of all overloads of a name, from their schemas.

A function that users call takes `*args, **kwargs`; its `__wrapped__` is a Shown, which inspect asks for its signature.
The signature is made when it is first asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from keyword import iskeyword
from typing import TYPE_CHECKING, Any

from weft.ops.bind import SYNONYMS
from weft.ops.op import Op
from weft.ops.schema import Argument

Overloads = Sequence[Op] | Callable[[], Sequence[Op]]
if TYPE_CHECKING:
    from inspect import Parameter, Signature

_SHOWN = ("axis", "axes", "k", "keepdims", "shape")  # of the other names


class Shown:
    """The function behind a wrapper, as inspect sees it. Everything but the signature is the wrapper's.

    options: keyword arguments that the wrapper takes beside those of the schemas, with their defaults.
    """

    def __init__(
        self, function: Callable[..., Any], overloads: Overloads, first: str = "input", **options: Any
    ) -> None:
        self._function, self._overloads, self._first, self._options = function, overloads, first, options

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._function(*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        if name in ("__wrapped__", "_function"):
            raise AttributeError(name)
        return getattr(self._function, name)

    @property
    def __signature__(self) -> Signature:
        overloads = self._overloads
        return signature_of(overloads() if callable(overloads) else overloads, self._first, self._options)


def show(function: Any, overloads: Overloads, first: str = "input", **options: Any) -> None:
    """Let inspect show the parameters of these overloads as the function's."""
    function.__wrapped__ = Shown(function, overloads, first, **options)


def signature_of(overloads: Sequence[Op], first: str, options: dict[str, Any]) -> Signature:
    """The parameters of all overloads in one signature. Those of the overload that takes most by position come first,
    in its order; what another overload does without has a default; what only others have comes by name, as `axis` for
    `dim` does. first: how the argument `self` is shown."""
    from inspect import Parameter, Signature  # (few programs ask)

    listed = [op for op in overloads if op.public] or list(overloads)
    longest = max(listed, key=lambda op: sum(not a.keyword_only for a in op.schema.arguments))
    wanted = [{a.name for a in op.schema.arguments} for op in listed]
    positional = [a for a in longest.schema.arguments if not a.keyword_only]
    names = {a.name for a in positional}
    named = []
    for op in (longest, *listed):
        for argument in op.schema.arguments:
            if argument.name not in names:
                names.add(argument.name)
                named.append(argument)
    parameters: list[Parameter] = []
    is_optional = False
    for argument in positional:
        default = _default(argument, all(argument.name in names for names in wanted))
        is_optional = is_optional or default is not Parameter.empty
        default = None if is_optional and default is Parameter.empty else default
        if argument.is_tensor and argument.is_list and len(positional) == 1:  # given one by one, or as a list
            parameters.append(Parameter(argument.name, Parameter.VAR_POSITIONAL))
            break
        parameters.append(Parameter(_name(argument, first), Parameter.POSITIONAL_OR_KEYWORD, default=default))
    parameters += [Parameter(_name(a, first), Parameter.KEYWORD_ONLY, default=_default(a, False)) for a in named]
    taken = {p.name for p in parameters}
    for name, default in (*options.items(), *_synonyms(parameters)):
        if name not in taken:
            taken.add(name)
            parameters.append(Parameter(name, Parameter.KEYWORD_ONLY, default=default))
    return Signature(parameters)


def _name(argument: Argument, first: str) -> str:
    """How an argument is shown; words of Python's language with `_` behind, since inspect takes none."""
    name = first if argument.name == "self" else argument.name
    return f"{name}_" if iskeyword(name) else name


def _default(argument: Argument, is_needed: bool) -> Any:
    from inspect import Parameter

    if argument.has_default:
        return argument.default
    return Parameter.empty if is_needed else None


def _synonyms(parameters: Sequence[Parameter]) -> list[tuple[str, Any]]:
    """The other names of parameters, with a default: given under neither name, the parameter has its own."""
    return [
        (other, p.default if p.default is not p.empty else None)
        for other in _SHOWN for p in parameters if p.name in SYNONYMS[other]
    ]
