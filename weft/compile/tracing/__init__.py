"""From a call to a program: stand-ins in, the function run once under a capture, a graph with its results and effects
out.
"""
