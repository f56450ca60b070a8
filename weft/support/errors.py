"""The errors weft raises. Each is a WeftError and also the exception type that PyTorch raises in that place."""

from __future__ import annotations


class WeftError(Exception):
    """Any error that weft raises on purpose. Its text reads: operator, what is wrong (both facts), what to do."""


class ShapeError(WeftError, RuntimeError):
    """Sizes that do not fit together."""


class DTypeError(WeftError, RuntimeError):
    """An operator does not accept this dtype, or a result cannot be cast to the destination's dtype."""


class NotForDType(DTypeError, NotImplementedError):
    """An operator that has no meaning, or no kernel, for this dtype."""


class ForeignDType(DTypeError, TypeError):
    """A NumPy dtype that weft has no like of."""


class IndexBoundsError(WeftError, IndexError):
    """An index or a dim that is out of range."""


class OutOfBounds(IndexBoundsError, RuntimeError):
    """An index beyond its dim, in an operator for which PyTorch raises RuntimeError or IndexError."""


class ArgumentError(WeftError, TypeError):
    """Arguments that fit no overload of an operator."""


class ValueProblem(WeftError, ValueError):
    """An argument of the right type with an impossible value."""


class StateError(WeftError, RuntimeError):
    """The operation is not allowed in this state (a leaf changed in place, a graph that was freed, ...)."""


class VersionError(StateError):
    """A tensor saved for backward was modified in place afterwards."""


class CaptureError(WeftError, RuntimeError):
    """A function cannot be captured by weft.compile as it stands."""


class VerifyError(WeftError, RuntimeError):
    """A graph breaks a rule of the graph language."""


class ParseError(WeftError, ValueError):
    """Text that is not a graph, type or schema."""


class Unsupported(WeftError, NotImplementedError):
    """A combination that weft knows about and does not offer."""
