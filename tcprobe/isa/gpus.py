"""What people call an arch: the names of its GPUs.

>>> from tcprobe.isa.gpus import numbers
>>> [numbers(name) for name in ("H100", "RTX 4090", "T4000")]
[[90], [89], [110]]

Source: NVIDIA, "CUDA GPU Compute Capability" (developer.nvidia.com/cuda/gpus, and its legacy page).
"""

from __future__ import annotations

import re

# compute capability, GPUs: what is shown, and a pattern of the name without spaces, "NVIDIA", "GeForce" and the like
GPUS: tuple[tuple[int, str, str], ...] = (
    (70, "V100, Titan V", r"v100\w*|titanv|gv100"),
    (72, "Xavier", r"xavier(nx)?"),
    (
        75,
        "T4, RTX 20, GTX 16",
        r"t4|t[456]00|t1[02]00|(rtx)?20[678]0(ti)?(super)?|titanrtx|gtx16[56]0(ti)?(super)?|rtx[34568]000",
    ),
    (80, "A100, A30", r"a[138]00\w*|a30x?"),
    (86, "A10, A40, RTX 30, RTX A6000", r"a2|a10[gm]?|a16|a40|(rtx)?30[5-9]0(ti)?|rtxa[2-6][05]?00(0)?"),
    (87, "Orin", r"orin(nx|nano)?"),
    (88, "", r"(?!)"),  # no GPU of it is named: nothing matches
    (89, "L4, L40, RTX 40, RTX 6000 Ada", r"l4|l20|l40s?|(rtx)?40[5-9]0(ti)?(super|d)?|rtx[2-6][05]00(0)?ada\w*"),
    (90, "H100, H200, GH200", r"g?h[128]00\w*|h20"),
    (100, "B100, B200, GB200", r"g?b[12]00"),
    (103, "B300, GB300", r"g?b300"),
    (107, "Rubin, VR200", r"(vera)?rubin|vr200"),  # CUDA 13.4, release notes
    (110, "Thor", r"thor|t[45]000"),
    (120, "RTX 50, RTX PRO 6000 Blackwell", r"(rtx)?50[5-9]0(ti)?(super|d)?|rtxpro[2-6][05]00(0)?\w*"),
    (121, "GB10, DGX Spark", r"gb10|(dgx)?spark"),
)
_NOISE = re.compile(r"nvidia|geforce|tesla|quadro|jetson|agx|[\s_-]+")


def numbers(name: str) -> list[int]:
    """The archs (80 for sm_80) of the GPU that `name` means; none where it is not a GPU's."""
    wanted = bare(name)
    if not wanted.isalnum():  # what is dotted is a fragment's name
        return []
    return [number for number, _, pattern in GPUS if re.fullmatch(pattern, wanted)]


def bare(name: str) -> str:
    """A name without what goes before or between: NVIDIA, GeForce, spaces."""
    return _NOISE.sub("", name.lower())


def gpu_words(number: int) -> str:
    """GPUs of an arch, in brackets; nothing where none is named."""
    return next((f" ({words})" for known, words, _ in GPUS if known == number and words), "")
