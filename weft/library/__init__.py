"""Operators of the user's own: ordinary entries, with what is registered for them.

operators.py   a user's operator: its entry, and what answers its calls
schemas.py     schemas from signatures, and from text with PyTorch's words
fake.py        types from `register_fake`        history.py   gradients and vmap from what is registered
custom.py      custom_op                         libraries.py Library, define, impl
registry.py    register_fake, register_kernel, register_autograd, register_vmap by name
checks.py      opcheck
Imports everything below. Start reading at operators.py.
"""

from weft.library.checks import OpCheckError as OpCheckError
from weft.library.checks import opcheck as opcheck
from weft.library.custom import CustomOpDef as CustomOpDef
from weft.library.custom import custom_op as custom_op
from weft.library.fake import get_ctx as get_ctx
from weft.library.libraries import Library as Library
from weft.library.libraries import define as define
from weft.library.libraries import impl as impl
from weft.library.registry import register_autograd as register_autograd
from weft.library.registry import register_fake as register_fake
from weft.library.registry import register_kernel as register_kernel
from weft.library.registry import register_vmap as register_vmap
from weft.library.schemas import infer_schema as infer_schema
