"""Write the type stubs from the entries: weft/__init__.pyi, weft/nn/functional.pyi, weft/linalg.pyi, weft/fft.pyi,
weft/special.pyi (functions) and weft/tensor/operators.pyi (methods of Tensor).

    python scripts/make_stubs.py          writes them
    python scripts/make_stubs.py --check  says which are not up to date (exit status 1)
"""

from __future__ import annotations

import argparse
import ast
import inspect
import keyword
import re
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import weft
from weft import special
from weft.layers.factories import FACTORIES
from weft.layers.variants import _INPLACE_SYNTAX
from weft.ops.op import PACKETS, Op
from weft.ops.schema import Argument
from weft.ops.shown import Shown

ROOT = Path(__file__).resolve().parent.parent
HEADER = '''"""{title} Written by scripts/make_stubs.py from the entries; not to be edited."""

# mypy: disable-error-code="overload-overlap, override, misc, no-redef, assignment, explicit-override"
# ruff: noqa

'''
TYPES = '''from builtins import bool as _bool, complex as _complex, float as _float, int as _int
from builtins import str as _str, tuple as _tuple
from collections.abc import Sequence
from typing import Any, NamedTuple, NoReturn, Union, overload

from weft.tensor.size import Size
from weft.tensor.tensor import Tensor
from weft.types.dtype import DType
from weft.runtime.generator import Generator

_Number = Union[_int, _float, _complex]
'''
KINDS = {
    "Tensor": "Tensor", "Scalar": "_Number", "int": "_int", "float": "_float", "bool": "_bool", "str": "_str",
    "ScalarType": "DType", "Device": "_str", "Layout": "_str", "MemoryFormat": "_str", "Generator": "Generator",
    "Object": "Any",
}
OPTIONS = (
    "requires_grad: _bool = ..., device: _str | None = ..., layout: _str | None = ..., pin_memory: _bool = ..., "
    "memory_format: _str | None = ..."
)
SYNTAX_WITH_OTHER = (
    "add", "radd", "sub", "rsub", "mul", "rmul", "truediv", "rtruediv", "floordiv", "rfloordiv", "mod", "rmod", "pow",
    "rpow", "and", "rand", "or", "ror", "xor", "rxor", "lshift", "rshift", "eq", "ne", "lt", "le", "gt", "ge",
)


# ---------------------------------------------------------------- one entry


def type_text(argument: Argument, numbers: bool) -> str:
    """The annotation of an argument."""
    one = KINDS[argument.kind]
    if argument.kind == "Tensor" and numbers and not argument.is_list:
        one = "Tensor | _Number"
    if argument.is_list:
        element = f"{one} | None" if argument.element_optional else one
        one = f"Sequence[{element}]"
        if argument.list_size is not None:
            one = f"{KINDS[argument.kind]} | {one}"
    return one + (" | None" if argument.is_optional else "")


def name_text(argument: Argument, is_function: bool) -> str:
    name = "input" if is_function and argument.name == "self" else argument.name
    return f"{name}_" if keyword.iskeyword(name) else name


def parameters(op: Op, is_method: bool, star: int | None = None, extra: str = "", is_inplace: bool = False) -> str:
    """The parameter list. `star`: the argument whose items may be given one by one."""
    parts = ["self"] if is_method else []
    is_starred = False
    for i, argument in enumerate(op.schema.arguments):
        if is_method and i == 0:
            continue
        if i == star:
            parts.append(f"*{name_text(argument, not is_method)}: {KINDS[argument.kind]}")
            is_starred = True
            continue
        if argument.keyword_only and not is_starred:
            parts.append("*")
            is_starred = True
        first_is_tensor = i == 0 and not is_method and not op.number_first
        text = f"{name_text(argument, not is_method)}: {type_text(argument, op.numbers and not first_is_tensor)}"
        parts.append(text + (" = ..." if argument.has_default else ""))
    if extra:
        parts += [extra] if is_starred else ["*", extra]
    return ", ".join(parts)


