"""What a name of `import tcprobe` is: a function, or the module of that name, which is called as one.

`tcprobe.numerics` and `tcprobe.kernel` have several functions: `tcprobe.numerics(...)` is that of
`tcprobe.api.functions`, and `tcprobe.numerics.multiply` stays what it is.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any

import tcprobe.kernel
import tcprobe.numerics
from tcprobe.api import functions, shared_memory


class _CallableNumerics(ModuleType):
    """Called as `tcprobe.api.functions.numerics`."""

    __call__ = staticmethod(functions.numerics)


class _CallableKernel(ModuleType):
    """Called as `tcprobe.api.functions.kernel`."""

    __call__ = staticmethod(functions.kernel)


tcprobe.numerics.__class__ = _CallableNumerics
tcprobe.kernel.__class__ = _CallableKernel
_MODULES = {"kernel": tcprobe.kernel, "numerics": tcprobe.numerics}


def offered(name: str) -> Any:
    """A function of `tcprobe.api`, or a module that is called as one."""
    return _MODULES.get(name) or getattr(shared_memory, name, None) or getattr(functions, name)
