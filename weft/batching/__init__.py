"""Auto-batching: a program that was written for one example runs for many, of different sizes and with different ways
through its branches and loops.

tensors.py    BatchTensor: examples padded to one size, as users see them
rows.py       which examples go on in a block
values.py     values of a program that differ from example to example
padding.py    masks; padded tensors from examples and back
selecting.py  the values of some examples, and their way back
graphs.py     the pass: branches and loops that examples take differently become rows of examples
entries.py    the operators that the pass emits
operators.py  an operator on the values of all examples: at once by its batch rule, else example by example
code.py       the steps of a batched program
masks.py      rows of a program that is captured: which examples go on is only known when it runs
probing.py    the sizes of such examples, in what an operator gives
captured.py   operators on them
recording.py  the steps of a batched program under a capture
functions.py  `@weft.jit.batch`
"""
