"""How much is kept: the limits of all caches, in one table.

Under a key of the program store (programs/store.py) the program that was not used for the longest time goes. A memo
(support/memo.py) that is full starts anew. A limit holds against calls that never come again as they were, and is far
above what steps need that do come again.
"""

from __future__ import annotations

from typing import Final

# ---- programs, each of which has cost a compilation
PROGRAMS_OF_A_FUNCTION: Final = 64  # weft.compile: what keeps changing would be captured at every call
LEAVES_THAT_ARE_NOTED: Final = 4096  # of a container in an instance with compiled methods: one with more is no input
READS_OF_A_METHOD: Final = 16  # what the latest programs of instances have read, by which others are compared with them
CONTINUATIONS_OF_A_CALL: Final = 8  # of Python's: where it changes more, the function runs as it is written
ANSWERS_OF_A_PROGRAM: Final = 16  # that Python asks tensors for: each may be another one at the next call
CAPTURES_OF_A_SPLIT_FUNCTION: Final = 8  # beyond, and beyond every fourth call, Python runs on each call
ELEMENTS_WORTH_WAITING: Final = 1 << 14  # of a result, on average: where there are less, operators are run at once
CALLS_BEFORE_A_TRIAL: Final = 64  # of a split function, and twice as many, and so on: its sizes may have changed
FAILURES: Final = 4  # of a split function's programs, for errors: the same
PROGRAMS_OF_A_GROUP: Final = 8  # of a script: what has more patterns of sizes is interpreted
PLANS_OF_A_SCRIPT: Final = 256  # kinds of arguments: dtypes, ranks, which want gradients, or which are batched
PROGRAMS_OF_A_STEP: Final = 64  # lazy and split: calls of one structure, with other numbers and writes
STEPS: Final = 1024  # lazy and split: structures of calls of one device; traces name them, and are forgotten with them
BACKWARDS: Final = 1024  # compiled autograd: structures of backward calls
GRAPHS_OF_A_BACKWARD: Final = 64  # of one structure: where calls of Python, or programs, give other gradients
PROGRAMS_OF_A_PART: Final = 16  # compiled autograd: beyond, a part runs node by node
KINDS_OF_A_PART: Final = 64  # dtypes, ranks and memory formats of the inputs of a part: the same
PROGRAMS_OF_A_GRAPH: Final = 64  # programs.TensorProgram: by its guards
GRADIENTS_OF_A_GRAPH: Final = 64  # the same, by the inputs that want gradients, and by the gradients that are wanted
PROGRAMS_OF_AN_OPERATOR: Final = 8  # eager mode's native code for large arrays, by kind: beyond, NumPy runs
REFUSED_KEYS: Final = 4096  # that no program can be made for: a mark each, which spares an attempt
SUSPECTS: Final = 8  # numbers each of which is tried as the one that no program takes as an input
VARIANTS_OF_CODE: Final = 8  # of one graph: its passes may ask what the graph leaves open
RECENT_CODE: Final = 32  # kept though nobody runs it: whoever makes trainers one after the other compiles once
KERNELS: Final = 16 << 20  # bytes of object code, kept for programs that have some of the same kernels
CARRIED: Final = 256 << 20  # bytes of code that came with pickles of compiled functions; the oldest goes first
FRAMES_OF_A_PROGRAM: Final = 4  # concurrent calls whose memory is kept
DISK_CACHE: Final = 512 << 20  # bytes
GENERATED_TEXTS: Final = 8192  # whose code and lines are kept, for tracebacks; the oldest goes first

# ---- what eager mode has planned
PLANS_OF_A_TABLE: Final = 256  # of an operator or formula: dtypes and sizes that keep changing
TYPES_OF_AN_OPERATOR: Final = 512  # results of a pointwise operator's type rule
TYPES_OF_A_USERS_OPERATOR: Final = 256  # the same of one of the user's: what its fake implementation gave
FITTING_WRITES: Final = 4096  # calls of in-place operators whose results fit
VIEWS_OF_AN_OPERATOR: Final = 1024  # dtypes, sizes, strides and arguments of a view
STRIDES_OF_A_VIEW: Final = 64  # of one dtype and shape
MEMORY_FORMATS: Final = 4096  # calls, by how their operands lie in memory
CUT_PRODUCTS: Final = 4096  # sizes of matrices

# ---- what lazy tensors know
STATES_OF_A_TRACE: Final = 1 << 18  # a state is small, and a step has as many as calls
KINDS_OF_A_RULE: Final = 128  # operands that one rule is recorded for; a rule with more runs as it is
ORDERS: Final = 4096  # geometries, and the order of their dims
PATHS: Final = 4096  # types, and paths of views on them
LAZY_VIEWS: Final = 1 << 13  # payloads, and views of them
LAZY_TYPES: Final = 1 << 14
LAZY_CALLS: Final = 1 << 13  # operators, rules and graphs, by what calls of them look like
REPLAYS_OF_A_STATE: Final = 4  # of one thing that follows a state, as generated functions or as they look
ROWS_OF_A_RULE: Final = 1024  # by how many times it is repeated
CAUSES: Final = 256  # of compilations, for reports
COUNTED_RULES: Final = 4096  # then they are counted by their calls

# ---- results of pure functions
TENSOR_TYPES: Final = 1 << 14  # that nothing holds: small, and asked for again at every call
SIZES: Final = 1 << 16  # products and quotients of symbols: a capture asks for the same ones over and over
VALUE_NUMBERS: Final = 1 << 16  # how values are computed, in all programs of a function
RESULTS: Final = 4096  # of most functions: more than the operators and formulas of a large model
FEW_RESULTS: Final = 64  # where one is large, or few are asked for
HANDLERS: Final = 256  # functions whose handlers of exceptions were looked at (Python 3.10)
OBJECTS_OF_A_STATE: Final = 1 << 18  # that are looked into where all that a function may change is kept
TEXTS_OF_MISSES: Final = 1024  # why calls of a function, or backward calls, had no program
