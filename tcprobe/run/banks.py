"""The live measurement of shared memory banks: every access is timed, its phases found, its rule fitted.

    tcprobe run --family banks

says, as JSON too, for each access the rule, how many patterns were timed, how many without ambiguity, how many of
these the rule does not explain (with the first few), R2 over all, and the rule that came second. With --results it is
saved as well, as `ask.bank_rules` reads it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import product
from pathlib import Path
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from tcprobe import __version__
from tcprobe.ask.bank_rules import document
from tcprobe.ask.banks import IDLE, BankRule, Ints, Judge
from tcprobe.ask.source_tags import LEAST, SourceTags, is_spread, lookups, of_pairs
from tcprobe.ask.source_tags import timed as with_lookups
from tcprobe.errors import ProbeError
from tcprobe.isa.arch import WARP, Arch, arch
from tcprobe.isa.shared_memory import SharedAccess, accesses
from tcprobe.probes import banks
from tcprobe.probes.bank_cases import costly, far, tag_pairs, tag_steps
from tcprobe.probes.banks import Cases, Floats
from tcprobe.probes.experiment import ptx_hash
from tcprobe.probes.ptx import Bytes, Kernel, Launch
from tcprobe.store.surveys import BANKS

WHAT = "times the accesses of shared memory"
RUNS = 3  # of each pattern
PATTERNS = 1000  # of each access, beside the swap test
SHOWN = 8  # misfits that are listed
WAYS: tuple[Literal["words", "lanes", "order"], ...] = ("words", "lanes", "order")
Judged = NDArray[np.bool_]


class Clock(Protocol):
    """What the measurement asks of a backend, which a GPU gives."""

    def load(self, kernels: Sequence[Kernel]) -> dict[str, str]:
        """Compile; the refused kernels by name, with the compiler's words."""

    def run(self, launches: Sequence[Launch]) -> list[Bytes]:
        """The outputs of all launches."""


@dataclass(frozen=True)
class Fitted:
    """The rule that explains most patterns of an access. `misfits` are numbers of steady patterns that it does not.

    `second`: the rule of another meaning that explains most of the others, and how many steady patterns it misses.
    `tags`: of sources, where they are looked up in banks.
    """

    rule: BankRule
    phases: list[tuple[int, ...]]
    cases: Cases
    cycles: Floats
    steady: Judged
    misfits: list[int]
    r2: float
    second: tuple[BankRule, int]
    tags: SourceTags | None = None

    def to_json(self, row: SharedAccess) -> dict[str, Any]:
        """Plain data; the first misfits with what was timed and what the rule says."""
        said = predicted(row, self.rule, self.cases, self.tags)
        shown = [
            {"address": self.cases.address[j].tolist(), "source": self.cases.source[j].tolist(),
             "cycles": float(self.cycles[j]), "rule": int(said[j])}
            for j in self.misfits[:SHOWN]
        ]  # fmt: skip
        tags = {"tags": self.tags.to_json()} if self.tags else {}
        return {**tags, "rule": asdict(self.rule), "phases": self.phases, "patterns": int(self.steady.sum()),
                "ambiguous": int((~self.steady).sum()), "misfits": len(self.misfits), "r2": self.r2, "shown": shown,
                "second": {"rule": asdict(self.second[0]), "misfits": self.second[1]}}  # fmt: skip


@dataclass(frozen=True)
class Timer:
    """A backend, and how many bytes of shared memory a block asks for there so that it has the SM for itself."""

    clock: Clock
    shared_bytes: int

    def measure(self, row: SharedAccess, cases: Cases) -> tuple[Floats, Judged]:
        """(cycles of one access, which patterns were timed without ambiguity), of `cases`; the kernel is loaded."""
        launches = banks.launches(row, cases, self.shared_bytes)
        return banks.settled([banks.decode(self.clock.run(launches)) for _ in range(RUNS)])


def fit(
    row: SharedAccess, phases: Sequence[tuple[int, ...]], cases: Cases, timed: tuple[Floats, Judged],
    tags: SourceTags | None = None,
) -> Fitted:  # fmt: skip
    """The rule with the fewest misfits on steady patterns, the simplest of equals; beats of idle phases must halve it.

    ProbeError where the phases are not neighbouring lanes, all as many.
    """
    size = len(phases[0])
    if [list(phase) for phase in phases] != [list(range(j, j + size)) for j in range(0, row.lanes, size)]:
        raise ProbeError(f"{row.name}: phases {list(phases)[:4]} are no runs of neighbouring lanes.")
    measured, steady = timed
    known = measured[steady].round().astype(np.int64)
    said = {rule: predicted(row, rule, cases, tags) for rule in candidates(row, size)}
    missed = {rule: int((values[steady] != known).sum()) for rule, values in said.items()}
    best, *others = sorted(said, key=lambda rule: missed[rule] * (1 + rule.idle))
    differing = [rule for rule in others if (said[rule] != said[best]).any()] or [best]
    misfits = np.flatnonzero(steady & (said[best] != measured.round())).tolist()
    spread = float(((measured - measured.mean()) ** 2).sum())
    r2 = 1 - float(((measured - said[best]) ** 2).sum()) / spread if spread else 1.0
    return Fitted(best, list(phases), cases, measured, steady, misfits, r2, (differing[0], missed[differing[0]]),
                  tags)  # fmt: skip


