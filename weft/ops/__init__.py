"""Floor 2: what an operator is (schema, entry, scalar protocol), how its NumPy value is computed,
and how a call is routed.

Start reading at op.py (the entry), then schema.py (the contract), scalar.py (what a pointwise body may say), route.py
(a call's first step). Operators themselves are entries in weft/catalogue. Imports only support/ and types/.
"""

from weft.ops.packet import aten as aten
from weft.ops.packet import prim as prim
