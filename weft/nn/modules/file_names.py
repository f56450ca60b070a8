"""PyTorch's names of the files of nn.modules: `from weft.nn.modules.batchnorm import _BatchNorm` works, whatever our
file is called."""

from __future__ import annotations

from typing import Any

from weft.support import named_modules
from weft.support.named_modules import NamedModule

_PACKAGE = "weft.nn.modules"
# PyTorch's name of a file: the files of ours that have its classes
FILES: dict[str, tuple[str, ...]] = {
    "activation": ("activations", "attention"), "adaptive": ("adaptive_softmax",),
    "batchnorm": ("running_norms", "lazy_layers"), "channelshuffle": ("reshaping",),
    "container": ("containers", "mappings", "module"), "distance": ("distances",), "flatten": ("reshaping",),
    "fold": ("reshaping",), "instancenorm": ("running_norms", "lazy_layers"), "loss": ("losses",),
    "normalization": ("norms",), "pixelshuffle": ("reshaping",), "rnn": ("recurrent", "recurrent_cells"),
    "sparse": ("embedding",), "upsampling": ("reshaping",), "utils": ("prefixes",),
}


def in_files(owner: str, name: str, files: tuple[str, ...]) -> Any:
    """A name from the first of these files of nn.modules that has it. Raises AttributeError."""
    return named_modules.in_files(owner, name, [f"{_PACKAGE}.{file}" for file in files])


def install() -> None:
    """Let `import weft.nn.modules.<PyTorch's name>` find each file."""
    named_modules.install(
        NamedModule(f"{_PACKAGE}.{name}", f"PyTorch's name for {', '.join(files)}.", [f"{_PACKAGE}.{f}" for f in files])
        for name, files in FILES.items()
    )
