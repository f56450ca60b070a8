"""Floor 12: optimizers with PyTorch's names, options, numerics and state_dict.

optimizer.py is the base (groups, capture), step_hooks.py the hooks around steps, clock.py the step counters, updates.py
what update rules are written with; each other file is one algorithm,
written per parameter with tensor operators only, so that the same lines run eagerly and become part of a captured step.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from weft.optim import lr_scheduler
from weft.optim.adadelta import Adadelta
from weft.optim.adafactor import Adafactor
from weft.optim.adagrad import Adagrad
from weft.optim.adam import Adam, AdamW
from weft.optim.adamax import Adamax
from weft.optim.asgd import ASGD
from weft.optim.lbfgs import LBFGS
from weft.optim.muon import Muon
from weft.optim.nadam import NAdam
from weft.optim.optimizer import Optimizer
from weft.optim.radam import RAdam
from weft.optim.rmsprop import RMSprop
from weft.optim.rprop import Rprop
from weft.optim.sgd import SGD
from weft.optim.sparse_adam import SparseAdam
from weft.support.absent import refuse

__all__ = [
    "ASGD", "LBFGS", "SGD", "Adadelta", "Adafactor", "Adagrad", "Adam", "AdamW", "Adamax", "Muon", "NAdam", "Optimizer",
    "RAdam", "RMSprop", "Rprop", "SparseAdam", "lr_scheduler", "swa_utils",
]

if TYPE_CHECKING:
    from weft.optim import swa_utils


def __getattr__(name: str) -> Any:
    if name != "swa_utils":
        refuse("module 'weft.optim'", name)
    return importlib.import_module("weft.optim.swa_utils")  # it loads weft.nn, which optimizers do without
