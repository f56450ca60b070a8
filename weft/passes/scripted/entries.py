"""The entries of the language that passes build with, or that have a meaning for the graph itself."""

from __future__ import annotations

import weft.catalogue.language  # noqa: F401  # defines them
from weft.ops.op import OPS, Op

GET_ATTR: Op = OPS["prim::GetAttr"]
SET_ATTR: Op = OPS["prim::SetAttr"]
CALLS = frozenset(OPS[f"prim::{name}"] for name in ("CallFunction", "CallMethod", "CallBuiltin", "PythonOp"))
DICT = OPS["prim::DictConstruct"]
LIST, LIST_UNPACK = OPS["prim::ListConstruct"], OPS["prim::ListUnpack"]
NEW_LISTS = frozenset(OPS[f"prim::{name}"] for name in ("slice", "add", "mul", "copy"))  # of old elements
TUPLE, TUPLE_INDEX, TUPLE_UNPACK = (OPS[f"prim::Tuple{name}"] for name in ("Construct", "Index", "Unpack"))
CAST: Op = OPS["prim::unchecked_cast"]
BLANK: Op = OPS["prim::Uninitialized"]  # stands where no value will be read
SET_GRAD: Op = OPS["prim::set_grad_enabled"]
PRINT, SLICE = OPS["prim::Print"], OPS["prim::make_slice"]
TENSOR_GETITEM, TENSOR_SETITEM = OPS["prim::tensor_getitem"], OPS["prim::tensor_setitem"]
TENSOR_PUT: Op = OPS["prim::tensor_put"]  # setitem as a function
