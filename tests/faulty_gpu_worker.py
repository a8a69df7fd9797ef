"""A worker on the live GPU in which one kernel is replaced: python faulty_gpu_worker.py MODE PART (see BODY)."""

import dataclasses
import re
import sys

from tcprobe.isa.arch import Target
from tcprobe.probes.ptx import identifier
from tcprobe.run.gpu import Gpu
from tcprobe.run.worker import main

BODY = {
    "trap": "trap;",
    "loop": "again: bra again;",
    "wild": ".reg .u64 %p; mov.u64 %p, 8; st.global.u32 [%p], 1;",
    "bad": "no.such.instruction %r1;",
    "future": None,
}


class Faulty(Gpu):
    def __init__(self, mode, part):
        super().__init__()
        self.body, self.part = BODY[mode], identifier(part)

    def load(self, kernels):
        return super().load([self._broken(k) if self.part in k.name else k for k in kernels])

    def _broken(self, kernel):
        if self.body is None:  # asks for a PTX version that no driver knows yet
            return dataclasses.replace(kernel, target=Target("sm_80", "99.9"))
        head = re.match(r"(.*?\)\n)\{", kernel.text, re.DOTALL)[1]
        return dataclasses.replace(kernel, text=f"{head}{{\n    {self.body}\n    ret;\n}}\n")


if __name__ == "__main__":
    main(lambda: Faulty(sys.argv[1], sys.argv[2]))
