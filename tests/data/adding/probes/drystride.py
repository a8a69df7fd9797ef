"""The probes of that kind: a warp writes numbers, then those of its lanes say where they lie."""

from dataclasses import dataclass

import numpy as np

from tcprobe.errors import ProbeError
from tcprobe.isa.arch import WARP, Target
from tcprobe.probes.experiment import Dialogue
from tcprobe.probes.ptx import Kernel, Launch

KIND = "drystride"
WIDTHS = {"narrow": 4, "wide": 16}


@dataclass(frozen=True)
class Write:
    """Every lane writes its number."""

    width: int
    from_code: bool = False

    def emulate(self, launch, tables):
        found = np.zeros((WARP, self.width // 4), np.uint32)
        found[:, 0] = 1 + np.arange(WARP)
        return found.reshape(-1).view(np.uint8)


@dataclass(frozen=True)
class StrideExperiment(Dialogue):
    name: str
    kind = KIND

    @property
    def id(self):
        return self.name

    @property
    def target(self):
        return Target("sm_75", "7.0")

    def kernels(self):
        name = f"drystride_{self.name}"
        return [Kernel(name, Write(WIDTHS[self.name]), f".visible .entry {name}() {{ ret; }}\n", self.target)]

    def measure(self, bench):
        (kernel,) = self.kernels()
        launch = Launch(kernel, (1, 1, 1), (), 0, WARP * WIDTHS[self.name], WARP)
        return {"words": bench.run([launch])[0].view(np.uint32).copy()}

    def conclude(self, reading, context):
        from tcprobe.store.kinds.drystride import Body

        places = np.flatnonzero(reading["words"])
        if len(places) != WARP or len(set(np.diff(places))) != 1:
            raise ProbeError(f"{self.name}: lanes at {places[:4]}.")
        return Body(int(places[1] - places[0]) * 4)


def experiments():
    return [StrideExperiment(name) for name in WIDTHS]
