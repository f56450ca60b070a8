"""Write docs/reference: one page per area, from the entries (scripts/reference_entries.py)
and from docstrings (scripts/reference_objects.py).

    python scripts/make_reference.py          writes the pages, and names.md, which lists all names
    python scripts/make_reference.py --check  says which are not up to date (exit status 1)

A new package of the catalogue or public module is given its page in PAGES;
until then it stands on the page of what has no place yet.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "scripts"), str(ROOT)]

from reference_entries import packet_text, public_names  # noqa: E402  after the path
from reference_objects import dtype_table, object_text, objects_of, tensor_members  # noqa: E402

from weft.ops.op import PACKETS  # noqa: E402

FOLDER = ROOT / "docs" / "reference"
LONGEST_SIGNATURE = 160  # characters of one among all names


@dataclass(frozen=True)
class Page:
    """title and first lines; catalogue: packages and files of weft/catalogue whose entries stand here;
    homes: modules whose objects do."""

    title: str
    about: str
    catalogue: tuple[str, ...] = ()
    homes: tuple[str, ...] = ()


PAGES: dict[str, Page] = {
    "tensor": Page(
        "Tensor",
        (
            "What a tensor is and says of itself: attributes, conversions, dtypes, devices. Methods that are operators "
            "stand on the page of their area."
        ),
        ("pointwise.casts",),
        (
            "weft.tensor.tensor", "weft.tensor.size", "weft.tensor.device", "weft.tensor.printing", "weft.types",
            "weft.layers.predicates", "weft.runtime.storage", "weft.support.errors",
        ),
    ),
    "creation": Page(
        "Making tensors", "From data, and filled with values. Random ones stand on [their own page](random.md).",
        ("creation",), ("weft.tensor.creation", "weft.layers.factories", "weft.tensor.legacy", "weft"),
    ),
    "pointwise": Page(
        "Pointwise arithmetic and functions",
        "Computed element by element; operands broadcast and their dtypes are promoted.", ("pointwise",),
    ),
    "comparison": Page(
        "Comparisons, logic and bits", "Questions about elements, and operations on bits.", ("pointwise.comparison",)
    ),
    "reductions": Page(
        "Reductions and scans", "Over all elements or along dims: sums, extrema, statistics, running values.",
        ("reductions",),
    ),
    "shapes": Page(
        "Views and shapes",
        (
            "Views share memory with their base; the others copy. `*_copy` is the same value in memory of its own, "
            "`*_scatter` the base with other values in the place that the view shows."
        ),
        ("shapes",), ("weft.layers.inplace_views",),
    ),
    "indexing": Page("Indexing, scattering and sorting", "Elements by position, by mask and by order.", (
        "indexing", "reductions.sorting"
    )),
    "linear-algebra": Page("Linear algebra", "Products, norms, factorizations and solutions. Leading dims are batches.",
                           ("linalg",),
                           ("weft.catalogue.linalg", "weft.layers.low_rank")),
    "fft": Page("Fourier transforms", "Discrete transforms along dims.", ("signal",)),
    "special": Page("Special functions", "Functions beyond the elementary ones.", ("special",)),
    "random": Page(
        "Random numbers",
        (
            "Counter-based: a number depends on the seed, the call's place in the program and the element, "
            "and not on threads or on how the program runs."
        ),
        ("random",), ("weft.random", "weft.runtime.generator"),
    ),
    "distributions": Page(
        "Distributions",
        "Samples, densities, entropies and divergences; [distributions.md](../distributions.md) shows their use.",
        (), ("weft.distributions",),
    ),
    "nn-functional": Page("nn.functional", "The functions of neural networks.",
                          ("nn", "indexing.embedding"),
                          ("weft.nn.functions",)),
    "losses": Page("Losses", "As functions and as modules.", ("nn.losses", "nn.ctc"), (
        "weft.nn.functions.losses", "weft.nn.modules.losses"
    )),
    "nn": Page(
        "nn: modules and parameters",
        "Every module is callable with the arguments of its `forward`, and has the methods of `weft.nn.Module`.", (),
        ("weft.nn.parameter", "weft.nn.uninitialized", "weft.nn.modules"),
    ),
    "nn-utils": Page(
        "nn.init and nn.utils", "Filling parameters, clipping gradients, sequences of unequal lengths.", (),
        ("weft.nn.init", "weft.nn.utils", "weft.nn.grad", "weft.nn.attention"),
    ),
    "optim": Page("Optimizers", "Every optimizer has the methods of `weft.optim.Optimizer`.", (), ("weft.optim",)),
    "schedulers": Page("Learning rate schedulers", "Call `step()` once an epoch (or batch), after the optimizer's.", (),
                       (
                           "weft.optim.lr_scheduler", "weft.optim.scheduler", "weft.optim.schedules",
                           "weft.optim.plateau", "weft.optim.cycles", "weft.optim.swa_utils",
                       )),
    "autograd": Page("Gradients", "Recording, backward, hooks, custom functions, checks.", (),
                     (
                         "weft.autograd", "weft.tensor.modes", "weft.layers.inference", "weft.utils.checkpoint",
                         "weft.utils.selective",
                     )),
    "library": Page(
        "Operators of your own", "Python functions and schemas as operators, with what is registered for them. How: "
        "[library.md](../library.md).", (), ("weft.library",),
    ),
    "func": Page("Transforms of functions", "Functions of functions; they nest in any order.", (), ("weft.func",)),
    "compile": Page(
        "Compiling",
        (
            "One native program from a function or a whole training step; the switches and counters that go with it. "
            "The switches: `python -m weft knobs`."
        ),
        (), (
            "weft.explanations", "weft.export", "weft.compile", "weft.record", "weft.programs", "weft.compiler",
            "weft.runtime.pool",
            "weft.layers.threads",
            "weft.support.knobs", "weft.support.counters",
        ),
    ),
    "jit": Page(
        "Scripted programs",
        "Functions and Modules of Python as graphs with control flow. [jit.md](../jit.md) goes through them.",
        (), ("weft.jit", "weft.batching"),
    ),
    "onnx": Page(
        "ONNX", "Models in ONNX files, written and read. [onnx.md](../onnx.md) goes through both.", (), ("weft.onnx",)
    ),
    "lazy": Page(
        "Lazy tensors",
        "Operators that wait on device \"lazy\", and run as one program. [lazy.md](../lazy.md) follows a step.",
        (), ("weft.lazy", "weft.lazy.metrics", "weft.lazy.debug", "weft.lazy.config", "weft.lazy.computation"),
    ),
    "sparse": Page(
        "Sparse tensors", "Indices and values as one tensor. [sparse.md](../sparse.md) goes through what there is.", (),
        ("weft.sparse",),
    ),
    "data": Page("Data sets and loaders", "What feeds a training loop, and what it writes for TensorBoard.", (),
                 ("weft.utils.data", "weft.utils.tensorboard")),
    "interop": Page(
        "Files and other libraries", "Saving, loading, and memory shared with other libraries.", (),
        ("weft.interop", "weft.serialization"),
    ),
    "overrides": Page("Extending", "Classes of the user's own among the arguments of operators.", (),
                      (
                          "weft.overrides", "weft.ops", "weft.tensor.subclass", "weft.layers.dispatch_modes",
                          "weft.tensor.flattening", "weft.utils.dispatch",
                       "weft.utils.pytree", "weft.support.pytree")),
    "settings": Page(
        "Settings and testing", "Defaults of a process, what programs ask of other devices, and comparisons for tests.",
        (), (
            "weft.testing", "weft.cuda", "weft.accelerator", "weft.backends", "weft.memory", "weft.layers.settings",
            "weft.layers.checks",
        ),
    ),
    "array-api": Page(
        "Array API", "The standard (2024.12): its namespace, and its names in weft that PyTorch lacks.", (),
        ("weft.layers.array_api", "weft.array_api"),
    ),
    "masked-signal": Page(
        "Masked operators and windows", "Operators that leave elements out, and windows of signals.", (),
        ("weft.masked", "weft.signal"),
    ),
    "debug": Page(
        "Debugging", "Eager beside compiled, the pass at fault, why calls miss: `weft.debug`.", (), ("weft.debug",),
    ),
    "compiled-autograd": Page(
        "Compiled autograd", "Backward calls of eager programs, captured.", (), ("weft.compiled_autograd",),
    ),
    "distributed": Page(
        "Several processes", "Ranks over MPI, collectives, and training on several of them.", (),
        ("weft.distributed", "weft.nn.parallel"),
    ),
    "single-process": Page(
        "What is for several devices",
        "Names that programs for PyTorch ask for, each as it is in one process on a CPU.", (),
        ("weft.hub", "weft.futures", "weft.profiler", "weft.multiprocessing", "weft.__future__", "weft.amp", "weft.ao"),
    ),
    "more": Page("More", "What has no page of its own yet."),
}


def page_of_entry(origin: str) -> str:
    """The page of the entries that a module holds: that of the longest listed part of the catalogue that it is in."""
    return _longest(
        origin, ((f"weft.catalogue.{part}", name) for name, page in PAGES.items() for part in page.catalogue)
    )


def page_of_object(module: str) -> str:
    """The page of what a module defines: that of the longest name listed that it is, or is inside of."""
    return _longest(module, ((home, name) for name, page in PAGES.items() for home in page.homes))


def _longest(module: str, listed: Iterable[tuple[str, str]]) -> str:
    homes = [
        (home, name) for home, name in listed if module == home or (home != "weft" and module.startswith(home + "."))
    ]
    return max(homes, key=lambda pair: len(pair[0]))[1] if homes else "more"


def sections() -> dict[str, dict[str, str]]:
    """page -> heading -> text."""
    found: dict[str, dict[str, str]] = {name: {} for name in PAGES}
    for key, ops in sorted(PACKETS.items()):
        names = public_names(key, ops)
        if names:
            found[page_of_entry(ops[0].origin)][names[0].removeprefix("weft.")] = packet_text(names, ops)
    for public in objects_of():
        found[page_of_object(public.home)][public.names[0].removeprefix("weft.")] = object_text(public)
    return found


def page_text(page: Page, parts: dict[str, str]) -> str:
    """A whole page."""
    lines = [
        f"# {page.title}", "", page.about, "",
        "[All pages](README.md). Written by `./dev docs` from the entries and docstrings; not to be edited.", "",
    ]
    for heading in ordered(parts):
        lines += [f"## {escaped(heading)}", "", parts[heading], ""]
    return "\n".join(lines)


def index_text(parts: dict[str, dict[str, str]]) -> str:
    """The index: the pages, and how to read an entry."""
    lines = [
        "# Reference", "",
        (
            "One page per area. A section begins with every name under which the same thing is found; "
            "operators then show their signature (types as in the"
        ),
        (
            "entry), what they are (pointwise, reduction, view, kernel, composite), whether gradients flow through "
            "them, and a value."
        ),
        "", "[All names](names.md) on one page, with their signatures.",
        "", "| page | what it holds | sections |", "| --- | --- | --- |",
    ]
    lines += [
        f"| [{page.title}]({name}.md) | {page.about.split('. ')[0].rstrip('.')} | {len(parts[name])} |"
        for name, page in PAGES.items() if parts[name]
    ]
    lines += [
        "",
        (
            "Where a behaviour differs from PyTorch: [differences.md](../differences.md). How an operator is added: "
            "[adding-an-op.md](../adding-an-op.md)."
        ),
        "",
    ]
    return "\n".join(lines)


def names_text(parts: dict[str, dict[str, str]]) -> str:
    """All names by namespace, each with its signature and a link to its section."""
    lines_of: dict[str, list[tuple[str, str]]] = {}
    for page, texts in parts.items():
        for heading, anchor in anchors(PAGES[page].title, ordered(texts)).items():
            first, *rest = texts[heading].splitlines()
            signature = next((line.strip() for line in rest if line.startswith("    ")), "")
            for name in re.findall("`(weft[.][^`]+)`", first):
                namespace, _, short = name.rpartition(".")
                shown = signature_after_name(signature)
                line = f"- [`{short}`]({page}.md#{anchor}){f' `{shown}`' if shown else ''}"
                lines_of.setdefault(namespace, []).append((short, line))
    total = sum(map(len, lines_of.values()))
    lines = [
        "# All names", "",
        f"The {total:,} public names, by the module or class that has them, each with its signature. A name leads to",
        "its section, which says what it does. Where an operator has several signatures, the first one is shown.", "",
        "[Pages](README.md). Written by `./dev docs` from the entries and docstrings; not to be edited.", "",
    ]
    for namespace in sorted(lines_of, key=lambda name: (name.count("."), name.casefold())):
        rows = sorted(lines_of[namespace], key=lambda row: (row[0].casefold(), row[0]))
        lines += [f"## {escaped(namespace)}", "", *(line for _, line in rows), ""]
    return "\n".join(lines)


def ordered(headings: Iterable[str]) -> list[str]:
    """The order in which a page has its sections."""
    return sorted(headings, key=lambda h: (h.casefold(), h))


def anchors(title: str, headings: Iterable[str]) -> dict[str, str]:
    """heading -> what links name it by (as GitHub does, and the site)."""
    anchor_of: dict[str, str] = {}
    times: Counter[str] = Counter([slug(title)])
    for heading in headings:
        name = slug(heading)
        anchor_of[heading] = f"{name}-{times[name]}" if times[name] else name
        times[name] += 1
    return anchor_of


def escaped(heading: str) -> str:
    """A heading as Markdown, which would make a name in bold of `__name__`."""
    return heading.replace("__", r"\_\_")


def slug(heading: str) -> str:
    return re.sub(r"[^\w\- ]", "", heading.lower().replace(" ", "-"))


def signature_after_name(signature: str) -> str:
    """What stands behind the name, cut where it is long."""
    text = signature[signature.find("(") :] if "(" in signature else ""
    return text if len(text) <= LONGEST_SIGNATURE else f"{text[:LONGEST_SIGNATURE]} ..."


def pages() -> dict[Path, str]:
    """Every page by path."""
    parts = sections()
    parts["tensor"] |= {"dtypes": dtype_table(), **tensor_members()}
    made = {FOLDER / f"{name}.md": page_text(page, parts[name]) for name, page in PAGES.items() if parts[name]}
    return {FOLDER / "README.md": index_text(parts), FOLDER / "names.md": names_text(parts), **made}


def main(arguments: list[str]) -> int:
    """Write the pages, or only look."""
    parser = argparse.ArgumentParser(
        prog="./dev docs", description="Write the type stubs and docs/reference anew, from the entries and docstrings."
    )
    parser.add_argument(
        "--check", action="store_true", help="only say what is not up to date; exits with 1 if something is not"
    )
    only_look = parser.parse_args(arguments).check
    made = pages()
    there = set(FOLDER.glob("*.md"))
    stale = (
        [p for p, text in made.items() if not p.exists() or p.read_text(encoding="utf-8") != text]
        + sorted(there - made.keys())
    )
    if only_look:
        for path in stale:
            print(f"{path.relative_to(ROOT)} is not up to date; run ./dev docs")
        return int(bool(stale))
    FOLDER.mkdir(exist_ok=True)
    for path in there - made.keys():
        path.unlink()
    for path, text in made.items():
        path.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
