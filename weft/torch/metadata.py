"""What `importlib.metadata` says of the package `torch`, which tools ask before they import it."""

from __future__ import annotations

import os
from importlib.metadata import Distribution
from pathlib import Path

from weft.torch.version import __version__


class Torch(Distribution):
    """A distribution with a name and a version, and no files."""

    def read_text(self, filename: str) -> str | None:
        """The text of METADATA; None for other files."""
        if filename != "METADATA":
            return None
        return f"Metadata-Version: 2.1\nName: torch\nVersion: {__version__}\n"

    def locate_file(self, path: str | os.PathLike[str]) -> Path:
        """Where a file would be."""
        return Path(__file__).parent / path
