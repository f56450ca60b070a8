"""Tensors from nothing: factories.py (zeros, arange, eye), spaces.py (linspace), grids.py (meshgrid, combinations)."""

from weft.catalogue.creation import factories, grids, spaces  # noqa: F401