def result_text(op: Op, classes: dict[str, str]) -> str:
    """The annotation of the result; named results get a class."""
    returns = op.schema.returns
    if len(returns) == 1:
        text = KINDS[returns[0].kind]
        return f"_tuple[{text}, ...]" if returns[0].is_list else text
    if all(r.name for r in returns):
        name = "_" + "".join(w.capitalize() for w in op.base.split("_")) + "Results"
        fields = "".join(f"\n    {r.name}: {KINDS[r.kind]}" for r in returns)
        classes[name] = f"class {name}(NamedTuple):{fields}\n"
        return name
    return f"_tuple[{', '.join(KINDS[r.kind] for r in returns)}]"


def starred_argument(op: Op, is_method: bool) -> int | None:
    """Position of a last positional list whose items users may write one by one (`x.view(2, 3)`)."""
    positional = [i for i, a in enumerate(op.schema.arguments) if not a.keyword_only]
    if not positional or (is_method and positional[-1] == 0):
        return None
    last = op.schema.arguments[positional[-1]]
    return (
        positional[-1]
        if last.is_list and last.kind in ("int", "Tensor") and last.list_size is None and not last.is_optional else None
    )


def signatures(
    name: str, overloads: Iterable[Op], is_method: bool, classes: dict[str, str], extra: str = ""
) -> Iterator[str]:
    """The lines of `def name(...)`, one for each way of calling."""
    found: dict[str, None] = {}
    for op in overloads:
        out = ""
        if op.out and not is_method and not extra:
            out = f"out: {'Tensor' if len(op.schema.returns) == 1 else 'Sequence[Tensor]'} | None = ..."
        rest = extra or out
        result = result_text(op, classes)
        found[f"def {name}({parameters(op, is_method, None, rest)}) -> {result}: ..."] = None
        star = starred_argument(op, is_method)
        if star is not None:
            found[f"def {name}({parameters(op, is_method, star, rest)}) -> {result}: ..."] = None
    for line in found:
        if len(found) > 1:
            yield "@overload"
        yield line


# ---------------------------------------------------------------- the files


def public_packets(place: str, prefix: str = "aten::") -> dict[str, list[Op]]:
    """Overloads by name of what is public in a place."""
    return {
        key[len(prefix) :]: ops
        for key, ops in sorted(PACKETS.items()) if key.startswith(prefix) and any(place in op.public for op in ops)
    }


def functions(packets: dict[str, list[Op]], classes: dict[str, str]) -> list[str]:
    lines: list[str] = []
    for name, ops in packets.items():
        if name.startswith("_") or not name.isidentifier():
            continue
        extra = (
            OPTIONS.replace("memory_format: _str | None = ...", "out: Tensor | None = ...") if name in FACTORIES else ""
        )
        if any(op.like for op in ops):
            extra = OPTIONS.split(", memory_format")[0]
        if extra:
            taken = {a.name for op in ops for a in op.schema.arguments}
            extra = ", ".join(p for p in extra.split(", ") if p.split(":")[0] not in taken)
        lines += signatures(name, ops, False, classes, extra)
    return lines


def module_stub(title: str, packets: dict[str, list[Op]], more: Iterable[str] = (), head: str = "") -> str:
    classes: dict[str, str] = {}
    lines = functions(packets, classes)
    return (
        HEADER.format(title=title) + TYPES + head + "\n" + "\n".join(classes.values()) + "\n"
        + "\n".join([*lines, *more]) + "\n"
    )


def operators_stub() -> str:
    """The methods of Tensor that are not written in tensor.py."""
    classes: dict[str, str] = {}
    lines: list[str] = []
    packets = public_packets("Tensor")
    rooms = (("facts", "Facts"), ("conversions", "Conversions"), ("tensor", "Tensor"))
    written = {name for room, part in rooms for name in class_members(ROOT / "weft" / "tensor" / f"{room}.py", part)}
    installed = {
        n: v
        for n, v in vars(weft.Tensor).items() if n not in written and not n.startswith("_") and hasattr(weft.Tensor, n)
    }
    inplace = {f"{ops[0].base}_" for ops in PACKETS.values() if any(o.inplace for o in ops)}
    for name, ops in packets.items():
        if name in installed or name in written or name.startswith("_"):
            continue
        lines += signatures(name, ops, True, classes)
    for name in sorted(installed):
        lines += installed_method(name, installed[name], inplace, classes)
    lines += [*syntax(), *SUBCLASSES]
    body = "\n".join("    " + line for line in lines)
    return (
        HEADER.format(title="Methods of Tensor.") + TYPES + "from weft.ops.methods import OperatorMethods\n\n"
        + "\n".join(classes.values())
        + "\nclass Operators(OperatorMethods):\n" + body + "\n"
    )


