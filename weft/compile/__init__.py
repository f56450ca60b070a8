"""Floor 8: the only place where the two columns meet: capture, guards, driver, executables.

symbolic.py   tensors whose value is a graph value: storage, path, functional writes     capture.py   the mode that records
state.py      concrete storages as inputs                                                evaluator.py backward, recorded as opaque calls
numbers.py    lifted numbers                                                              guards/      the read-set of Python state
driver.py     weft.compile: guards, entries, calls                                        executable.py  running a graph on a back end
Start reading at driver.py.
"""
