"""tcgen05 on B200 and B300 (sm_100, sm_103): SemiAnalysisAI/microbench-blackwell and Antoniomv7/gb300-microbench."""

from __future__ import annotations

from tcprobe.references.cost.row import Row

SOURCE = "SemiAnalysisAI/microbench-blackwell, CSV"
GB300 = "Antoniomv7/gb300-microbench"
FORM = "tcgen05.mma.*kind::f16*"
CONDITION = "bf16, M 128, one SM, N = {n}, {place}"
BOTH, HELD = "A and B in shared memory", "A in tensor memory"
LATENCIES = {BOTH: (168, 200, 264), HELD: (136, 168, 232)}
INTERVALS = {BOTH: (48.6, 64.6, 128.6), HELD: (32.5, 64.5, 128.5)}
RATES = {"B200": ("sm_100", (5399, 8114, 8153)), "GB300": ("sm_103", (5321, 8065, 8101))}
SIZES = (64, 128, 256)
ROWS = (
    *(
        Row(SOURCE, FORM, "sm_100", "B200", term, value, condition=CONDITION.format(n=n, place=place))
        for term, table in (("latency", LATENCIES), ("interval", INTERVALS))
        for place, values in table.items()
        for n, value in zip(SIZES, values, strict=True)
    ),
    *(
        Row(GB300, FORM, arch, device, "an SM", value, "flop per cycle", condition=CONDITION.format(n=n, place=BOTH))
        for device, (arch, values) in RATES.items()
        for n, value in zip(SIZES, values, strict=True)
    ),
)
