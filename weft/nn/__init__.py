"""Floor 9: neural networks with PyTorch's names: Module and the modules, functional, init, utils.

modules/module.py is the base; each other file of modules/ is one family. Everything computes through weft.nn.functional.
"""

from weft.nn import functional, init, utils
from weft.nn.modules.activations import GELU, ReLU, Sigmoid, SiLU, Tanh
from weft.nn.modules.containers import ModuleList, Sequential
from weft.nn.modules.dropout import Dropout
from weft.nn.modules.embedding import Embedding
from weft.nn.modules.linear import Identity, Linear
from weft.nn.modules.losses import CrossEntropyLoss, MSELoss
from weft.nn.modules.module import Module
from weft.nn.modules.norms import LayerNorm
from weft.nn.parameter import Parameter

__all__ = [
    "GELU", "CrossEntropyLoss", "Dropout", "Embedding", "Identity", "LayerNorm", "Linear", "MSELoss", "Module", "ModuleList", "Parameter", "ReLU",
    "Sequential", "SiLU", "Sigmoid", "Tanh", "functional", "init", "utils",
]
