"""Floor 5, right column: passes, each `Graph -> Graph` by re-emission through the builder; one pass, one file.

Start reading at pipeline.py, the compiler's order on one page. rebuild.py is what passes are made with,
run.py wraps every run.
"""
