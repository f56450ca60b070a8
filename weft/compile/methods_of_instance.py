"""The attribute of an instance that has its compiled methods."""

from __future__ import annotations

from typing import Any, Final

PLACE: Final = "_weft_compiled"


class Methods(dict[str, None]):
    """The compiled methods of an instance, by what its class has. To users, who compare attributes and write them
    as text, an empty dict."""

    def __init__(self) -> None:
        self.of: dict[Any, Any] = {}  # compiled functions, by that of the class

    def __deepcopy__(self, memo: dict[int, Any]) -> Methods:
        return Methods()

    def __reduce_ex__(self, protocol: Any) -> Any:
        return (Methods, ())

    def __repr__(self) -> str:
        return f"<{len(self.of)} compiled methods>"
