"""TRANSFORM, a stack of levels: an operator is interpreted by the top level, which goes on below with itself popped;
so they nest in any order.

level.py             what a level is, and the payload of the tensors that it wraps
grad_level.py        the level of grad: a graph of its own
dual.py              the level of jvp: values with tangents; tangents.py its rules
forward_ad_level.py  that of forward_ad: under autograd
batched.py           the level of vmap: values with a leading batch dim
derived.py           batch rules that follow from an entry; fallback.py the loop
functional.py        the level of functionalize
custom.py            custom Functions under the levels; batched_function.py those that vmap makes of one

Start reading at level.py. Where a program runs without a level, nothing here is called.
"""
