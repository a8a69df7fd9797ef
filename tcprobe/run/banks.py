"""The live measurement of shared memory banks: every access is timed, its phases found, its rule fitted.

    python -m tcprobe.run.banks [--device N] [--patterns N] [--results FOLDER]

prints one JSON object: for each access the rule, how many patterns were timed, how many without ambiguity, how many of
these the rule does not explain (with the first few), R2 over all, and the rule that came second. With --results it is
saved as well, as `ask.bank_rules` reads it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import product
from pathlib import Path
from typing import Any, Literal, Protocol

import click
import numpy as np
from numpy.typing import NDArray

from tcprobe import __version__
from tcprobe.ask.bank_rules import document
from tcprobe.ask.banks import BankRule, Ints, cycles
from tcprobe.errors import ProbeError, TcprobeError
from tcprobe.isa.arch import WARP, Arch, arch
from tcprobe.isa.shared_memory import SharedAccess, accesses
from tcprobe.probes import banks
from tcprobe.probes.bank_cases import costly
from tcprobe.probes.banks import Cases, Floats
from tcprobe.probes.experiment import ptx_hash
from tcprobe.probes.ptx import Bytes, Kernel, Launch
from tcprobe.run.backend import BackendFaultError

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
    """

    rule: BankRule
    phases: list[tuple[int, ...]]
    cases: Cases
    cycles: Floats
    steady: Judged
    misfits: list[int]
    r2: float
    second: tuple[BankRule, int]

    def to_json(self, row: SharedAccess) -> dict[str, Any]:
        """Plain data; the first misfits with what was timed and what the rule says."""
        shown = [
            {"address": self.cases.address[j].tolist(), "source": self.cases.source[j].tolist(),
             "cycles": float(self.cycles[j]), "rule": int(predicted(row, self.rule, self.cases)[j])}
            for j in self.misfits[:SHOWN]
        ]  # fmt: skip
        return {"rule": asdict(self.rule), "phases": self.phases, "patterns": int(self.steady.sum()),
                "ambiguous": int((~self.steady).sum()), "misfits": len(self.misfits), "r2": self.r2, "shown": shown,
                "second": {"rule": asdict(self.second[0]), "misfits": self.second[1]}}  # fmt: skip


def measure(clock: Clock, row: SharedAccess, cases: Cases, shared_bytes: int) -> tuple[Floats, Judged]:
    """(cycles of one access, which patterns were timed without ambiguity), of `cases`; the kernel is loaded."""
    timed = banks.launches(row, cases, shared_bytes)
    return banks.settled([banks.decode(clock.run(timed)) for _ in range(RUNS)])


def fit(row: SharedAccess, phases: Sequence[tuple[int, ...]], cases: Cases, timed: tuple[Floats, Judged]) -> Fitted:
    """The rule with the fewest misfits on steady patterns, the simplest of equals; beats of idle phases must halve it.

    ProbeError where the phases are not neighbouring lanes, all as many.
    """
    size = len(phases[0])
    if [list(phase) for phase in phases] != [list(range(j, j + size)) for j in range(0, row.lanes, size)]:
        raise ProbeError(f"{row.name}: phases {list(phases)[:4]} are no runs of neighbouring lanes.")
    found, steady = timed
    known = found[steady].round().astype(np.int64)
    said = {rule: predicted(row, rule, cases) for rule in candidates(row, size)}
    missed = {rule: int((values[steady] != known).sum()) for rule, values in said.items()}
    best, *others = sorted(said, key=lambda rule: missed[rule] * (1 + rule.idle))
    differing = [rule for rule in others if (said[rule] != said[best]).any()] or [best]
    misfits = np.flatnonzero(steady & (said[best] != found.round())).tolist()
    spread = float(((found - found.mean()) ** 2).sum())
    r2 = 1 - float(((found - said[best]) ** 2).sum()) / spread if spread else 1.0
    return Fitted(best, list(phases), cases, found, steady, misfits, r2, (differing[0], missed[differing[0]]))


