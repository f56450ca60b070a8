"""Floor 9: optimizers with PyTorch's names, options, numerics and state_dict.

optimizer.py is the base (groups, hooks, capture); each other file is one algorithm, written per parameter with tensor operators only, so
that the same lines run eagerly and become part of a captured step.
"""

from weft.optim.adam import Adam, AdamW
from weft.optim.optimizer import Optimizer
from weft.optim.sgd import SGD

__all__ = ["SGD", "Adam", "AdamW", "Optimizer"]