def candidates(row: SharedAccess, size: int) -> list[BankRule]:
    """Every rule of phases of `size` lanes, the simplest first."""
    joins = [size << j for j in range(6) if size << j <= min(row.lanes, WARP)]
    ways = WAYS if row.has_source else WAYS[:2]
    return [BankRule(size, joined, passes, idle) for idle, joined, passes in product((False, True), joins, ways)]


def predicted(row: SharedAccess, rule: BankRule, cases: Cases, tags: SourceTags | None = None) -> Ints:
    """Cycles that a rule says of each pattern, with the lookups of its sources where there are tags."""
    said = Judge(row, rule).cycles(cases.address, cases.source if rule.passes == "order" else None)
    if tags is None:
        return said
    sources = np.where(cases.address == IDLE, IDLE, cases.source)
    return with_lookups(said, lookups(tags, sources), is_spread(cases.address))


def sweep(timer: Timer, rows: Iterable[SharedAccess], count: int) -> dict[str, Fitted | str]:
    """Every access: what was fitted, or why it could not be measured."""
    wanted = {row.name: banks.kernel(row) for row in rows}
    refused = timer.clock.load(list(wanted.values()))
    outcomes: dict[str, Fitted | str] = {}
    for name, kernel in wanted.items():
        row = accesses()[name]
        try:
            outcomes[name] = refused.get(kernel.name) or _one(timer, row, count)
        except ProbeError as error:
            outcomes[name] = str(error)
    return outcomes


def _one(timer: Timer, row: SharedAccess, count: int) -> Fitted:
    swapped, _ = timer.measure(row, swaps := banks.swaps(row))
    phases = banks.phases(row, swapped)
    others = [costly(row, count), *([far(row, count)] if row.has_source else [])]
    cases = Cases(*(np.concatenate(parts) for parts in zip(swaps, *others, strict=True)))
    return fit(row, phases, cases, timer.measure(row, cases), _tags(timer, row))


def _tags(timer: Timer, row: SharedAccess) -> SourceTags | None:
    """The tags of sources, None where pairs of lines show none."""
    if not row.has_source:
        return None
    timed, _ = timer.measure(row, tag_pairs(row))
    return of_pairs(tag_steps(), np.asarray(timed.round() > LEAST))


def report(outcomes: Mapping[str, Fitted | str]) -> dict[str, Any]:
    """Plain data of a sweep, with its totals."""
    fitted = {name: fit for name, fit in outcomes.items() if isinstance(fit, Fitted)}
    rows = {name: fit.to_json(accesses()[name]) for name, fit in fitted.items()}
    totals = {key: sum(row[key] for row in rows.values()) for key in ("patterns", "ambiguous", "misfits")}
    return {**totals, "accesses": rows, "failed": {n: words for n, words in outcomes.items() if isinstance(words, str)}}


def on_gpu(index: int, count: int) -> tuple[Arch, dict[str, str], dict[str, Fitted | str]]:
    """(arch, provenance, sweep) of one GPU; EnvironmentUnfitError without one."""
    from tcprobe.run.driver import BEST
    from tcprobe.run.gpu import Gpu

    gpu = Gpu(BEST)
    gpu.open(index)
    device = gpu.devices()[index]
    row = arch(device.arch)
    rows = [access for access in accesses().values() if access.target.on(row)]
    shared_bytes = gpu.shared_bytes() // 2 + 1024  # of an SM: more than half, so that one block has it
    outcomes = sweep(Timer(gpu, shared_bytes), rows, count)
    hashed = ptx_hash([banks.kernel(access) for access in rows])
    return row, {"device": device.name, "driver": device.driver, "cuda": device.cuda, "compiler": device.compiler,
                 "ptx": hashed, "tcprobe": __version__}, outcomes  # fmt: skip


def survey(index: int, folder: Path) -> tuple[dict[str, Any], list[str]]:
    """The report of one GPU, saved in a folder, and what to say of it; EnvironmentUnfitError without a GPU.

    ProbeError, and nothing is saved, where an access could not be timed.
    """
    from tcprobe.store.results import Results

    row, provenance, outcomes = on_gpu(index, PATTERNS)
    said = report(outcomes)
    if said["failed"]:
        name, words = next(iter(said["failed"].items()))
        raise ProbeError(f"{len(said['failed'])} of {len(outcomes)} accesses could not be timed, first {name}: {words}")
    BANKS.write(Results(folder), row.name, document(row.name, provenance, said["accesses"]))
    lines = [f"{name:22} {one['misfits']} of {one['patterns']} patterns do not fit"
             for name, one in said["accesses"].items()]  # fmt: skip
    lines.append(f"{provenance['device']} ({row.name}): rule saved in {folder}; `tcprobe banks --rule`")
    return {"arch": row.name, "provenance": provenance, **said}, lines
