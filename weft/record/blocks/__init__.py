"""Branches and loops of a captured function, and how the engine goes backward through them.

control.py     weft.cond and weft.while_loop
recorded.py    a block with the autograd graph that was made in it; branches.py and loops.py put blocks into prim::If
               and prim::Loop, with histories
memory.py      outer tensors that a block writes
front_ends.py  what front ends that record blocks of their own ask of the active capture
Start reading at recorded.py.
"""