def own_signature(value: Any) -> inspect.Signature:
    """The signature as it is written, not the one that inspect shows of an operator's."""
    return inspect.signature(value, follow_wrapped=not isinstance(getattr(value, "__wrapped__", None), Shown))


def installed_method(name: str, value: Any, inplace: set[str], classes: dict[str, str]) -> list[str]:
    """A method or property that was put on Tensor: in-place forms from their entries, the others
    as they are annotated."""
    if isinstance(value, property):
        return ["@property", f"def {name}(self) -> Tensor: ..."]
    if (
        name in inplace and getattr(value, "__name__", "") == name
        and not own_signature(value).parameters.get("size")
    ):
        ops = [o for o in PACKETS.get(f"aten::{name[:-1]}", []) if o.inplace]
        if ops:
            return [
                line.rsplit(" -> ", 1)[0] + " -> Tensor: ..." if line.startswith("def") else line
                for line in signatures(name, ops, True, classes)
            ]
    signature = re.sub(
        r"\b(bool|complex|float|int|str|tuple)\b(?!=)", r"_\1", str(own_signature(value)).replace("'", "")
    )
    signature = re.sub(r"= [^,)]+", "= ...", signature)
    if signature.startswith("(*args"):
        signature = "(self, " + signature[1:]
    return [f"def {name}{signature}: ..."]


# What weft/tensor/subclass.py and wrapper.py put on Tensor for those who derive from it.
SUBCLASSES = [
    f"{name}: Any" for name in ("_make_subclass", "_make_wrapper_subclass", "__weft_function__", "__weft_dispatch__")
]


def syntax() -> list[str]:
    lines = [f"def __{name}__(self, other: Any) -> Tensor: ..." for name in SYNTAX_WITH_OTHER]
    lines += [f"def {name}(self, other: Any) -> Tensor: ..." for name in sorted(_INPLACE_SYNTAX.values())]
    lines += [f"def __{name}__(self) -> Tensor: ..." for name in ("neg", "pos", "abs", "invert")]
    lines += [
        "def __matmul__(self, other: Tensor) -> Tensor: ...", "def __rmatmul__(self, other: Tensor) -> Tensor: ...",
        "def __hash__(self) -> _int: ...",
    ]
    lines += [
        "def __getitem__(self, index: Any) -> Tensor: ...", "def __setitem__(self, index: Any, value: Any) -> None: ..."
    ]
    return lines


def class_members(path: Path, name: str) -> list[str]:
    """Names that a class body defines."""
    tree = ast.parse(path.read_text())
    body = next(n for n in tree.body if isinstance(n, ast.ClassDef) and n.name == name).body
    found = [n.name for n in body if isinstance(n, ast.FunctionDef)]
    return found + [t.id for n in body if isinstance(n, ast.Assign) for t in n.targets if isinstance(t, ast.Name)]


