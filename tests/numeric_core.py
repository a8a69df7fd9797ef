"""A numeric tensor core for tests: it computes by the model, with any parameters, what the kernels would."""

from __future__ import annotations

from functools import cache

from tcprobe.arithmetic.parameters import Arithmetic, Integers
from tcprobe.isa import arch
from tcprobe.probes.numerics_cases import Images
from tcprobe.probes.numerics_experiments import modelled
from tcprobe.store.choose import alone
from tcprobe.store.results import published


@cache
def layers():
    return alone(published())


class Core:
    """A bench and the core behind it: `rules` by id of the form, one rule for those that are not named."""

    def __init__(self, rule, name="sm_90"):
        self.rule, self.device = rule, arch.arch(name)

    def run(self, launches):
        return [launch.kernel.op.emulate(launch, self) for launch in launches]

    def known(self, fragment):
        found = layers().choose(fragment, [self.device.name])
        return found.table(fragment) if found else None

    def computed(self, row, operands, satfinite):
        assert isinstance(self.rule, Arithmetic | Integers)
        return modelled(row, self.rule, Images(*operands), satfinite)
