"""weft.hub: pretrained weights by their address. Nothing is downloaded: what lies in the folder of downloads is read,
and an error names the file that is missing there."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any
from urllib.parse import urlparse

from weft.interop.files import load as _load
from weft.support.absent import refused
from weft.support.errors import NoFolder, Unsupported, ValueProblem

__all__ = [
    "download_url_to_file", "get_dir", "help", "list", "load", "load_state_dict_from_url", "set_dir",
]
HASH_REGEX = re.compile(r"-([a-f0-9]*)\.")
_folder: dict[str, str] = {}


def _get_torch_home() -> str:
    cache = os.environ.get("XDG_CACHE_HOME", "~/.cache")
    return str(Path(os.environ.get("TORCH_HOME") or Path(cache, "torch")).expanduser())


def get_dir() -> str:
    """The folder of downloads: that of `set_dir`, else `hub` in $TORCH_HOME (~/.cache/torch)."""
    return _folder.get("hub") or str(Path(_get_torch_home(), "hub"))


def set_dir(d: str | os.PathLike[str]) -> None:
    """Choose the folder of downloads."""
    _folder["hub"] = str(Path(d).expanduser())


def load_state_dict_from_url(
    url: str, model_dir: str | None = None, map_location: Any = None, progress: bool = True, check_hash: bool = False,
    file_name: str | None = None, weights_only: bool = False,
) -> Any:
    """The state_dict of the file that was downloaded from this address before: in model_dir, else in `checkpoints` of
    `get_dir()`. Raises NoFolder (a FileNotFoundError) where it is not there."""
    folder = Path(model_dir or Path(get_dir(), "checkpoints"))
    path = folder / (file_name or Path(urlparse(url).path).name)
    if not path.is_file():
        raise NoFolder(f"weft downloads nothing: get {url} by other means, and put it at {path}")
    if check_hash:
        _check_hash(path)
    return _load(str(path), map_location=map_location)


def _check_hash(path: Path) -> None:
    """The name says how the file's SHA-256 begins: `resnet18-5c106cde.pth`."""
    import hashlib

    named = HASH_REGEX.search(path.name)
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    if named and not digest.startswith(named[1]):
        raise ValueProblem(f'invalid hash value (expected "{named[1]}", got "{digest}") of {path}')


class _NoBar:
    """A progress bar that shows nothing, where the package tqdm is not installed."""

    def __init__(self, iterable: Any = (), *args: Any, **kwargs: Any) -> None:
        self.iterable, self.n = iterable, 0

    def __iter__(self) -> Iterator[Any]:
        return iter(self.iterable)

    def __enter__(self) -> _NoBar:
        return self

    def __exit__(self, *problem: object) -> None:
        pass

    def update(self, n: int = 1) -> None:
        """Count on."""
        self.n += n

    def close(self) -> None:
        """Nothing to do."""


def __getattr__(name: str) -> Any:
    """tqdm, which PyTorch shows here: the package's, if it is installed."""
    if name != "tqdm":
        raise AttributeError(f"module 'weft.hub' has no attribute {name!r}")
    try:
        return getattr(import_module("tqdm.auto"), name)
    except ImportError:
        return _NoBar


def _refused(name: str, what: str) -> Any:
    return refused(name, __name__, f"hub.{name}: weft downloads nothing; {what}", f"Refused: {what}.", Unsupported)


download_url_to_file = _refused("download_url_to_file", "get the file by other means")
load = _refused("load", "install the model's package, and import it")
list = _refused("list", "look at the repository")
help = _refused("help", "look at the repository")
