"""Sun et al., "Dissecting Tensor Cores via Microbenchmarks"; programs at sunlex0717/DissectingTensorCores."""

from __future__ import annotations

from tcprobe.references.cost.row import Row

SOURCE = "arXiv 2206.02874, table 6"
CONDITION = "8 warps, 2 chains"
ROWS = tuple(
    Row(
        SOURCE,
        f"mma.sp.m16n8k{k}.row.col.f32.f16.f16.f32",
        "sm_80",
        "A100",
        "throughput",
        value,
        "multiply-adds per cycle per SM",
        condition=f"{CONDITION}; zeros of A counted as well",
    )
    for k, value in ((32, 1979), (16, 1290))
)
