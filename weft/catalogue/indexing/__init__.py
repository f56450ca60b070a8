"""Elements by position and by mask.

reads.py (gather, index_select, advanced indexing), writes.py (index_add, index_put), scattering.py, masks.py,
selecting.py (one place, which a tensor names), embedding.py (rows of a table). checks.py is what indices must satisfy;
checked.py, indices that are known to.
"""

from weft.catalogue.indexing import (  # noqa: F401
    checked,
    checks,
    embedding,
    masks,
    reads,
    scattering,
    selecting,
    writes,
)
