"""Floor 3: the graph language: Graph, Block, Node, Value; the one builder; printer, parser, verifier, interpreter.

Start reading at graph.py, then builder.py. Imports only support/, types/, ops/, runtime/.
"""
