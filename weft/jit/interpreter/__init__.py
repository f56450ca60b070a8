"""Running a program in Python: its graph as steps over registers.

code.py          the steps of a program, and running them        operators.py     operators as functions
object_steps.py  objects, attributes, types                      whole_steps.py   blocks that run as a whole
hot.py           which loops run as machine code                 running.py       calls from Python
later/           blocks that are functions, called later         futures.py       fork and wait
recording/       programs under a capture
"""
