"""Functions of nn.functional written with tensor operators alone: those that the catalogue has no entry for.
One file per family."""

from weft.nn.functions import (
    activations,
    adaptive_pooling,
    attention,
    distances,
    fractional_pooling,
    grouped,
    losses,
    pooling,
    shapes,
)

MODULES = (activations, adaptive_pooling, attention, distances, fractional_pooling, grouped, losses, pooling, shapes)
