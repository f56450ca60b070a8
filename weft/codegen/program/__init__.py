"""A lowered graph as one native program: steps in order, memory, sizes, and the functions that run them. Imports emit/ and lower/.

Start reading at compile.py (the whole way), then layout.py (segments and tables), items.py (the steps), lives.py, storage.py and arena.py
(memory), words.py, sizes.py and dims.py (sizes), functions.py, control_flow.py, numbers.py and launch.py (code). foreign.py and
numpy_layout.py run nodes in NumPy.
"""
