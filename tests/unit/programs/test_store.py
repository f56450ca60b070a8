"""The program store by itself: which program fits, in which order they are tried, which numbers are inputs, and what is
dropped."""

from __future__ import annotations

import threading
from collections.abc import Sequence

import pytest

from weft.programs.store import UNFIT, Lifting, Miss, ProgramStore, Variants, narrowed
from weft.support.errors import CaptureError


class Program:
    """Fits calls whose numbers are its own, but for those that are inputs."""

    def __init__(self, numbers: Sequence[float], inputs: set[int] | None = None) -> None:
        self.numbers, self.inputs = numbers, inputs or set()
        self.asked = 0

    def match(self, inputs: object, numbers: Sequence[float]) -> list[float] | Miss:
        self.asked += 1
        pairs = list(zip(self.numbers, numbers, strict=True))
        if any(a != b for i, (a, b) in enumerate(pairs) if i not in self.inputs):
            return UNFIT
        return [n for i, n in enumerate(numbers) if i in self.inputs]


def called(variants: Variants[Program], *numbers: float, refused: frozenset[int] = frozenset()) -> Program:
    """The program for a call, captured if there is none. refused: places whose numbers no program takes as inputs."""

    def make(lifted: set[int]) -> Program:
        if lifted & refused:
            raise CaptureError("a number is needed")
        return Program(numbers, set(lifted))

    match = variants.find(None, numbers)
    if match is not None:
        return match[0]
    variants.missed(numbers)
    return variants.add(variants.lifting.capture(make))


def test_a_program_says_what_it_makes_of_a_call() -> None:
    variants: Variants[Program] = Variants(4)
    assert variants.find(None, (1, 2)) is None and not len(variants)
    program = variants.add(Program((1, 2), {1}))
    assert variants.find(None, (1, 7)) == (program, [7])
    assert variants.find(None, (2, 2)) is None


def test_the_program_that_was_used_last_is_asked_first() -> None:
    variants: Variants[Program] = Variants(4)
    one, two, three = [variants.add(Program((n,))) for n in (1, 2, 3)]
    assert list(variants) == [three, two, one] and variants[0] is three
    variants.find(None, (1,))
    assert list(variants) == [one, three, two]
    asked = two.asked
    variants.find(None, (1,))
    assert two.asked == asked


def test_a_general_program_stays_behind_the_others() -> None:
    variants: Variants[Program] = Variants(3)
    general = variants.add(Program((0,), {0}), is_general=True)
    one = variants.add(Program((1,)))
    assert variants.find(None, (5,)) == (general, [5])
    assert list(variants) == [one, general]
    assert variants.find(None, (1,)) == (one, [])
    two, three = variants.add(Program((2,))), variants.add(Program((3,)))
    assert list(variants) == [three, two, general]
    variants.remove(lambda program: program is general)
    variants.find(None, (2,))
    assert list(variants) == [two, three]


def test_the_program_that_was_not_used_for_the_longest_time_goes() -> None:
    variants: Variants[Program] = Variants(2)
    for n in (1, 2):
        variants.add(Program((n,)))
    assert variants.is_full
    variants.find(None, (1,))
    variants.add(Program((3,)))
    assert [program.numbers for program in variants] == [(3,), (1,)]


def test_reasons_are_written_when_somebody_asks() -> None:
    class Refusing:
        def match(self, inputs: object, numbers: object) -> Miss:
            return Miss(lambda: texts.append("asked") or "another dtype", 3)

    texts: list[str] = []
    variants: Variants[Refusing] = Variants(4)
    refusing = variants.add(Refusing())
    assert variants.find(None) is None and not texts
    ((program, miss),) = variants.reasons(None)
    assert program is refusing and (miss.text, miss.depth, texts) == ("another dtype", 3, ["asked"])


def test_a_number_becomes_an_input_when_it_changes() -> None:
    variants: Variants[Program] = Variants(8)
    assert called(variants, 3, 5).inputs == set()
    assert called(variants, 4, 5).inputs == {0}
    assert called(variants, 9, 5).inputs == {0} and len(variants) == 2
    assert called(variants, 9, 6).inputs == {0, 1}
    assert called(variants, 1, 1).inputs == {0, 1} and len(variants) == 3
    assert variants.misses == 3


