"""RTX 5090 and others of sm_120: lookup1980/microbench-blackwell and florianmattana/sass-king."""

from __future__ import annotations

from tcprobe.references.cost.row import Row

SOURCE = "lookup1980/microbench-blackwell, CSV"
KING = "florianmattana/sass-king"
DEVICE = ("sm_120", "RTX 5090")
INTERVALS = {
    "mma.m16n8k16.row.col.f32.f16.f16.f32": 8.0,
    "mma.m16n8k16.row.col.f32.bf16.bf16.f32": 8.0,
    "mma.m16n8k8.row.col.f32.tf32.tf32.f32": 8.0,
    "mma.m16n8k32.row.col.f32.e?m?.e?m?.f32": 8.0,
    "mma.m16n8k16.row.col.f16.f16.f16.f16": 4.0,
    "mma.m16n8k32.row.col.s32.?8.?8.s32": 4.25,
    "mma.m16n8k64.row.col.s32.s4.s4.s32": 633.0,
    "mma.m16n8k64.row.col.s32.u4.u4.s32": 175.0,
    "mma.sp::ordered_metadata.m16n8k32.row.col.f32.f16.f16.f32": 8.0,
    "mma.sp.m16n8k16.row.col.f32.f16.f16.f32": 191.0,
    "mma.sp.m16n8k32.row.col.f32.f16.f16.f32": 245.0,
}
CHAINS = {
    "mma.m16n8k16.row.col.f32.f16.f16.f32": 35,
    "mma.m16n8k32.row.col.kind::f8f6f4.f32.*": 35,
    "mma.m16n8k64.row.col.kind::mxf4nvf4.block_scale.scale_vec::4X.*": 29,
}
ROWS = (
    *(Row(SOURCE, form, *DEVICE, "an SM", value, number="interval") for form, value in INTERVALS.items()),
    *(
        Row(KING, form, *DEVICE, "chain, about", value, number="latency c", condition="chains of up to 64")
        for form, value in CHAINS.items()
    ),
    Row(KING, "ldmatrix.m8n8.x1.shared.b16", *DEVICE, "latency", 33, number="latency"),
)
