"""A planned program (weft/plan) as native code: functions over its frame, compiled and loaded.
Imports emit/ and lower/.

Start reading at compile.py (the whole way), then layout.py (segments), functions.py and control_flow.py (their code),
numbers.py, sizes.py and launch.py (what they are written with). host_calls.py runs a node in NumPy.
"""
