"""Plans: in which order a program's steps run, how long each value lives, which memory it has,
and what lies where in a frame.

A plan knows no target: nothing here imports codegen/ or LLVM, and code generation writes down what a plan says.
Imports loops/ and lower floors.

Start reading at items.py (the steps in order), then lives.py (lifetimes), storage.py (who lives where) and arena.py
(which buffers share memory), parts.py (kernels in parts), words.py and sizes.py (what a frame holds, and how its
sizes are computed), frame.py (what Python sees of it). numbers.py says which arithmetic on numbers a program can do
itself; numpy_layout.py is the plan of a program without native code.
"""
