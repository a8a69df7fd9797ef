"""The kernels that have pages."""

from __future__ import annotations

from contextlib import suppress

from tcprobe.errors import DataError, UsageError
from tcprobe.kernel.gemm import GemmOptions, gemm
from tcprobe.pages.site.kernel_pages import KernelPages
from tcprobe.store.choose import Layers

# the kernels that have pages: by arch the types
KERNELS = {
    "sm_70": ("f16",),
    "sm_75": ("f16", "s8"),
    "sm_80": ("f16", "bf16", "tf32", "s8"),
    "sm_89": ("f16", "e4m3"),
    "sm_90": ("f16", "bf16", "tf32", "e4m3", "s8"),
    "sm_120": ("f16", "e4m3"),
}


def kernels(layers: Layers) -> tuple[KernelPages, ...]:
    """Those that the folders have tables for."""
    pages = []
    for arch, kinds in KERNELS.items():
        for kind in kinds:
            with suppress(UsageError, DataError):
                pages.append(KernelPages(gemm(GemmOptions(arch, kind), layers), arch, kind))
    return tuple(pages)
