"""Loops of Python that are recognised while they are recorded: after three iterations the next calls of operators are
predicted, an iteration that comes as predicted costs a comparison for each call, and all of them become one prim::Loop.

each_call.py      calls where nothing is predicted
calls.py          the calls of operators, and when they repeat
iteration.py      what an iteration does: where each operand comes from; the code that compares calls with it
pending.py        results of predicted calls, whose values are not recorded yet
written.py        what iterations write in place
python_loop.py    predicted iterations: recorded as a loop, or one by one where they are few
for_statement.py  what the bytecode says of the `for` statement that a loop comes from
steady.py         whether its iterations differ by tensors alone
called.py         what calls in it give
values.py         what it follows a body with, in the place of Python's values
objects.py        what settings, modules and containers say of themselves
lengths.py        loops over a size, which go on for others
reasons.py        why a loop over a size does not go on for others
tables.py         numbers of the index, for as many iterations as there are
joins.py          lists of results, as long as a size, that are stacked
backward.py       the loop's history: a loop that goes back, with the sums of the engine in their order
Start reading at calls.py.
"""
