"""revollllt/flash-vla: sm90/unit-mma.md and constants.yaml, measured on an H100."""

from __future__ import annotations

from tcprobe.references.cost.row import Row

SOURCE = "revollllt/flash-vla, sm90/unit-mma.md"
BF16 = "mma.m16n8k16.row.col.f32.bf16.bf16.f32"
WGMMA = {8: 18.9, 16: 20.7, 32: 24.7, 64: 32.8, 96: 48.7, 128: 65.0, 192: 97.1, 256: 129.3}
ROWS = (
    Row(SOURCE, BF16, "sm_90", "H100", "latency", 25.14, number="latency c"),
    Row(SOURCE, BF16, "sm_90", "H100", "one per, a warp", 6.26, number="one_warp", condition="four accumulators"),
    Row(SOURCE, BF16, "sm_90", "H100", "an SM", 2680, "flop per cycle", "macs_per_cycle", factor=0.5),
    *(
        Row(
            SOURCE,
            f"wgmma.mma_async.m64n{n}k16.f32.bf16.bf16",
            "sm_90",
            "H100",
            "interval",
            value,
            number="shared interval",
            condition="A and B in shared memory",
        )
        for n, value in WGMMA.items()
    ),
    *(
        Row("revollllt/flash-vla, constants.yaml", "cp.async.bulk.tensor.*", "sm_90", "H100", term, value, "ns")
        for term, value in (("from L2, and 4.8 a KB", 217), ("from DRAM, and 5.2 a KB", 595))
    ),
)
