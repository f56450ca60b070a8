"""Floor 7: the walk of one call. An operator on Tensors goes down a fixed list of layers, chosen by the arguments' payloads and the thread's modes.

    FUNCTION    subclasses' __weft_function__, function modes      interception.py
    TRANSFORM   levels of vmap, jvp and grad                       (weft.func)
    AUTOGRAD    record the node                                    walk.py with autograd/record.py
    FUNCTIONAL  (capture) a write becomes a scatter into the base  weft/compile/symbolic.py
    DISPATCH    __weft_dispatch__ of wrapper subclasses            interception.py
    back end    eager.py: NumPy
Start reading at walk.py.
"""
