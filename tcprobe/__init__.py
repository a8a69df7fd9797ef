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

import sys

TYPE_CHECKING = False  # as `typing` has it, which takes as long to import as all else together
if TYPE_CHECKING:
    from collections.abc import Callable
    from inspect import Signature
    from types import ModuleType

    from .api.functions import arch, check, compare, fragment, instruction, layout, read, repack
    from .ask.agree import agree
    from .ask.banks import banks
    from .ask.convert import convert
    from .ask.cost import cost
    from .ask.descriptor import descriptor
    from .ask.layouts import layouts
    from .ask.lower import lower
    from .ask.path import path
    from .ask.reduce import reduce
    from .ask.scales import scales
    from .ask.swizzle import swizzle
    from .ask.tensormap import tensormap
    from .kernel.question import plan

__version__ = "0.1.0"
__all__ = [
    "agree",
    "arch",
    "banks",
    "check",
    "compare",
    "convert",
    "cost",
    "descriptor",
    "emulate",
    "fragment",
    "instruction",
    "kernel",
    "layout",
    "layouts",
    "lower",
    "numerics",
    "order",
    "path",
    "plan",
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


if not TYPE_CHECKING:
    ModuleType = type(sys)


class _CalledModule(ModuleType):
    """A module that is called as the function of its name in `tcprobe.api.functions`."""

    @property
    def __signature__(self) -> Signature:
        from inspect import signature

        return signature(self._function())

    def __call__(self, *args: object, **kwargs: object) -> object:
        return self._function()(*args, **kwargs)

    def _function(self) -> Callable[..., object]:
        from importlib import import_module

        found: Callable[..., object] = getattr(import_module("tcprobe.api.functions"), self.__name__.rpartition(".")[2])
        return found


class _Package(ModuleType):
    """This package: its modules of functions' names, such as `tcprobe.numerics`, are these functions too."""

    def __setattr__(self, name: str, value: object) -> None:
        if name in ("check", "emulate", "kernel", "layout", "numerics", "order") and isinstance(value, ModuleType):
            value.__class__ = _CalledModule
        super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
