"""Floor 12: programs that are written for PyTorch, run as they are: `import torch` gives weft.

`python -m weft.torch script.py` runs one (runner.py), `weft.torch.install()` lets the imports of this process find
weft's modules under PyTorch's names (hook.py). Modules are the same objects under both names; what differs by name is
in names.py, the module `torch` itself in front.py, the files that torch.save writes in files.py.
docs/from-pytorch.md says how to use it.
"""

from __future__ import annotations

from weft.torch.hook import install, is_installed

__all__ = ["install", "is_installed"]
