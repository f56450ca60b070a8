"""Floor 10: programs. What was recorded, made executable, found again by what it computes, and called with arrays or
tensors.

store.py           key -> programs, for every front end: which fits, which numbers are inputs, what goes
executable.py      one interface over the back ends             nan_watch.py   which operator made a NaN
program_cache.py   on disk, by the graph's text                 live_programs.py  in this process
program_io.py      inputs, results and effects of a program     arguments.py   what a program depends on in a tensor
shape_check.py     guards on sizes, as one function             memory.py      what a call's results show
tensor_program.py  a graph called with tensors, gradients included; on_tensors.py node by node
joint.py           a program and its backward as one history, as joint_record.py records it;
                   inner_results.py results that are one another's history,
                   freed.py what may be let go of between them, argument_histories.py those of arguments
inlining.py        a program's backward within another recording; higher_order.py its gradients' gradients
eager/             native code for large arrays in eager mode
"""
