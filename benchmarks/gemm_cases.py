"""Which kernels of `tcprobe kernel gemm` are compared, timed, and taken apart, by `gemm.py`."""

from __future__ import annotations

from tcprobe.kernel.gemm import GemmOptions

SHAPES = ((128, 128, 64), (1, 1, 1), (127, 129, 65), (300, 77, 193), (513, 260, 31), (64, 1000, 130))
FORMS = (
    *(
        (target, kind, "row", "col")
        for target, kind in (
            ("sm_70", "f16"),
            ("sm_75", "f16"),
            ("sm_75", "s8"),
            ("sm_80", "f16"),
            ("sm_80", "bf16"),
            ("sm_80", "tf32"),
            ("sm_80", "s8"),
            ("sm_89", "e4m3"),
            ("sm_89", "e5m2"),
            ("sm_90", "f16"),
            ("sm_90", "bf16"),
            ("sm_90", "tf32"),
            ("sm_90", "e4m3"),
            ("sm_90", "e5m2"),
            ("sm_90", "s8"),
        )
    ),
    *(("sm_80", kind, a, b) for kind in ("f16", "tf32", "s8") for a, b in (("col", "row"), ("row", "row"))),
    *(("sm_90", "bf16", a, b) for a, b in (("col", "col"), ("row", "row"), ("col", "row"))),
    ("sm_75", "f16", "col", "row"),
    ("sm_70", "f16", "col", "row"),
)
OTHERS = (
    GemmOptions("sm_90", "bf16", (64, 96, 64), a="col", b="row", out="f32"),
    GemmOptions("sm_90", "f16", (128, 128, 64)),
    GemmOptions("sm_90", "e4m3", (192, 128, 64)),
    GemmOptions("sm_80", "f16", (64, 256, 32), (1, 4), 4, out="f32"),
    GemmOptions("sm_80", "bf16", (128, 256, 64), (2, 4), 3),
    GemmOptions("sm_80", "f16", (256, 128, 64), (4, 2), 3, a="col", b="row"),
    GemmOptions("sm_80", "s8", (128, 128, 64), stages=5),
    *(GemmOptions("sm_90", kind, cluster=2) for kind in ("f16", "tf32", "e4m3", "s8")),
    GemmOptions("sm_90", "bf16", (64, 128, 64), a="col", b="row", cluster=2),
    GemmOptions("sm_90", "bf16", (192, 128, 64), out="f32", cluster=2),
)
RATED = (
    GemmOptions("sm_90", "bf16", (128, 128, 64), stages=4),
    GemmOptions("sm_90", "bf16", (128, 256, 64), stages=4),
    GemmOptions("sm_90", "bf16", (128, 256, 64), stages=4, cluster=2),
    GemmOptions("sm_90", "bf16", (128, 128, 64), stages=4, cluster=2),
    GemmOptions("sm_90", "bf16", (128, 192, 64), stages=4),
    GemmOptions("sm_90", "bf16", (192, 128, 64), stages=4),
    GemmOptions("sm_90", "e4m3", (128, 256, 128), stages=4, out="bf16"),
    GemmOptions("sm_90", "e4m3", (128, 256, 128), stages=4, out="bf16", cluster=2),
    GemmOptions("sm_90", "e4m3", (128, 128, 128), stages=4, out="bf16"),
    GemmOptions("sm_80", "bf16", (128, 128, 64), stages=3),
    GemmOptions("sm_80", "bf16", (128, 128, 32), stages=4),
    GemmOptions("sm_80", "bf16", (128, 128, 64), warps=(2, 4), stages=3),
    GemmOptions("sm_80", "bf16", (128, 256, 64), warps=(2, 4), stages=3),
    GemmOptions("sm_80", "bf16", (256, 128, 64), warps=(4, 2), stages=3),
    GemmOptions("sm_80", "bf16", (128, 256, 32), warps=(2, 4), stages=4),
)
BOUND = (
    *(GemmOptions("sm_80", "bf16", (128, 128, 32), stages=stages) for stages in (4, 5)),
    GemmOptions("sm_80", "bf16", (128, 128, 64), stages=3),
    *(GemmOptions("sm_80", "bf16", (128, 256, 32), (2, 4), stages) for stages in (4, 6)),
    GemmOptions("sm_80", "bf16", (128, 256, 64), (2, 4), 3),
    GemmOptions("sm_80", "bf16", (256, 128, 64), (4, 2), 3),
)
