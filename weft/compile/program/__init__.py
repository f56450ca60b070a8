"""A captured function as it is called: the guards of a call, what the call is given, and what it leaves behind.

entry.py       one program of a compiled function     call_guards.py   whether it serves a call; quick_match.py the
                                                                       commonest calls, state_guards.py
call_plan.py   what is put in and taken out           outputs.py       results as the function gave them
bound_state.py state that is an input                 again.py         calls that a program makes again
parts.py       a program in parts, which end with     step.py, boundary.py  one such call, and the part before it
               calls of Python                        calling_entry.py, frame.py  all parts, and what a call has come to
"""
