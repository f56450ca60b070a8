"""weft.errors: the errors that weft raises on purpose.

Each is a WeftError and also the type that PyTorch raises in that place: `except RuntimeError` and
`except weft.WeftError` both work. The names here say what went wrong more closely.
"""

from __future__ import annotations

from weft.support.errors import (
    ArgumentError,
    CaptureError,
    DTypeError,
    ExportError,
    IndexBoundsError,
    LinAlgError,
    NoSuchDevice,
    NotFiniteError,
    ParseError,
    ShapeError,
    StateError,
    UnknownSize,
    Unsupported,
    ValueProblem,
    VersionError,
    WeftError,
)

__all__ = [
    "ArgumentError", "CaptureError", "DTypeError", "ExportError", "IndexBoundsError", "LinAlgError", "NoSuchDevice",
    "NotFiniteError", "ParseError", "ShapeError", "StateError", "UnknownSize", "Unsupported", "ValueProblem",
    "VersionError", "WeftError",
]  # fmt: skip
