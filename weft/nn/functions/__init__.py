"""Functions of nn.functional written with tensor operators alone: those that the catalogue has no entry for. One file per family."""

from weft.nn.functions import activations, attention, distances, losses, pooling, shapes

MODULES = (activations, attention, distances, losses, pooling, shapes)
