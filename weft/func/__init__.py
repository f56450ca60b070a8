"""weft.func: transforms of functions: grad, vjp, jvp, jacrev, jacfwd, hessian, vmap, functionalize;
they nest in any order, in weft.compile too.

gradients.py  grad, grad_and_value, vjp              jacobians.py  jacrev, jacfwd, hessian
forward.py    jvp, linearize                         mapping.py    vmap
state.py      modules as functions of their parameters   functionalizing.py  functionalize
arguments.py  what they ask of their arguments
The levels that do the work are in weft/layers/transforms.
"""

import weft.layers.transforms.custom  # noqa: F401  (custom Functions under the levels)
from weft.func.forward import jvp, linearize
from weft.func.functionalizing import functionalize
from weft.func.gradients import grad, grad_and_value, vjp
from weft.func.jacobians import hessian, jacfwd, jacrev
from weft.func.mapping import debug_unwrap, vmap
from weft.func.state import functional_call, replace_all_batch_norm_modules_, stack_module_state

__all__ = [
    "debug_unwrap", "functional_call", "functionalize", "grad", "grad_and_value", "hessian", "jacfwd", "jacrev", "jvp",
    "linearize", "replace_all_batch_norm_modules_", "stack_module_state", "vjp", "vmap",
]
