"""What the archs of a command line mean, and many names in few words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tcprobe.isa import arch

if TYPE_CHECKING:
    from tcprobe.store.choose import Layers


def archs_of(name: str | None, layers: Layers) -> list[str]:
    """The arch that --arch names; without it, and for "all", every arch that has measurements, ascending."""
    return layers.archs() if name in (None, "all") else [arch.arch(at).name for at in (name or "").split(",")]


def some(names: Sequence[str], most: int = 4) -> str:
    """The first names, and how many more."""
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")
