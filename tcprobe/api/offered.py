"""What a name of `import tcprobe` is: a function, or the module of that name, which is called as one.

`tcprobe.check`, `emulate`, `kernel`, `layout`, `numerics` and `order` are packages or modules of several things:
`tcprobe.numerics(...)` is the function of `tcprobe.api.functions`, and `tcprobe.numerics.multiply` stays what it is.
"""

from __future__ import annotations

from typing import Any

import tcprobe.check
import tcprobe.emulate
import tcprobe.kernel
import tcprobe.layout
import tcprobe.numerics
import tcprobe.order
from tcprobe.api import functions

_MODULES = {
    "check": tcprobe.check,
    "emulate": tcprobe.emulate,
    "kernel": tcprobe.kernel,
    "layout": tcprobe.layout,
    "numerics": tcprobe.numerics,
    "order": tcprobe.order,
}


def offered(name: str) -> Any:
    """A function of `tcprobe.api`, or a module that is called as one."""
    return _MODULES.get(name) or getattr(functions, name)
