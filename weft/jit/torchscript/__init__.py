"""Programs as TorchScript shows them: graphs that users read and change, their text, their code, and files.

graph.py    a graph as users see it; graphs/ its parts, its text, edits       symbol.py   operators' names
code.py     a graph as lines that read like Python                            matching.py nodes by schema
files/      saved programs                                                     freezing.py Modules as constants
inlining.py calls opened                                                       shape_analysis.py  types of tensors
"""