def test_a_number_that_cannot_be_an_input_stays_a_constant() -> None:
    variants: Variants[Program] = Variants(8)
    refused = frozenset({0})
    for n in (1, 2, 3):
        assert called(variants, n, 5, refused=refused).inputs == set()
    assert variants.lifting.constant == {0}
    assert called(variants, 3, 6, refused=refused).inputs == {1}, "the other one is tried by itself"
    assert called(variants, 3, 7, refused=refused).inputs == {1} and len(variants) == 4


def test_zeros_have_signs_and_kinds_of_numbers_change() -> None:
    lifting = Lifting()
    for numbers in ((0.0, 1), (-0.0, 1), (-0.0, 1)):
        lifting.note(numbers)
    assert lifting.varying == {0}


def test_an_error_that_no_input_explains_is_raised() -> None:
    variants: Variants[Program] = Variants(8)

    def make(lifted: set[int]) -> Program:
        tried.append(set(lifted))
        raise TypeError("the caller's")

    tried: list[set[int]] = []
    variants.missed((1,))
    variants.missed((2,))
    with pytest.raises(TypeError, match="the caller's"):
        variants.lifting.capture(make)
    assert tried == [{0}, set()] and not len(variants)


def test_the_number_at_fault_alone_becomes_a_constant() -> None:
    variants: Variants[Program] = Variants(8)
    refused = frozenset({1})
    called(variants, 1, 2, 3, refused=refused)
    assert called(variants, 5, 6, 7, refused=refused).inputs == {0, 2}
    assert (variants.lifting.constant, variants.lifting.inputs) == ({1}, {0, 2})
    both = frozenset({0, 2})
    assert called(variants, 5, 8, 7, refused=both).inputs == set(), "two are at fault, and all are constants"


def test_numbers_are_narrowed_down() -> None:
    def capture(constants: frozenset[str]) -> frozenset[str] | None:
        tried.append("".join(sorted(constants)))
        return constants if constants & set("c") else None

    tried: list[str] = []
    assert narrowed("abcd", capture) == frozenset("c") and tried == ["abcd", "a", "b", "c"]
    assert narrowed("ab", capture) is None and narrowed("", capture) is None
    tried.clear()
    assert narrowed("abcdefghi", capture) == frozenset("abcdefghi") and len(tried) == 1, "too many to try each"


def test_keys_are_apart_and_refused_keys_are_remembered() -> None:
    store: ProgramStore[str, Program] = ProgramStore(2, 4)
    assert store.latest is None
    first = store.variants("a").add(Program((1,)))
    assert store.variants("a") is store.variants("a") and store.latest is first
    assert store.variants("b").find(None, (1,)) is None and store.latest is first
    assert store.has_room("a") and not store.has_room("c")
    assert [len(variants) for variants in store] == [1, 0]
    store.refuse("c", CaptureError("no"))
    assert store.may_add("a") and not store.may_add("c")
    assert "c" in store.refused and len(store.variants("c")) == 0
    assert store.latest is None, "where there are too many keys all are forgotten"
    for n in range(4):
        assert store.may_add("b")
        store.variants("b").add(Program((n,)))
    assert not store.may_add("b")
    store.forget()
    assert store.latest is None and not store.refused


def test_threads_find_programs_while_others_add_some() -> None:
    variants: Variants[Program] = Variants(16)
    for n in range(8):
        variants.add(Program((n,)))
    missed: list[int] = []

    def find() -> None:
        missed.extend(n for _ in range(300) for n in range(8) if variants.find(None, (n,)) is None)

    def add() -> None:
        for n in range(100, 400):
            program = variants.add(Program((n,)))
            variants.remove(lambda p, program=program: p is program)

    threads = [threading.Thread(target=target) for target in (find, find, add)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not missed and sorted(program.numbers[0] for program in variants) == list(range(8))
