"""Luo et al., "Benchmarking and Dissecting the Nvidia Hopper GPU Architecture", and the later paper on H800."""

from __future__ import annotations

from tcprobe.references.cost.row import Row

SOURCE = "arXiv 2402.13499, table VII"
LATER = "arXiv 2402.13499 and 2501.12084"
DEVICES = (("A100", "sm_80"), ("RTX 4090", "sm_89"), ("H800", "sm_90"))
FORMS = {
    "mma.m16n8k16.row.col.f??.f16.f16.f??": (24.6, 24.6, 24.1),
    "mma.sp.m16n8k32.row.col.f??.f16.f16.f??": (24.5, 24.5, 24.0),
    "mma.m16n8k32.row.col.s32.?8.?8.s32": (26.0, 24.5, 24.0),
}
ROWS = (
    *(
        Row(SOURCE, form, arch, device, "latency", value, number="latency c")
        for form, values in FORMS.items()
        for (device, arch), value in zip(DEVICES, values, strict=True)
    ),
    *(
        Row(
            SOURCE,
            "ld.shared.b32",
            arch,
            device,
            "shared memory load",
            value,
            number="latency",
            condition="a chase by index; on an H200 29.25 with any operation between load and address, 23 without one",
        )
        for (device, arch), value in zip(DEVICES, (29.0, 30.1, 29.0), strict=True)
    ),
    Row(LATER, "wgmma.mma_async.m64n256k*", "sm_90", "H800", "N = 256", 128, number="shared interval"),
    Row(LATER, "wgmma.mma_async.sp.m64n256k*", "sm_90", "H800", "N = 256, A shared", 144, number="shared interval"),
    Row(
        LATER,
        "wgmma.mma_async.sp.m64n256k*",
        "sm_90",
        "H800",
        "N = 256, A in registers",
        128,
        number="registers interval",
    ),
    Row("HPMLL, Hopper benchmark log", "cp.async.bulk.tensor.2d.shared.global", "sm_90", "H800", "TMA, about", 365),
)
