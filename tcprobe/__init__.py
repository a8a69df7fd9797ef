"""tcprobe: which lane and register of a warp holds which matrix element of an NVIDIA tensor-core fragment.

A function a task, with names as the commands take them; no GPU is needed. Nothing is imported before it is used:

>>> import tcprobe
>>> a = tcprobe.fragment("mma m16n8k16 bf16 a")
>>> a.at(lane=12, i=5), a.formulas["row"]
((3, 9), '((i & 2) << 2) + (lane >> 2)')
>>> tcprobe.convert("mma m16n8k16 f32 f16 d", "mma.m16n8k16.row.col.f32.f16.f16.f32.a").summary
'registers renamed: every lane already holds what it needs'

`tcprobe.api` has these and what they are made of; all else is internal.
"""

from __future__ import annotations

TYPE_CHECKING = False  # as `typing` has it, which takes as long to import as all else together
if TYPE_CHECKING:
    from .api.functions import arch, check, compare, fragment, instruction, read, repack
    from .ask.banks import banks
    from .ask.convert import convert
    from .ask.cost import cost
    from .ask.descriptor import descriptor
    from .ask.lower import lower
    from .ask.path import path
    from .ask.reduce import reduce
    from .ask.scales import scales
    from .ask.swizzle import swizzle
    from .ask.tensormap import tensormap

__version__ = "0.1.0"
__all__ = [
    "arch",
    "banks",
    "check",
    "compare",
    "convert",
    "cost",
    "descriptor",
    "fragment",
    "instruction",
    "kernel",
    "lower",
    "numerics",
    "order",
    "path",
    "read",
    "reduce",
    "repack",
    "scales",
    "swizzle",
    "tensormap",
]


def __getattr__(name: str) -> object:
    """What `__all__` names, imported when it is first used."""
    if name not in __all__:
        raise AttributeError(f"module 'tcprobe' has no attribute {name!r}")
    from importlib import import_module

    found = import_module("tcprobe.api.offered").offered(name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
