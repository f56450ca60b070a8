"""Floor 6: loop nests: what one kernel computes, index by index, before it is machine code.

kernel.py   what a program needs to know of a kernel in order to call it
nest.py     the nest as data: axes, accesses, instructions
build.py    a group of nodes to nests (accumulate.py: how sums are carried out, coalesce.py: axes that are one loop)
copies.py   nests of nodes that stand alone: copies, fills, gathers
phases.py   passes over the inner axes, and what is stashed between them
text.py     a nest as readable loops

Start reading at nest.py. Imports passes/ and lower floors; code generation (codegen/lower) imports this package.
"""
