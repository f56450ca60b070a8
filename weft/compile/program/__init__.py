"""A captured function as it is called: the guards of a call, what the call is given, and what it leaves behind.

entry.py       one program of a compiled function     call_guards.py   whether it serves a call; quick_match.py the
                                                                       commonest calls, state_guards.py
call_plan.py   what is put in and taken out           outputs.py       results as the function gave them
bound_state.py state that is an input                 again.py         calls that a program makes again
parts.py       a program cut at calls of Python       step.py, calling_entry.py  one part, and calls between parts
"""
