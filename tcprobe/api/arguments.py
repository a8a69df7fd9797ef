"""What Python programs pass, as the library takes it: numbers of NumPy, sizes as text, a capability as CUDA gives it.

>>> sizes("tile", "128x64", 2), sizes("tile", [128, 64], 2), element_type("half_t"), place(128)
((128, 64), (128, 64), 'f16', 'SWIZZLE_128B')
>>> arch_name((9, 0)), arch_name("h100"), arch_name(None)
('9.0', 'h100', None)
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Sequence
from typing import SupportsIndex

from tcprobe.errors import UsageError
from tcprobe.isa.arch import Arch
from tcprobe.layout.swizzle import MOST_SIDES, Swizzle, is_swizzle, sizes_written, swizzle_named, type_named

Sizes = str | Sequence[SupportsIndex]  # "128x64", or numbers
PlaceName = str | int | Swizzle  # of lines in shared memory: "plain", "pad:16", "128B", 128
ArchName = str | int | float | tuple[int, int] | Arch


def whole(name: str, python_number: object) -> int:
    """A whole number of Python or NumPy; UsageError naming the parameter for anything else."""
    if isinstance(python_number, SupportsIndex) and not isinstance(python_number, bool):
        return operator.index(python_number)
    raise UsageError(f"`{name}` {str(python_number)[:40]!r} is not a whole number.")


def word(name: str, python_text: object) -> str:
    """A text; UsageError naming the parameter for anything else."""
    if isinstance(python_text, str):
        return python_text
    raise UsageError(f"`{name}` {str(python_text)[:40]!r} is not a text.")


def each(name: str, several: object) -> list[object]:
    """What a parameter has several of; UsageError where it is one thing."""
    if isinstance(several, Iterable):
        return list(several)
    raise UsageError(f"`{name}` {str(several)[:40]!r}: several are needed, in a list.")


def sizes(name: str, given_sizes: Sizes, most: int = MOST_SIDES) -> tuple[int, ...]:
    """Up to `most` numbers; UsageError naming the parameter where they are none."""
    if isinstance(given_sizes, str):
        return sizes_written(given_sizes, most)
    return tuple(whole(name, number) for number in each(name, given_sizes))


def addresses(name: str, python_addresses: object) -> list[int | None]:
    """An address a lane, None for an idle one; UsageError naming the parameter where they are none."""
    return [None if address is None else whole(name, address) for address in each(name, python_addresses)]


def element_type(python_type: object) -> str:
    """PTX's name of a type: of its name, of NumPy's, PyTorch's or ml_dtypes's type."""
    text = python_type if isinstance(python_type, str) else getattr(python_type, "__name__", str(python_type))
    return type_named(str(text).rpartition(".")[2])


def place(placed: PlaceName) -> str:
    """A place in shared memory, a swizzle in its one spelling."""
    text = ",".join(map(str, placed.to_json())) if isinstance(placed, Swizzle) else str(placed)
    return str(swizzle_named(text)) if is_swizzle(text) else text


def arch_name(arch: ArchName | None) -> str | None:
    """An arch as text: of 90, 9.0, or (9, 0), as torch.cuda.get_device_capability() gives it."""
    if arch is None or isinstance(arch, str):
        return arch
    if isinstance(arch, Arch):
        return arch.name
    return ".".join(map(str, arch)) if isinstance(arch, tuple) else str(arch)
