"""Operators of the user's own: ordinary entries, with what is registered for them.

operators.py   a user's operator: its entry, and what answers its calls
schemas.py     schemas from signatures, and from text with PyTorch's words
fake.py        types from `register_fake`        history.py   gradients and vmap from what is registered
custom.py      custom_op                         libraries.py Library, define, impl
registry.py    register_fake, register_kernel, register_autograd, register_vmap by name
checks.py      opcheck
Imports everything below. Start reading at operators.py.
"""

from weft.library.checks import OpCheckError, opcheck
from weft.library.custom import CustomOpDef, custom_op
from weft.library.fake import get_ctx
from weft.library.libraries import Library, define, impl
from weft.library.registry import register_autograd, register_fake, register_kernel, register_vmap
from weft.library.schemas import infer_schema

__all__ = [
    "CustomOpDef", "Library", "OpCheckError", "custom_op", "define", "get_ctx", "impl", "infer_schema", "opcheck",
    "register_autograd", "register_fake", "register_kernel", "register_vmap",
]