def candidates(row: SharedAccess, size: int) -> list[BankRule]:
    """Every rule of phases of `size` lanes, the simplest first."""
    joins = [size << j for j in range(6) if size << j <= min(row.lanes, WARP)]
    ways = WAYS if row.has_source else WAYS[:2]
    return [BankRule(size, joined, passes, idle) for idle, joined, passes in product((False, True), joins, ways)]


def predicted(row: SharedAccess, rule: BankRule, cases: Cases) -> Ints:
    """Cycles that a rule says of each pattern."""
    return cycles(row, rule, cases.address, cases.source if rule.passes == "order" else None)


def sweep(clock: Clock, rows: Iterable[SharedAccess], count: int, shared_bytes: int) -> dict[str, Fitted | str]:
    """Every access: what was fitted, or why it could not be measured."""
    wanted = {row.name: banks.kernel(row) for row in rows}
    refused = clock.load(list(wanted.values()))
    found: dict[str, Fitted | str] = {}
    for name, timed in wanted.items():
        row = accesses()[name]
        try:
            found[name] = refused.get(timed.name) or _one(clock, row, count, shared_bytes)
        except ProbeError as error:
            found[name] = str(error)
    return found


def _one(clock: Clock, row: SharedAccess, count: int, shared_bytes: int) -> Fitted:
    swapped, _ = measure(clock, row, swaps := banks.swaps(row), shared_bytes)
    phases = banks.phases(row, swapped)
    other = costly(row, count)
    cases = Cases(*(np.concatenate(both) for both in zip(swaps, other, strict=True)))
    return fit(row, phases, cases, measure(clock, row, cases, shared_bytes))


def report(found: Mapping[str, Fitted | str]) -> dict[str, Any]:
    """Plain data of a sweep, with its totals."""
    fitted = {name: fit for name, fit in found.items() if isinstance(fit, Fitted)}
    rows = {name: fit.to_json(accesses()[name]) for name, fit in fitted.items()}
    totals = {key: sum(row[key] for row in rows.values()) for key in ("patterns", "ambiguous", "misfits")}
    return {**totals, "accesses": rows, "failed": {n: words for n, words in found.items() if isinstance(words, str)}}


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
    found = sweep(gpu, rows, count, shared_bytes)
    hashed = ptx_hash([banks.kernel(access) for access in rows])
    return row, {"device": device.name, "driver": device.driver, "cuda": device.cuda, "compiler": device.compiler,
                 "ptx": hashed, "tcprobe": __version__}, found  # fmt: skip


def measured(index: int, count: int = PATTERNS, folder: Path | None = None) -> dict[str, Any]:
    """The report of one GPU, saved in a folder if one is named; EnvironmentUnfitError without a GPU."""
    from tcprobe.store.results import Results

    row, provenance, found = on_gpu(index, count)
    said = report(found)
    if said["failed"]:
        name, words = next(iter(said["failed"].items()))
        raise ProbeError(f"{len(said['failed'])} of {len(found)} accesses could not be timed, first {name}: {words}")
    if folder:
        Results(folder).write_banks(row.name, document(row.name, provenance, said["accesses"]))
    return {"arch": row.name, "provenance": provenance, **said}


@click.command()
@click.option("--device", "index", type=int, default=0, show_default=True, metavar="N", help="GPU number N.")
@click.option("--patterns", "count", type=click.IntRange(1, 100_000), default=PATTERNS, show_default=True,
              help="Of each access, beside the swap test.")  # fmt: skip
@click.option("--results", "folder", type=click.Path(path_type=Path, file_okay=False), help="Save the rule here.")
def main(index: int, count: int, folder: Path | None) -> None:
    """Time every access of shared memory on a GPU and fit the rule of its banks."""
    try:
        click.echo(json.dumps(measured(index, count, folder)))
    except (TcprobeError, BackendFaultError) as error:
        click.echo(f"Error: {error}", err=True)
        raise SystemExit(getattr(error, "exit_code", 1)) from None


if __name__ == "__main__":
    main()
