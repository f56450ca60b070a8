"""Distribution: shapes, parameters, checks and errors of all distributions.

A distribution names its parameters, with how many of their last dims belong to one event, in `_parameter_dims`. They
are broadcast against each other in one place (`_take`), what follows from them is built in one (`_derive`), and
`expand` follows for all. (Packages have classes that are Modules as well: no name here is one of Module's.)
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, ClassVar, TypeVar

import weft.distributions.constraints as constraints
from weft.distributions.utils import Shape, as_tensors, lazy_property
from weft.layers.predicates import broadcast_shapes
from weft.ops.packet import aten
from weft.support.errors import Unsupported, ValueProblem
from weft.support.warn import warn
from weft.tensor.modes import modes, no_grad
from weft.tensor.size import Size
from weft.tensor.tensor import Tensor

__all__ = ["Distribution"]
D = TypeVar("D", bound="Distribution")


def require(valid: Tensor, describe: Callable[[bool], str]) -> None:
    """Raises ValueProblem unless all of `valid` is true. describe(True) may ask tensors for their values.

    In a compiled function, and where many examples are computed at once, the check is a part of the program, and raises
    when this runs; a trace checks nothing.
    """
    if valid.device.type == "meta" or modes.trace is not None:
        return
    if modes.capture is not None or modes.special is not None:
        aten._all_true(valid, describe(False))
    elif not bool(valid.all()):
        raise ValueProblem(describe(True))


def _text(value: Tensor) -> str:
    return f"({type(value).__name__} of shape {tuple(value.shape)})"


class Distribution:
    """The base of distributions.

    Args:
        batch_shape: the shape over which parameters differ.
        event_shape: the shape of one sample.
        validate_args: whether parameters, and values in `log_prob` and `cdf`, are checked; None: as
            `set_default_validate_args` says, which is True at first.

    Attributes:
        has_rsample: whether `rsample` has gradients for the parameters.
        has_enumerate_support: whether `enumerate_support` gives all values.
        arg_constraints: constraints by the names of parameters.
        support: the constraint that values satisfy.
    """

    has_rsample: Any = False
    has_enumerate_support: Any = False
    arg_constraints: Any
    support: Any
    _validate_args: bool = __debug__
    _parameter_dims: ClassVar[dict[str, int]] = {}
    _kept: ClassVar[tuple[str, ...]] = ()  # further attributes that `expand` hands on as they are

    @staticmethod
    def set_default_validate_args(value: bool) -> None:
        """Whether distributions that are made from now on check, where they are not told."""
        if value not in (True, False):
            raise ValueProblem(f"set_default_validate_args takes a bool, got {value!r}")
        Distribution._validate_args = value

    def __init__(
        self, batch_shape: Shape = Size(), event_shape: Shape = Size(), validate_args: bool | None = None  # noqa: B008
    ) -> None:
        self._batch_shape, self._event_shape = Size(batch_shape), Size(event_shape)
        if validate_args is not None:
            self._validate_args = validate_args
        if self._validate_args:
            self._check_parameters()

    def _check_parameters(self) -> None:
        try:
            arg_constraints = self.arg_constraints
        except (AttributeError, NotImplementedError):
            warn(
                f"{type(self)} does not define `arg_constraints`. Please set `arg_constraints = {{}}` or initialize "
                "the distribution with `validate_args=False` to turn off validation."
            )
            return
        for name, constraint in arg_constraints.items():
            is_waiting = name not in self.__dict__ and isinstance(getattr(type(self), name, None), lazy_property)
            if constraints.is_dependent(constraint) or is_waiting:
                continue
            valid = constraint.check(getattr(self, name))
            self._require_parameter(name, valid, functools.partial("satisfy the constraint {}".format, constraint))

    def _require_parameter(self, name: str, valid: Tensor, demand: Callable[[], str]) -> None:
        value = getattr(self, name)

        def describe(with_values: bool) -> str:
            return (
                f"Expected parameter {name} {_text(value)} of distribution {self if with_values else self._title()} to "
                f"{demand()}, but found invalid values" + (f":\n{value}" if with_values else "")
            )

        require(valid, describe)

    def _title(self) -> str:
        return type(self).__name__

    # ---- parameters
    def _take(self, validate_args: bool | None, event_shape: Shape = (), **values: Any) -> None:
        """Sets parameters, broadcast in their batch dims, and the shapes. Raises ValueProblem, ShapeError."""
        tensors = dict(zip(values, as_tensors(list(values.values())), strict=True))
        rest = {name: value.dim() - self._parameter_dims[name] for name, value in tensors.items()}
        batch = broadcast_shapes(*(value.shape[: rest[name]] for name, value in tensors.items()))
        for name, value in tensors.items():
            wanted = batch + value.shape[rest[name] :]
            self.__dict__[name] = value if value.shape == wanted else value.expand(wanted)
        self._derive()
        Distribution.__init__(self, batch, event_shape, validate_args)

    def _derive(self) -> None:
        """Build what follows from the parameters."""

    def expand(self: D, batch_shape: Shape, _instance: D | None = None) -> D:
        """The same distribution with another batch shape, of the same memory. `_instance` is for subclasses with an
        __init__ of their own: an instance of theirs, which is filled. Raises Unsupported for such one without."""
        new = self._instance(_instance)
        batch_shape = Size(batch_shape)
        for name, dims in self._parameter_dims.items():
            if name in self.__dict__:
                value = getattr(self, name)
                new.__dict__[name] = value.expand(batch_shape + value.shape[value.dim() - dims :])
        new.__dict__.update({name: self.__dict__[name] for name in self._kept if name in self.__dict__})
        new._derive()
        return self._shaped(new, batch_shape)

    def _instance(self: D, _instance: D | None) -> D:
        """An instance to be filled: `_instance`, or a new one where no subclass of ours has its own __init__."""
        family = next((c for c in type(self).__mro__ if "_parameter_dims" in c.__dict__), Distribution)
        return self._get_checked_instance(family, _instance)

    def _shaped(self, new: D, batch_shape: Shape, event_shape: Shape | None = None) -> D:
        """An instance that is not checked once more."""
        Distribution.__init__(new, batch_shape, self._event_shape if event_shape is None else event_shape, False)
        new._validate_args = self._validate_args
        return new

    def _get_checked_instance(self: D, cls: type, _instance: D | None = None) -> D:
        if _instance is None and type(self).__init__ is not cls.__init__:  # type: ignore[misc]
            raise Unsupported(
                f"Subclass {type(self).__name__} of {cls.__name__} that defines a custom __init__ method must also "
                "define a custom .expand() method."
            )
        return type(self).__new__(type(self)) if _instance is None else _instance

    # ---- shapes and moments
    @property
    def batch_shape(self) -> Size:
        """The shape over which parameters differ."""
        return self._batch_shape

    @property
    def event_shape(self) -> Size:
        """The shape of one sample."""
        return self._event_shape

    def _extended_shape(self, sample_shape: Shape = ()) -> Size:
        return Size(sample_shape) + self._batch_shape + self._event_shape

    @property
    def mean(self) -> Tensor:
        """The mean, [*batch, *event]."""
        raise self._lacks("mean")

    @property
    def mode(self) -> Tensor:
        """The most probable value, [*batch, *event]."""
        raise self._lacks("mode")

    @property
    def variance(self) -> Tensor:
        """The variance of each element, [*batch, *event]."""
        raise self._lacks("variance")

    @property
    def stddev(self) -> Tensor:
        """The square root of the variance."""
        return self.variance.sqrt()

    def _lacks(self, name: str) -> Unsupported:
        return Unsupported(f"{type(self)} does not implement {name}")

    # ---- samples
    def sample(self, sample_shape: Shape = ()) -> Tensor:
        """Samples without gradients, [*sample_shape, *batch, *event]."""
        with no_grad():
            return self.rsample(sample_shape)

    def rsample(self, sample_shape: Shape = ()) -> Tensor:
        """Samples with gradients for the parameters, [*sample_shape, *batch, *event]. Raises Unsupported where
        `has_rsample` is False."""
        raise self._lacks("rsample")

    def sample_n(self, n: int) -> Tensor:
        """An older name of `sample((n,))`."""
        warn("`sample_n(n)` will be deprecated. Use `sample((n,))` instead.", FutureWarning)
        return self.sample((n,))

    # ---- values
    def log_prob(self, value: Tensor) -> Tensor:
        """The logarithm of the density, or of the probability, of values [..., *batch, *event]: [..., *batch]. Raises
        ValueProblem for values of another shape or outside of the support, where these are checked."""
        if self._validate_args:
            self._validate_sample(value)
        return self._log_prob(value)

    def _log_prob(self, value: Tensor) -> Tensor:
        raise self._lacks("log_prob")

    def cdf(self, value: Tensor) -> Tensor:
        """The probability of values up to these. Raises ValueProblem as `log_prob` does."""
        if self._validate_args:
            self._validate_sample(value)
        return self._cdf(value)

    def _cdf(self, value: Tensor) -> Tensor:
        raise self._lacks("cdf")

    def icdf(self, value: Tensor) -> Tensor:
        """The values up to which there are these probabilities: the inverse of `cdf`."""
        raise self._lacks("icdf")

    def enumerate_support(self, expand: bool = True) -> Tensor:
        """All values of a discrete distribution along a new first dim: [count, *batch, *event], or with ones for the
        batch where `expand` is False."""
        raise self._lacks("enumerate_support")

    def _enumerated(self, values: Tensor, expand: bool) -> Tensor:
        """Values [count, *event], with the batch dims in between."""
        event = values.shape[1:]
        values = values.reshape(values.shape[:1] + (1,) * len(self._batch_shape) + event)
        return values.expand(values.shape[:1] + self._batch_shape + event) if expand else values

    def entropy(self) -> Tensor:
        """The entropy in nats, [*batch]."""
        raise self._lacks("entropy")

    def perplexity(self) -> Tensor:
        """exp of the entropy, [*batch]."""
        return self.entropy().exp()

    def _validate_sample(self, value: Tensor) -> None:
        """Raises ValueProblem for a value of another shape, or outside of the support."""
        if not isinstance(value, Tensor):
            raise ValueProblem("The value argument to log_prob must be a Tensor")
        start = value.dim() - len(self._event_shape)
        if start < 0 or value.shape[start:] != self._event_shape:
            raise ValueProblem(
                f"The right-most size of value must match event_shape: {value.shape} vs {self._event_shape}."
            )
        expected = self._batch_shape + self._event_shape
        for i, j in zip(reversed(value.shape), reversed(expected), strict=False):
            if i != 1 and j != 1 and i != j:
                raise ValueProblem(
                    f"Value is not broadcastable with batch_shape+event_shape: {value.shape} vs {expected}."
                )
        try:
            support = self.support
        except (AttributeError, NotImplementedError):
            warn(
                f"{type(self)} does not define `support` to enable sample validation. Please initialize the "
                "distribution with `validate_args=False` to turn off validation."
            )
            return

        def describe(with_values: bool) -> str:
            of = self if with_values else self._title()
            where = f" ({support})" if with_values else ""
            return (
                f"Expected value argument {_text(value)} to be within the support{where} of the distribution {of}, but "
                "found invalid values" + (f":\n{value}" if with_values else "")
            )

        require(support.check(value), describe)

    def __repr__(self) -> str:
        shown = {name: self.__dict__[name] for name in self.arg_constraints if name in self.__dict__}
        texts = (f"{name}: {value if value.numel() == 1 else value.size()}" for name, value in shown.items())
        return f"{type(self).__name__}({', '.join(texts)})"
