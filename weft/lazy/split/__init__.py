"""`weft.compile(function, split=True)`: a function that runs as Python on each call, its operators deferred.

While it runs, plain tensors of its thread have the back end of backend.py instead of NumPy's: calls go to a trace
(weft/lazy/trace.py), as those of lazy tensors do. Where Python asks for a value the trace is cut: what it holds becomes
one program, the program runs, and every tensor is a plain one again. memory.py knows which memory the trace reads and
has to write; start reading at function.py.
"""
