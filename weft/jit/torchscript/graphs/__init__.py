"""Graphs as users make and change them.

stored_text.py, stored_graphs.py   TorchScript's notation, line by line, and the graph that it means
calls.py                           a node by the name of its operator and its arguments
edits.py                           nodes put in, taken out and exchanged
from_text.py                       parse_ir, create_function_from_graph
"""
