"""The errors weft raises. Each is a WeftError and also the exception type that PyTorch raises in that place."""

from __future__ import annotations

import re
from typing import Any

from weft.support.locations import Location


class WeftError(Exception):
    """Any error that weft raises on purpose. Its text reads: operator, what is wrong (both facts), what to do.

    passed: for a refused capture, what it came out of, the innermost first (support/refusals.py).
    """

    passed: tuple[Any, ...] = ()


class ShapeError(WeftError, RuntimeError):
    """Sizes that do not fit together."""


class DTypeError(WeftError, RuntimeError):
    """An operator does not accept this dtype, or a result cannot be cast to the destination's dtype."""


class NotForDType(DTypeError, NotImplementedError):
    """An operator that has no meaning, or no kernel, for this dtype."""


class UnheldDTypeError(NotForDType):
    """An element type that weft knows by name only, where a tensor of it is to be made."""


class ForeignDType(DTypeError, TypeError):
    """A NumPy dtype that weft has no like of."""


class IndexBoundsError(WeftError, IndexError):
    """An index or a dim that is out of range."""


class OutOfBounds(IndexBoundsError, RuntimeError):
    """An index beyond its dim, in an operator for which PyTorch raises RuntimeError or IndexError."""


class LinAlgError(WeftError, RuntimeError):
    """A matrix that is singular, or not positive definite."""


class ArgumentError(WeftError, TypeError):
    """Arguments that fit no overload of an operator."""


class ValueProblem(WeftError, ValueError):
    """An argument of the right type with an impossible value."""


class StateError(WeftError, RuntimeError):
    """The operation is not allowed in this state (a leaf changed in place, a graph that was freed, ...)."""


class NotFiniteError(StateError):
    """An operator of a program made a NaN or an infinity, and somebody looks for them (WEFT_DEBUG=nan)."""


class NoFolder(FileNotFoundError, StateError):
    """A file cannot be written: there is no such folder. (An OSError first: its number, text and filename are kept.)"""


class NoLibrary(StateError, OSError):
    """A library of machine code that cannot be loaded."""


class TooLarge(StateError, MemoryError):
    """Sizes that fit into no memory, or into no integer of 64 bits."""


_NUMPY_ON_SIZES = re.compile(
    r"array is too big|[Mm]aximum (supported|allowed) (dimension|size)|iterator is too large|too large to convert|too "
    r"big to convert|"
    r"array is too large|cannot fit"
)


def too_large(what: str, problem: Exception) -> TooLarge | None:
    """The error for what NumPy cannot give memory or count, said of `what`;
    None for a problem that is none of sizes."""
    if isinstance(problem, WeftError) or not (isinstance(problem, MemoryError) or _NUMPY_ON_SIZES.search(str(problem))):
        return None
    return TooLarge(f"{what}: its sizes fit into no memory ({problem}); ask for fewer elements")


class NoSuchDevice(StateError, AssertionError):
    """A tensor or an answer that only an accelerator could give. (PyTorch without CUDA raises AssertionError.)"""


class NestingError(StateError, AssertionError):
    """A block is left before one within it, or something of it is used outside."""


class VersionError(StateError):
    """A tensor saved for backward was modified in place afterwards."""


OR_SPLIT = " Or compile with split=True, which takes any Python."  # behind what is refused of a whole program


class CaptureError(WeftError, RuntimeError):
    """A function cannot be captured by weft.compile as it stands. `where` is the user's line, if the text names one."""

    where: Location | None = None


class ValueChanged(WeftError):
    """A run of a program finds another answer than the program was recorded for: another program serves the call."""


class ExportError(WeftError, RuntimeError):
    """A step that cannot be shipped as object code."""


class ValuesThatWait(CaptureError):
    """A function that is captured meets a tensor whose values wait (on a lazy device): its operators wait too."""


class UnknownSize(CaptureError):
    """The answer to a question hangs on a size that is only known while the program runs."""


class VerifyError(WeftError, RuntimeError):
    """A graph breaks a rule of the graph language."""


class ParseError(WeftError, RuntimeError, ValueError):
    """Text that is not a graph, type or schema."""


class Unsupported(WeftError, NotImplementedError):
    """A combination that weft knows about and does not offer."""


class NoFake(Unsupported):
    """A user's operator does not say which types its results have."""
