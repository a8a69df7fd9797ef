"""The code of all probes of an arch, and the tables that it gives."""

from functools import cache

import pytest

from tcprobe.errors import EnvironmentUnfitError
from tcprobe.isa.arch import arch
from tcprobe.probes import experiments
from tcprobe.probes.wmma import MemoryExperiment, memory_table
from tcprobe.run.machine_code import run
from tcprobe.sass import toolchain
from tcprobe.sass.cubin import assemble

try:
    TOOLS = toolchain.find()
    REASON = ""
except EnvironmentUnfitError as error:
    TOOLS, REASON = None, str(error)
needs_tools = pytest.mark.skipif(TOOLS is None, reason=f"no ptxas or nvdisasm for this platform: {REASON}")
MEMORY = [e for e in experiments().values() if isinstance(e, MemoryExperiment)]


@cache
def codes(name):
    """All probes of an arch: (experiment, launches) and code by kernel."""
    row = arch(name)
    planned = [(e, e.launches()) for e in MEMORY if all(f.target.on(row) for f in e.fragments)]
    kernels = {launch.kernel.name: launch.kernel for _, launches in planned for launch in launches}
    found, refused = assemble(TOOLS, list(kernels.values()), row)
    assert not refused
    return planned, found


def table(experiment, launches, code):
    reading = experiment.decode(launches, [run(code[x.kernel.name], x) for x in launches])
    return memory_table(experiment.fragments[0], reading["elements"].tolist())
