"""The backward of a program as a program.

backward.py         the engine over values of a graph      differentiation.py  a program and its backward, as two graphs
regions.py          regions that are run again as a whole  gradients.py        gradients while a program runs
"""
