"""Where elements lie: views, which share memory with their base, and what copies elements to other places.

Views: views.py (view, permute), singletons.py (expand, squeeze), slicing.py (select, slice, split),
splitting.py (NumPy's names), windows.py (diagonal, unfold, as_strided), complex_views.py.
twins.py derives their copies and scatters.
Copies: joining.py (cat, stack), rearranging.py (repeat, flip, roll, triangles, pad).
"""

from weft.catalogue.shapes import (  # noqa: F401
    complex_views,
    joining,
    rearranging,
    singletons,
    slicing,
    splitting,
    twins,
    views,
    windows,
)
