"""Loop rerolling: a graph in which the same nodes come again and again, as an unrolled Python loop leaves them, gets
loops in their place.

repeats.py   where nodes repeat, and with which period: linear in the number of nodes
columns.py   what one operand is over the iterations: the same value, that of an earlier iteration, a row of something
rows.py      rows of memory, by the geometry of views
plan.py      what a loop carries, goes over and stacks; or why the nodes are no loop
loops.py     the graph with its loops
joins.py     stacks and concatenations of what they give
join_rows.py those of rows that a recorded loop's stack was taken apart into
"""
