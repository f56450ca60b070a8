"""The functions of the native convolutions (prototypes.py has their contract): one library for each dtype and target,
compiled once."""

from __future__ import annotations

from weft.codegen.emit import Module
from weft.codegen.gemm.tiles import plan_gemm
from weft.codegen.target import Target

from .blocks import WindowKernels
from .maxima import Maxima, emit_picked
from .tiles import LineTiles, WindowTiles
from .weights import WeightSums, emit_weight_total


def convolution_module(dtype: str, target: Target) -> Module:
    """A module with nothing but the library."""
    module, plan = Module.for_target(target), plan_gemm(dtype, target)
    tiles = WindowTiles(module, plan)
    for is_spread in (False, True):
        WindowKernels(module, plan, tiles, is_spread)
    WeightSums(module, plan, LineTiles(module, plan))
    emit_weight_total(module, plan)
    Maxima(module, plan)
    for is_back in (False, True):
        emit_picked(module, plan, is_back)
    return module
