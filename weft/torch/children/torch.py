"""`import torch` in a process that a program run by `python -m weft.torch` has started."""

import importlib
import sys

from weft.torch import install

install()
sys.modules.pop(__name__, None)
importlib.import_module(__name__)
