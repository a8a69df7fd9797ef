"""A contribution: what the GPUs of a machine show in the time given, in one file that `tcprobe merge` takes.

Each kind of GPU is measured once. First comes what is only documented of its arch, or read from machine code; then what
other GPUs of the arch showed already. Findings are saved one by one in a folder, so that a contribution which was
stopped is continued. The file is read back as a stranger's before it counts.
"""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

from tcprobe.errors import EnvironmentUnfitError
from tcprobe.isa.arch import BY_NAME, arch
from tcprobe.probes import dialogues, experiments
from tcprobe.run.backend import Device, live_worker
from tcprobe.run.merge import Conflict, accept, conflicts_with, measured_findings, own, write_report
from tcprobe.run.runner import JobEnd, Probe, Session, kind_of, measure, missing
from tcprobe.store import kinds
from tcprobe.store.measurement import TABLE
from tcprobe.store.results import Results, published
from tcprobe.text import escaped
from tcprobe.values import Json

MOST_FILE = 1 << 20  # bytes of a contribution
SHOWN = 5  # contradictions that are told in words
# what a kernel author asks first; kinds that are not named come last
ORDER = (TABLE, "numerics", "descriptors", "tensor_memory", "tensor_maps", "banks", "cost")


class Contribution(NamedTuple):
    """What was written: the file, its GPUs, and how many findings it has, by what they say beside what is published.

    Of the findings `measured`, `agrees` were published of the arch before and are the same, `contradicts` differ, and
    `new` were not published. `refused` and `failed` are not in the file. `left` was not tried, for want of time.
    """

    file: Path
    devices: list[Device]
    measured: int
    agrees: int
    contradicts: int
    new: int
    refused: int
    failed: int
    left: int
    conflicts: list[Conflict]

    def to_json(self) -> Json:
        """The file and the counts."""
        counted = self._asdict() | {"file": str(self.file), "devices": [device.name for device in self.devices]}
        return counted | {"conflicts": [str(conflict) for conflict in self.conflicts]}

    @property
    def in_words(self) -> Iterator[str]:
        """The counts, what is contradicted, and what to do with the file."""
        for device in self.devices:
            yield f"{device.name} ({device.arch}), driver {device.driver}, CUDA {device.cuda}"
        size = self.file.stat().st_size
        yield (
            f"measured {self.measured} findings: {self.new} new, {self.agrees} agree with what is published, "
            f"{self.contradicts} contradict it"
        )
        if self.refused or self.failed:
            yield f"not in the file: {self.refused} refused by the compiler or driver, {self.failed} failed"
        if self.left:
            yield f"not tried, for want of time: {self.left}; the same command goes on with them"
        yield from (escaped(f"contradicts: {conflict}") for conflict in self.conflicts[:SHOWN])
        if len(self.conflicts) > SHOWN:
            yield f"and {len(self.conflicts) - SHOWN} more, which --json lists"
        yield escaped(
            f"written: {self.file}, {size / 1000:.0f} kB. Send it: attach it to an issue of tcprobe's repository."
        )


class Request(NamedTuple):
    """How: the file, the folder that keeps what is measured, and how long all of it and one launch may take."""

    file: Path
    folder: Path
    minutes: float
    limit: float
    say: Callable[[str], None]
    tick: Callable[[int, str | None], None]


def contribute(request: Request) -> Contribution:
    """Measure, compare with what is published, and write the file.

    EnvironmentUnfitError where there is no GPU of a known arch, or nothing was measured.
    """
    end = time.monotonic() + 60 * request.minutes
    worker = live_worker(None, request.limit)
    with Session(worker) as session:
        found = session.devices
    devices = list({(device.name, device.arch): device for device in found if device.arch in BY_NAME}.values())
    if not devices:
        listed = ", ".join(f"{device.name} ({device.arch})" for device in found) or "none"
        raise EnvironmentUnfitError(f"no GPU with tensor cores that tcprobe knows; there are: {listed}.")
    outcomes: Counter[str] = Counter()
    folders = []
    for number, device in enumerate(devices):
        seconds = max(end - time.monotonic(), 0) / (len(devices) - number)
        request.say(f"{device.name} ({device.arch}), driver {device.driver}: at most {seconds / 60:.1f} minutes")
        folders.append(
            Results(request.folder / re.sub(r"[^a-z0-9.]+", "-", f"{device.name} {device.arch}".lower()).strip("-."))
        )
        folders[-1].sweep()
        outcomes.update(_measure(request, device, folders[-1], time.monotonic() + seconds))
    measured = [finding for folder in folders for finding in own(folder) if finding.method == "live"]
    if not measured:
        raise EnvironmentUnfitError(f"nothing was measured, so {request.file} was not written.")
    write_report(request.file, measured)
    if (size := request.file.stat().st_size) > MOST_FILE:
        raise EnvironmentUnfitError(f"{request.file} has {size} bytes, more than the {MOST_FILE} of a contribution.")
    return _compared(request.file, devices, outcomes)


def _measure(request: Request, device: Device, results: Results, end: float) -> Iterator[str]:
    """Measure until a time; gives the status of each finding, "left" of each experiment that was not tried."""
    worker = live_worker(None, request.limit)
    for batch in batches(device):
        todo, complaints = missing(batch, device, results)
        for complaint in complaints:
            request.say(f"measured again, because it cannot be trusted: {complaint}")
        request.tick(len(todo), None)
        tried = 0
        if todo and time.monotonic() < end:
            with Session(worker) as session, ExitStack() as stack:
                arriving = measure(session, device, todo, results)
                stack.callback(arriving.close)
                for finding in (one for one in arriving if not isinstance(one, JobEnd)):
                    tried += 1
                    request.tick(0, f"{device.arch} {finding.key.subject}")
                    yield finding.status
                    if time.monotonic() > end:
                        break
        yield from ["left"] * (len(todo) - tried)


def batches(device: Device) -> list[list[Probe]]:
    """All that an arch can show, in lists of one kind each: first what nobody published of a GPU of the arch."""
    row, groups = arch(device.arch), dict[tuple[bool, int, str], list[Probe]]()
    probes: list[Probe] = [one for one in experiments().values() if all(f.target.on(row) for f in one.fragments)]
    probes += [one for kind in kinds.names() for one in dialogues(kind).values() if one.target.on(row)]
    seen = {(f.key.kind, f.key.subject) for f in measured_findings(published(), (row.name,)) if f.method == "live"}
    for probe in probes:
        kind = kind_of(probe)
        place = ORDER.index(kind) if kind in ORDER else len(ORDER)
        groups.setdefault(((kind, probe.id) in seen, place, kind), []).append(probe)
    return [groups[key] for key in sorted(groups)]


def _compared(file: Path, devices: list[Device], outcomes: Counter[str]) -> Contribution:
    """The contribution of a file, read back as a stranger's, beside what is published of its archs."""
    findings = accept(file, None)
    before = list(measured_findings(published(), {finding.arch for finding in findings}))
    conflicts = list(conflicts_with(before, findings))
    contradicting = {id(conflict.other) for conflict in conflicts}
    known = {finding.key._replace(method="") for finding in before}
    agreeing = [f for f in findings if id(f) not in contradicting and f.key._replace(method="") in known]
    return Contribution(
        file,
        devices,
        measured=len(findings),
        agrees=len(agreeing),
        contradicts=len(contradicting),
        new=len(findings) - len(agreeing) - len(contradicting),
        refused=outcomes["refused"],
        failed=outcomes["failed"],
        left=outcomes["left"],
        conflicts=conflicts,
    )
