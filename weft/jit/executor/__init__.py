"""How a scripted program is run again and again: plans, one for each kind of arguments.

spec.py       what a plan is for: dtype, rank, requires_grad of the arguments, never their sizes
grouping.py   runs of operators that become one program: differentiable regions, and what fuses in them
groups.py     a group as a native program, with the interpreter behind it
plans.py      a program's plans, and running one
"""
