"""What a name of `import tcprobe` is: a function, or the module of that name, which is called as one.

`tcprobe.check`, `kernel`, `numerics` and `order` have several functions: `tcprobe.numerics(...)` is that of
`tcprobe.api.functions`, and `tcprobe.numerics.multiply` stays what it is.
"""

from __future__ import annotations

import inspect
from types import ModuleType
from typing import Any

import tcprobe.check
import tcprobe.kernel
import tcprobe.numerics
import tcprobe.order
from tcprobe.api import functions


class _CallableModule(ModuleType):
    """Called as the function of its name in `tcprobe.api.functions`, which is imported then."""

    @property
    def _function(self) -> Any:
        return getattr(functions, self.__name__.rpartition(".")[2])

    @property
    def __signature__(self) -> inspect.Signature:
        return inspect.signature(self._function)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._function(*args, **kwargs)


_MODULES = {
    "check": tcprobe.check,
    "kernel": tcprobe.kernel,
    "numerics": tcprobe.numerics,
    "order": tcprobe.order,
}
for _module in _MODULES.values():
    _module.__class__ = _CallableModule


def offered(name: str) -> Any:
    """A function of `tcprobe.api`, or a module that is called as one."""
    return _MODULES.get(name) or getattr(functions, name)
