"""Finds the bank rule of each shared-memory access: times patterns, finds the phases, fits a rule.

tcprobe run --family banks
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import Literal, NamedTuple

import numpy as np

from tcprobe.errors import ProbeError
from tcprobe.isa.arch import WARP
from tcprobe.isa.shared_memory import SharedAccess, accesses
from tcprobe.isa.target import Target
from tcprobe.layout.arrays import Bools, Floats, Ints
from tcprobe.layout.banks import IDLE, LEAST, BankRule, Judge, SourceTags, is_spread, lookups, tags_from_pairs
from tcprobe.layout.banks import access_cycles as with_lookups
from tcprobe.probes import banks
from tcprobe.probes.bank_cases import costly, far, tag_pairs, tag_steps
from tcprobe.probes.banks import Cases
from tcprobe.probes.experiment import Bench, Context, Dialogue, Readout
from tcprobe.probes.ptx import Kernel
from tcprobe.store.kinds.banks import Body, Misfit, Second

KIND = "banks"
RUNS = 3  # repetitions of each pattern
PATTERNS = 1000  # of each access, besides the swap test
SHOWN = 8  # most misfits in a finding
WAYS: tuple[Literal["words", "lanes", "order"], ...] = ("words", "lanes", "order")
Steady = Bools


class Timed(NamedTuple):
    """Patterns, cycles of one access under each, and which of them were timed without ambiguity; (patterns,) each."""

    cases: Cases
    cycles: Floats
    steady: Steady


@dataclass(frozen=True)
class BankExperiment(Dialogue):
    """An access, timed on the swap test and on `count` more patterns."""

    access: SharedAccess
    count: int = PATTERNS
    kind = KIND

    @property
    def id(self) -> str:
        """The access's name."""
        return self.access.name

    @property
    def target(self) -> Target:
        """The target that the access needs."""
        return self.access.target

    def kernels(self) -> list[Kernel]:
        """The kernel that times the access."""
        return [banks.kernel(self.access)]

    def cases(self) -> Cases:
        """The swap test, then patterns that distinguish rules."""
        others = [costly(self.access, self.count), *([far(self.access, self.count)] if self.access.has_source else [])]
        parts = zip(banks.swaps(self.access), *others, strict=True)
        return Cases(*(np.concatenate(part) for part in parts))

    def measure(self, bench: Bench) -> Readout:
        """ "swapped": cycles of the swap test; "cycles" and "steady" of all cases. With sources, "together": by pair
        whether one bank holds the tags of both lines.
        """
        swapped, _ = self.time_cases(bench, banks.swaps(self.access))
        cycles, steady = self.time_cases(bench, self.cases())
        reading = {"swapped": swapped, "cycles": cycles, "steady": steady}
        if self.access.has_source:
            pairs, _ = self.time_cases(bench, tag_pairs(self.access))
            reading["together"] = pairs.round() > LEAST
        return reading

    def time_cases(self, bench: Bench, bank_cases: Cases) -> tuple[Floats, Steady]:
        """(cycles of one access, whether it was timed without ambiguity) for each of `bank_cases`."""
        alone = bench.shared_bytes() // 2 + 1024  # more than half of an SM's: one block at a time
        launches = banks.launches(self.access, bank_cases, alone)
        return banks.least_and_steady([banks.decode(bench.run(launches)) for _ in range(RUNS)])

    def conclude(self, reading: Readout, context: Context) -> Body:
        """The fitted rule; ProbeError if the lanes do not form phases."""
        phases = banks.phases(self.access, reading["swapped"])
        tags = tags_from_pairs(tag_steps(), reading["together"]) if self.access.has_source else None
        return fit(self.access, phases, Timed(self.cases(), reading["cycles"], reading["steady"]), tags)


def fit(access: SharedAccess, phases: Sequence[tuple[int, ...]], timed: Timed, tags: SourceTags | None = None) -> Body:
    """The rule with the fewest misfits on steady patterns; of equally good rules the simplest.

    A rule that counts beats of idle phases is taken only if it more than halves the misfits. ProbeError unless every
    phase is a run of neighbouring lanes, all runs of one length.
    """
    _check_phases(access, phases)
    cases, measured, steady = timed
    steady_cycles = measured[steady].round().astype(np.int64)
    predictions = {rule: cycles_by_rule(access, rule, cases, tags) for rule in candidates(access, len(phases[0]))}
    missed = {rule: int((values[steady] != steady_cycles).sum()) for rule, values in predictions.items()}
    best, *others = sorted(predictions, key=lambda rule: missed[rule] * (1 + rule.idle))
    second = next((rule for rule in others if (predictions[rule] != predictions[best]).any()), best)
    misfits = _misfits(timed, predictions[best])
    listed, r2 = [list(phase) for phase in phases], _r2(measured, predictions[best])
    other, (tried, unsteady) = Second(second, missed[second]), (int(steady.sum()), int((~steady).sum()))
    return Body(best, tried, len(misfits), r2, unsteady, listed, misfits[:SHOWN], other, tags)


def _check_phases(access: SharedAccess, phases: Sequence[tuple[int, ...]]) -> None:
    size = len(phases[0])
    if [list(phase) for phase in phases] != [list(range(j, j + size)) for j in range(0, access.lanes, size)]:
        raise ProbeError(f"{access.name}: phases {list(phases)[:4]} are not runs of neighbouring lanes.")


def _misfits(timed: Timed, predicted_cycles: Ints) -> list[Misfit]:
    """The steady patterns that take other cycles than predicted."""
    (address, source), measured, steady = timed
    return [
        Misfit(address[j].tolist(), source[j].tolist(), float(measured[j]), int(predicted_cycles[j]))
        for j in np.flatnonzero(steady & (predicted_cycles != measured.round())).tolist()
    ]


def _r2(pass_cycles: Floats, predicted_cycles: Ints) -> float:
    """The coefficient of determination of a prediction."""
    spread = float(((pass_cycles - pass_cycles.mean()) ** 2).sum())
    return 1 - float(((pass_cycles - predicted_cycles) ** 2).sum()) / spread if spread else 1.0


def candidates(access: SharedAccess, size: int) -> list[BankRule]:
    """Every rule whose phases have `size` lanes, the simplest first."""
    joins = [size << j for j in range(6) if size << j <= min(access.lanes, WARP)]
    ways = WAYS if access.has_source else WAYS[:2]
    return [BankRule(size, joined, passes, idle) for idle, joined, passes in product((False, True), joins, ways)]


def cycles_by_rule(access: SharedAccess, rule: BankRule, bank_cases: Cases, tags: SourceTags | None = None) -> Ints:
    """Cycles of each pattern by a rule; with `tags`, including the lookups of source lines."""
    cycles = Judge(access, rule).cycles(bank_cases.address, bank_cases.source if rule.passes == "order" else None)
    if tags is None:
        return cycles
    sources = np.where(bank_cases.address == IDLE, IDLE, bank_cases.source)
    return with_lookups(cycles, lookups(tags, sources), is_spread(bank_cases.address))


def experiments() -> list[Dialogue]:
    """One experiment for each access."""
    return [BankExperiment(row) for row in accesses().values()]
