"""What is known of an arch's tensor maps: measured there, borrowed from sm_90, or documented."""

from __future__ import annotations

from tcprobe.store.choose import Layers
from tcprobe.store.finding import Finding
from tcprobe.store.kinds.tensor_maps import words

KIND = "tensor_maps"
BORROWED, STATED = "sm_90", "documented by the CUDA driver API and PTX ISA"


def newest(layers: Layers, arch: str) -> dict[str, Finding]:
    """What was measured of an arch, by subject; empty where nothing was.

    NoMajorityError where as many devices found one rule of a mode as another.
    """
    return {subject: one.settled for subject, one in layers.findings(KIND, arch).items()}


def rests_on(layers: Layers, arch: str) -> str:
    """What is known of the boxes of an arch, in words: measured there, or on sm_90, or stated."""
    own = newest(layers, arch)
    if own:
        told = [one.contradiction for one in layers.findings(KIND, arch).values() if one.otherwise]
        return "; ".join((words(list(own.values())), *told))
    other = newest(layers, BORROWED)
    return f"{words(list(other.values())) if other else STATED}; nobody measured {arch}"
