"""The parts of a TorchScript archive: its objects, its constants, its code and the user's own files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from weft.interop.damage import excerpt
from weft.interop.pickles import Global
from weft.interop.torch_files import Archive, TorchReader, opened
from weft.support.errors import ParseError, Unsupported

NEWEST = 10  # of the versions of PyTorch's operators that programs are written for


@dataclass(eq=False)
class Instance:
    """An object of a class of the archive: `name` is the class's (`__torch__.models.Net`), `state` what it holds."""

    name: str
    args: tuple[Any, ...] = ()
    state: Any = None


@dataclass
class Parts:
    """What an archive holds. `code`: texts by the names of their files, from `__torch__.py` on."""

    root: Any
    constants: tuple[Any, ...]
    code: Mapping[str, str]
    version: int
    extra: Mapping[str, bytes] = field(default_factory=dict)


def read_parts(content: bytearray) -> Parts:
    """The parts of the archive in the bytes of a file. Raises ParseError, Unsupported for a newer version."""
    with opened(content) as archive:
        version = _version(archive)
        code = {n: archive.read(f"code/{n}").decode() for n in archive.below("code/") if n.endswith(".py")}
        constants: Any = ()
        if archive.holds("constants.pkl"):
            folder = "constants" if archive.below("constants/") else "data"
            constants = _ObjectReader(archive, folder).read(archive.read("constants.pkl"))
            if not isinstance(constants, (tuple, list)):
                raise ParseError("load: the archive's constants are none")
        root = _ObjectReader(archive).read(archive.read("data.pkl"))
        extra = {name: archive.read(f"extra/{name}") for name in archive.below("extra/")}
    if version > NEWEST:
        raise Unsupported(
            f"weft.jit.load: the TorchScript archive has version {version}, this weft reads up to {NEWEST}; install a "
            "newer weft"
        )
    return Parts(root, tuple(constants), code, version, extra)


def _version(archive: Archive) -> int:
    name = next((n for n in ("version", ".data/version") if archive.holds(n)), None)
    return 0 if name is None else int(archive.read(name).decode().strip())


class _ObjectReader(TorchReader):
    """Reads pickles that hold objects of the archive's own classes."""

    def __init__(self, archive: Archive, folder: str = "data") -> None:
        super().__init__(archive, folder)
        self.calls.update(
            {f"torch.jit._pickle.build_{kind}list": self._listed for kind in ("int", "double", "bool", "tensor")}
        )
        self.calls["torch.jit._pickle.restore_type_tag"] = lambda value, tag: value

    def _listed(self, items: Any) -> list[Any]:
        return list(self.items_of(items))

    def _op_reduce(self, argument: Any) -> None:
        held = self.stack[-1]
        if not isinstance(held, tuple):  # a member of an enumeration stands there as its value
            self.stack[-1] = (held,)
        super()._op_reduce(argument)

    def _call(self, function: Any, arguments: tuple[Any, ...]) -> Any:
        if isinstance(function, Global) and function.name.startswith("__torch__."):
            return Instance(function.name, arguments)
        return super()._call(function, arguments)

    def _op_build(self, argument: Any) -> None:
        target = self.stack[-2] if len(self.stack) > 1 else None
        if not isinstance(target, Instance):
            return super()._op_build(argument)
        if target.state is not None:
            raise ParseError(f"load: the pickle sets the state of a {excerpt(target.name)} twice")
        target.state = self.stack.pop()
        return None
