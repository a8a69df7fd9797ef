"""How fast the emulator is, on one core: python benchmarks/emulate.py. A block of 128 x 128 x 256, sm_80 and sm_90."""

from __future__ import annotations

import resource
import time

from emulations import gemm_case

from tcprobe.emulate.ptx import parse
from tcprobe.emulate.run import Options, emulate
from tcprobe.kernel.gemm import GemmOptions

SIZE = (128, 128, 256)

for options in (GemmOptions("sm_80", "f16"), GemmOptions("sm_90", "bf16", (128, 128, 64))):
    case = gemm_case(options, SIZE)
    for _ in range(2):  # the first reads tables
        start = time.process_time()
        done = emulate(parse(case.ptx), case.launch, Options(arch="sm_90"))
        seconds = time.process_time() - start
        count = done.report.instructions
        print(f"{case.name}: {seconds:.2f} s, {count} instructions of warps, {count / seconds:,.0f} a second")
print(f"{resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10} MB at most")
