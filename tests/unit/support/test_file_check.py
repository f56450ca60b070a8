"""weft.testing.FileCheck against texts whose pieces are known."""

from __future__ import annotations

import pytest

from weft.testing import FileCheck

TEXT = "alpha beta\ngamma beta\ndelta\nbeta beta\n  mark me\n  ^~~~\n"

HOLDS = {
    "in order": FileCheck().check("alpha").check("gamma").check("delta"),
    "the same line": FileCheck().check("alpha").check_same("beta"),
    "the next line": FileCheck().check("alpha").check_next("gamma"),
    "none between": FileCheck().check("gamma").check_not("alpha").check("delta"),
    "none behind": FileCheck().check("delta").check_not("gamma"),
    "any order": FileCheck().check_dag("delta").check_dag("alpha").check("mark"),
    "a count": FileCheck().check_count("beta", 4, exactly=True),
    "a count before the next rule": FileCheck().check_count("beta", 2, exactly=True).check("delta"),
    "an expression": FileCheck().check_regex("g.m+a").check("delta"),
    "highlighted": FileCheck().check_source_highlighted("mark"),
}
FAILS = {
    "the wrong order": FileCheck().check("gamma").check("alpha"),
    "another line": FileCheck().check("alpha").check_same("gamma"),
    "two lines below": FileCheck().check("alpha").check_next("delta"),
    "what is between": FileCheck().check("alpha").check_not("gamma").check("delta"),
    "what comes first": FileCheck().check_not("alpha").check("delta"),
    "too few": FileCheck().check_count("beta", 5),
    "too many": FileCheck().check_count("beta", 3, exactly=True),
    "nothing of the kind": FileCheck().check_regex("z+"),
    "text, no expression": FileCheck().check("g.m"),
    "half of it highlighted": FileCheck().check_source_highlighted("mark me"),
}


@pytest.mark.parametrize("name", HOLDS)
def test_rules_that_hold(name: str) -> None:
    HOLDS[name].run(TEXT)


@pytest.mark.parametrize("name", FAILS)
def test_rules_that_do_not(name: str) -> None:
    with pytest.raises(RuntimeError, match="Expected to find"):
        FAILS[name].run(TEXT)


def test_rules_in_comments() -> None:
    FileCheck().run("# CHECK: alpha\n# CHECK-NOT: delta\n# CHECK: gamma\n# CHECK-COUNT-3-EXACTLY: beta", TEXT)
    with pytest.raises(RuntimeError, match="CHECK-NEXT: gamma"):
        FileCheck().run("# CHECK: beta\n# CHECK-NEXT: delta\n# CHECK-NEXT: gamma", TEXT.replace("gamma", "delta", 1))
    with pytest.raises(ValueError, match="holds no rule"):
        FileCheck().run("alpha", TEXT)