def root_stub() -> str:
    """weft/__init__.pyi: what __init__.py imports and names, and the operators."""
    tree = ast.parse((ROOT / "weft" / "__init__.py").read_text())
    head: list[str] = []
    imported: set[str] = set()
    for node in tree.body:
        if isinstance(node, ast.ImportFrom) and node.module and node.module not in ("typing", "__future__"):
            for a in node.names:
                shown = a.asname or a.name
                if not shown.startswith("_") and shown != "annotations":
                    head += shown_lines(node.module, a.name, shown)
                    imported.add(shown)
    for name, (where, attribute) in weft._LAZY_NAMES.items():
        if module_exists(where):
            head += shown_lines(where, attribute, name)
            imported.add(name)
    head += [f"from weft import {name} as {name}" for name, where in weft._LAZY.items() if module_exists(where)]
    constants = (
        constant_lines(imported)
        + [f"def {name}(self: Tensor, *args: Any, **kwargs: Any) -> Tensor: ..." for name in inplace_functions()]
    )
    packets = {n: ops for n, ops in public_packets("weft").items() if n not in imported}
    text = module_stub("The public names of weft.", packets, constants, "\n".join(head) + "\n")
    for shown in ("Size", "Tensor", "Generator"):  # imported once, for all to see
        text = re.sub(rf"^from \S+ import {shown}\n", "", text, count=1, flags=re.M)
    return text


def shown_lines(module: str, name: str, shown: str) -> list[str]:
    """What makes `name` of a module visible as `shown`: in a stub, an import under another name is private."""
    if name == shown:
        return [f"from {module} import {name} as {name}"]
    return [f"from {module} import {name} as _as_{shown}", f"{shown} = _as_{shown}"]


def inplace_functions() -> list[str]:
    """`weft.relu_(x)`: the in-place methods as functions."""
    return sorted(
        {f"{o.base}_" for ops in PACKETS.values() for o in ops if o.inplace and hasattr(weft.Tensor, f"{o.base}_")}
    )


def constant_lines(imported: set[str]) -> list[str]:
    """Plain values of the package: dtypes under their short names, memory formats, the version."""
    lines = []
    for name, value in sorted(vars(weft).items()):
        if name in imported or (name.startswith("_") and name != "__version__"):
            continue
        if isinstance(value, (weft.dtype, str)):
            lines.append(f"{name}: {'DType' if isinstance(value, weft.dtype) else '_str'}")
    return lines


def module_exists(name: str) -> bool:
    path = ROOT / name.replace(".", "/")
    return path.with_suffix(".py").exists() or (path / "__init__.py").exists()


def nn_packets() -> dict[str, list[Op]]:
    """What weft.nn.functional finds: its own entries first, then the operators that are public there."""
    own = {key[4:]: ops for key, ops in sorted(PACKETS.items()) if key.startswith("nn::")}
    return {
        **public_packets("nn.functional"),
        **{n: ops for n, ops in own.items() if any("nn.functional" in o.public or "weft" in o.public for o in ops)},
    }


def composed_lines() -> list[str]:
    from weft.nn import functions

    return [
        f"from {module.__name__} import {name} as {name}" for module in functions.MODULES for name in module.__all__
    ]


def stubs() -> dict[Path, str]:
    """Every stub by path."""
    package = ROOT / "weft"
    made = {
        package / "tensor" / "operators.pyi": operators_stub(),
        package / "__init__.pyi": root_stub(),
        package / "nn"
        / "functional.pyi": module_stub("weft.nn.functional.", nn_packets(), (), "\n".join(composed_lines()) + "\n"),
        package / "linalg.pyi": module_stub(
            "weft.linalg.", public_packets("linalg", "aten::linalg_"), (),
            "from weft.support.errors import LinAlgError as LinAlgError\n"),
        package / "special.pyi": module_stub(
            "weft.special.",
            {name: PACKETS[f"aten::{op}"] for name, op in sorted(special._functions.operators().items())},
        ),
        package / "fft.pyi": module_stub("weft.fft.", public_packets("fft", "aten::fft_")),
    }
    return made


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="./dev docs", description="Write the type stubs and docs/reference anew, from the entries and docstrings."
    )
    parser.add_argument(
        "--check", action="store_true", help="only say what is not up to date; exits with 1 if something is not"
    )
    only_look = parser.parse_args(arguments).check
    stale = [path for path, text in stubs().items() if not path.exists() or path.read_text() != text]
    if only_look:
        for path in stale:
            print(f"{path.relative_to(ROOT)} is not up to date; run scripts/make_stubs.py")
        return int(bool(stale))
    for path, text in stubs().items():
        path.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
