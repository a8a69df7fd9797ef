"""What the names of a command line mean, and what is said of what there is not."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tcprobe.errors import UsageError
from tcprobe.isa import arch
from tcprobe.isa.fragment import Fragment

if TYPE_CHECKING:
    from tcprobe.store.choose import Layers


def archs_of(name: str | None, layers: Layers) -> list[str]:
    """The arch that --arch names; without it, and for "all", every arch that has measurements, ascending."""
    return layers.archs() if name in (None, "all") else [arch.arch(at).name for at in (name or "").split(",")]


def no_table(fragment: Fragment, name: str | None, layers: Layers) -> UsageError:
    """Why there is nothing to show of a fragment."""
    archs = archs_of(name, layers)
    saved = next(layers.saved(fragment.experiment, archs), None)
    words = f" {saved.measured.arch} {saved.measured.status} it: {saved.measured.words}." if saved else ""
    where = f" on {archs[0]}" if len(archs) == 1 else ""
    at = archs[0] if archs else "sm_90"
    words = f"no table of {fragment.id}{where} in {layers.words}.{words}"
    return UsageError(words, "no table", id=fragment.id, arch=at)


def some(names: Sequence[str], most: int = 4) -> str:
    """The first names, and how many more."""
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")
