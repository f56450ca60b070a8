"""Floor 9: the recording. Operators on tensors are recorded instead of computed; capture.py composes the parts, each of
which has one job.

recorder.py   where nodes go: builder, blocks, the user's line      tensors.py    symbolic tensors: operators, views,
writes
symbolic.py   their payload: the functionalizer's views of a graph  outside.py    tensors from outside, as guarded state
writes.py     what is taken back: versions, histories               gradients.py  `.grad`; wrapper_gradients.py that of
wrappers
evaluator.py  backward as opaque calls                              wrappers.py   subclasses at the border of a program
backend.py    the back end that tensors name                        state.py      one storage as an input
types_only.py what a function gives for types                       restart.py    why a recording begins again
numbers/      Python numbers as inputs, and their arithmetic
blocks/       cond, while_loop, and gradients through them
repeats/      loops of Python's, recognised while they are recorded
differentiate.py  the gradients of a graph: the graph is recorded again, and the engine walks back
"""
