"""From Python's syntax to a graph.

compile.py compiles a function; context.py has the state of that and the tables of what each piece of syntax means;
values.py and scope.py say what a name can stand for.

    statements    statements.py, assignments.py, branches.py with exits.py, loops.py with iterables.py
    expressions   expressions.py, operations.py, conditions.py, containers.py, subscripts.py, strings.py
    calls         calls.py, matching.py (schemas), members.py
    names         functions.py, python/ (what those of Python stand for), classes/
    types         types.py

Variables are values of the graph: an assignment gives a name another value; branches and loops join what their blocks
leave.
"""
