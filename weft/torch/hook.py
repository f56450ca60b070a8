"""`import torch` finds weft: one finder of modules, before all others, that maps names. A module is the same object
under both names."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Callable, Iterable, Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

import weft
from weft.support.errors import StateError
from weft.support.named_modules import NamedModule
from weft.support.naming import OWN, own_name, shown
from weft.torch import missing
from weft.torch.names import ATTRIBUTES_OF, MODULES, NOT_SHOWN, OF_CLASSES

ROOT = "torch"
_FRONT: dict[str, str] = vars(weft)["_LAZY"]  # the modules of weft's front door
_IMPORTS = "_find_and_load_unlocked"  # who asks a finder where a module is to be loaded, in Python's import system


def weft_name(name: str) -> str | None:
    """The module of weft's that `torch.x.y` is; None where there is none."""
    parent, _, last = name.rpartition(".")
    rest = name.partition(".")[2]
    target = MODULES.get(rest)
    if target is None and parent == ROOT:
        target = f"{OWN}.{last}" if last in _FRONT and last not in NOT_SHOWN else None
    elif target is None:
        above = sys.modules.get(parent)
        target = None if above is None else f"{above.__name__}.{last}"
    if target is None or target in sys.modules:
        return target
    try:
        return None if importlib.util.find_spec(target) is None else target
    except (ModuleNotFoundError, ValueError):
        return None


class Finder:
    """Finds weft's modules by PyTorch's names, and says that a package `torch` is installed."""

    def __init__(self) -> None:
        self._specs: dict[str, ModuleSpec | None] = {}

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        """What importlib is to load. Raises ModuleNotFoundError that says what is near."""
        if name == ROOT:
            return ModuleSpec(ROOT, self, origin=weft.__file__, is_package=True)  # type: ignore[arg-type]
        if not name.startswith(f"{ROOT}."):
            return None
        if weft_name(name) is not None:
            return ModuleSpec(name, self, is_package=True)  # type: ignore[arg-type]
        missing.note(name)
        if sys._getframe(2).f_code.co_name == _IMPORTS:  # else somebody asks whether there is one
            parent, _, last = name.rpartition(".")
            text = missing.text_of(parent, last, dir(sys.modules.get(parent)), f"No module named {name!r}")
            raise ModuleNotFoundError(text, name=name)
        return None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """The module, which has been loaded before under weft's name."""
        if spec.name == ROOT:
            from weft.torch.front import torch

            return torch
        target = weft_name(spec.name)
        assert target is not None
        module = importlib.import_module(target)
        self._specs[spec.name] = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        """Let it answer for names that it lacks. (importlib has given it the spec of its other name.)"""
        spec = module.__spec__
        assert spec is not None
        name = spec.name
        if name == ROOT:
            return
        module.__spec__ = self._specs.pop(name)
        _adopt(module, name)

    def find_distributions(self, context: Any = None) -> Iterable[Any]:
        """`importlib.metadata.version("torch")` is the version that `torch.__version__` says."""
        if getattr(context, "name", None) != ROOT:
            return []
        from weft.torch.metadata import Torch  # importlib.metadata is loaded by who asks

        return [Torch()]


# classes of values, which the module torch has
_VALUES = ("Tensor", "Size", "dtype", "device", "Generator", "memory_format", "layout")
_adopted: dict[int, str] = {}


def _adopt(module: ModuleType, name: str) -> None:
    """A module of weft's is shown under PyTorch's name: classes say so, and what it lacks is asked for under it."""
    if id(module) in _adopted or module is weft:
        return
    _adopted[id(module)] = name
    rename_classes(vars(module).values())
    vars(module)["__getattr__"] = _answers(module, name)
    for attribute, value in list(vars(module).items()):
        _adopt_below(module, name, attribute, value)


def _adopt_below(module: ModuleType, name: str, attribute: str, value: Any) -> Any:
    """A value of a module: what is a module below it is shown under PyTorch's name too."""
    if isinstance(value, ModuleType) and value.__name__ == f"{module.__name__}.{attribute}":
        sys.modules.setdefault(f"{name}.{attribute}", value)
        _adopt(value, f"{name}.{attribute}")
    return value


def _answers(module: ModuleType, name: str) -> Callable[[str], Any]:
    """`__getattr__` of a module: its own answer, a module of that name, or the error."""
    own: Callable[[str], Any] | None = vars(module).get("__getattr__")
    if own is None and isinstance(module, NamedModule):
        own = module.lookup

    def __getattr__(attribute: str) -> Any:
        if attribute.startswith("__"):
            if own is not None:
                return own(attribute)
            raise AttributeError(f"module {module.__name__!r} has no attribute {attribute!r}")
        reason = ""
        if own is not None:
            try:
                return _adopt_below(module, name, attribute, own(attribute))
            except AttributeError as error:
                reason = str(error)
        return elsewhere(module, name, attribute, reason, missing.is_from_import())

    return __getattr__


def elsewhere(module: ModuleType, name: str, attribute: str, reason: str, is_imported: bool) -> Any:
    """What `torch.x` has by another name of weft's, or as a module.
    Raises AttributeError, or ImportError for `from torch.x import attribute`, that says what is near."""
    where, _, other = ATTRIBUTES_OF.get(name.partition(".")[2], {}).get(attribute, "").partition(":")
    if where:
        return getattr(importlib.import_module(where), other)
    path = f"{name}.{attribute}"
    if path in sys.modules:
        return sys.modules[path]
    if weft_name(path) is not None:
        return importlib.import_module(path)
    missing.note(path)
    text = missing.text_of(name, attribute, dir(module), reason.replace(f"'{module.__name__}'", f"{name!r}"))
    if is_imported:
        raise ImportError(f"cannot import name {attribute!r} from {name!r}: {text}", name=name)
    raise AttributeError(text)


def rename_classes(values: Iterable[Any]) -> None:
    """Classes that users know by PyTorch's names say in `__module__` that they are PyTorch's."""
    for value in list(values):
        if not isinstance(value, type) or not value.__module__.startswith(f"{OWN}."):
            continue
        _, top, *rest = value.__module__.split(".")
        if top in _FRONT and top not in NOT_SHOWN:
            value.__module__ = ".".join((ROOT, top, *rest))


def is_installed() -> bool:
    """Whether `import torch` gives weft in this process."""
    return any(isinstance(finder, Finder) for finder in sys.meta_path)


def install() -> None:
    """From now on `import torch`, and its submodules of any depth, give weft's in this process.

    Texts of values have PyTorch's name (`torch.float32`), and so has `__module__` of public classes. To be called
    before anything imports torch. Raises StateError where PyTorch itself has been imported.
    """
    if is_installed():
        return
    present = sys.modules.get(ROOT)
    if present is not None and not str(getattr(present, "__file__", "")).startswith(_children()):
        raise StateError(
            f"weft.torch.install(): torch is imported already, from {getattr(present, '__file__', 'elsewhere')}; "
            "install before anything imports it"
        )
    sys.meta_path.insert(0, Finder())
    shown.name = ROOT
    for name in _VALUES:
        kind = getattr(weft, name)
        kind.__module__, kind.__name__, kind.__qualname__ = OF_CLASSES.get(name, ROOT), name, name


def _children() -> str:
    """The folder whose `torch.py` installs weft in child processes."""
    from weft.torch.runner import CHILDREN

    return CHILDREN


__all__: Sequence[str] = ["ROOT", "Finder", "elsewhere", "install", "is_installed", "own_name", "weft_name"]
