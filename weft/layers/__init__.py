"""Floor 8: the walk of one call. An operator on Tensors goes down a fixed list of layers, chosen by the arguments'
payloads and the thread's modes.

    FUNCTION    subclasses' __weft_function__, function modes      weft/ops/overrides.py
    TRANSFORM   levels of vmap, jvp and grad, dispatch modes       transforms/, dispatch_modes.py
    AUTOGRAD    record the node                                    walk.py with autograd/record.py
    FUNCTIONAL  (capture) a write becomes a scatter into the base  weft/functionalizer
    back end    the operands' own, chosen by backends.py           dense.py (NumPy), abstract.py (meta), dispatch.py
Start reading at walk.py.
"""
