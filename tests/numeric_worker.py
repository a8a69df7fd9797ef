"""A worker on the numeric core: every form computes as the trial's H200 did, as far as its types say."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import numeric_core as core

from tcprobe.arithmetic.parameters import Integers, chained
from tcprobe.arithmetic.parameters import types_of as types
from tcprobe.probes.numerics import Images, model_results
from tcprobe.run.emulator import Emulator
from tcprobe.run.worker import main


class Numeric(Emulator):
    def computed(self, row, operands, satfinite):
        return model_results(row, rule_of(row), Images(*operands), satfinite)


def rule_of(row):
    """Of a form that the trial did not name: one sum of everything."""
    kind = types(row)
    if row.id in core.RULES or not kind.is_float:
        return core.RULES.get(row.id, Integers("wraps", "clamps"))
    return core.rule(chained(row.stored, row.stored), 25, 23 if kind.d == "f32" else 10)


if __name__ == "__main__":
    main(lambda: Numeric({}))
