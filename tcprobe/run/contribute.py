"""A contribution: what the GPUs of a machine show in the time given, in one file that `tcprobe merge` takes.

Each kind of GPU is measured once. First come tables, on which all else rests, and of each kind what is only documented
of the arch; last what other GPUs of the arch showed already, of which some kinds are measured at the same time, by a
process each. A family whose kernels fail one after the other waits until everything else is done. Findings are saved
one by one in a folder, so that a contribution which was stopped goes on. In the end multiplies are verified (`tcprobe
verify`, in a process that can be lost), while the file is written and read back as an untrusted file.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass, field
from functools import cache
from itertools import zip_longest
from pathlib import Path
from queue import SimpleQueue
from typing import Annotated, NamedTuple

from tcprobe.errors import EnvironmentUnfitError
from tcprobe.isa.arch import BY_NAME, arch
from tcprobe.probes import dialogues, experiments
from tcprobe.question.answers import Answer, Meta, plain
from tcprobe.run import backend
from tcprobe.run.backend import Device, Relay, Worker
from tcprobe.run.merge import (
    AnySaved,
    Conflict,
    accept,
    conflicts_with,
    measured_findings,
    own,
    subject_of,
    write_report,
)
from tcprobe.run.runner import JobEnd, Probe, Session, TimeUpError, kind_of, measure, missing
from tcprobe.run.verify import verifiable
from tcprobe.store import kinds
from tcprobe.store.finding import FROM_CODE, TABLE
from tcprobe.store.results import Results, published
from tcprobe.system import children
from tcprobe.text import escaped
from tcprobe.values import Json

MOST_FILE = 1 << 20  # bytes of a contribution
SHOWN = 5  # contradictions that are told in words
# what a kernel author asks first; kinds that are not named come last
ORDER = (TABLE, "numerics", "descriptors", "tensor_memory", "tensor_maps", "banks", "cost")
# kinds that time nothing on the GPU, which for them is idle most of the time: seconds of an experiment, about
BESIDE = {"numerics": 0.25, "descriptors": 0.1, "tensor_memory": 0.05, "tensor_maps": 0.5, "undocumented": 0.02}
CORES = 3  # for each process at the same time
MOST_BESIDE = 6  # processes
IN_A_ROW = 3  # failures of a family, after which the rest of it waits
WRITING = 10  # of so many parts of the time one is for writing and verifying
VERIFY = (sys.executable, "-m", "tcprobe", "verify", "--json")


Count = Annotated[int, Meta(ge=0)]


class ContributionAnswer(Answer):
    """A file for `tcprobe merge`: how many findings it has, beside what is published."""

    file: str
    devices: list[str]
    measured: Count
    agrees: Count
    contradicts: Count
    new: Count
    refused: Count
    failed: Count
    left: Annotated[int, Meta(ge=0, description="not tried, for want of time")]
    beyond: Annotated[int, Meta(ge=0, description="not in the file, which is to have at most 1 MiB")]
    verified: Annotated[int, Meta(ge=0, description="multiplies that were verified with these tables")]
    wrong: Annotated[list[str], Meta(description="those of them that did not come out right")]
    conflicts: list[str]
    seconds: Annotated[dict[str, float], Meta(description="how long each kind took, and writing and verifying")]


class Contribution(NamedTuple):
    """What was written: the file, its GPUs, and how many findings it has, by what they say beside what is published.

    Of the findings `measured`, `agrees` were published of the arch before and are the same, `contradicts` differ, and
    `new` were not published. `refused` and `failed` are not in the file, nor are those that are `beyond` its size.
    `left` was not tried, for want of time. `verified` counts multiplies, of which those in `wrong` did not come out
    right, by the emitted code with what was measured. `seconds` says how long each kind took, and what came after.
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
    beyond: int
    verified: int
    wrong: list[str]
    conflicts: list[Conflict]
    seconds: dict[str, float]

    def to_json(self) -> Json:
        """The file and the counts."""
        answer = ContributionAnswer.of(
            self,
            file=str(self.file),
            devices=[device.name for device in self.devices],
            conflicts=[str(conflict) for conflict in self.conflicts],
        )
        return plain(answer)

    @property
    def in_words(self) -> Iterator[str]:
        """The counts, what is contradicted, and what to do with the file."""
        for device in self.devices:
            yield f"{device.name} ({device.arch}), driver {device.driver}, CUDA {device.cuda}"
        yield (
            f"measured {self.measured} findings: {self.new} new, {self.agrees} agree with what is published, "
            f"{self.contradicts} contradict it"
        )
        if self.refused or self.failed:
            yield f"not in the file: {self.refused} refused by the compiler or driver, {self.failed} failed"
        if self.beyond:
            yield f"not in the file, which is to have at most {MOST_FILE >> 20} MiB: {self.beyond} that are known"
        if self.left:
            yield f"not tried, for want of time: {self.left}; the same command goes on with them"
        if self.verified:
            yield f"verified: {self.verified - len(self.wrong)} of {self.verified} multiplies are right by these tables"
        yield from (escaped(f"WRONG by these tables: {name}") for name in self.wrong[:SHOWN])
        yield from (escaped(f"contradicts: {conflict}") for conflict in self.conflicts[:SHOWN])
        if len(self.conflicts) > SHOWN:
            yield f"and {len(self.conflicts) - SHOWN} more, which --json lists"
        yield escaped(
            f"written: {self.file}, {self.file.stat().st_size / 1000:.0f} kB. Send it: attach it to an issue of "
            "tcprobe's repository."
        )


class Request(NamedTuple):
    """How: the file, the folder that keeps what is measured, how long all of it may take, and one launch."""

    file: Path
    folder: Path
    minutes: float
    limit: float
    say: Callable[[str], None]
    tick: Callable[[int, str | None], None]


def contribute(request: Request) -> Contribution:
    """Measure, verify, compare with what is published, and write the file.

    EnvironmentUnfitError where there is no GPU of a known arch, or nothing was measured.
    """
    begun, seconds = time.monotonic(), 60 * request.minutes
    end = begun + seconds
    outcomes: Counter[str] = Counter()
    spent: dict[str, float] = {}
    folders: dict[Device, Results] = {}
    with Relay(backend.COMMAND, request.limit, end - seconds / WRITING) as worker, ExitStack() as verifying:
        first = verifying.enter_context(Session(worker))
        devices = _kinds_of_gpus(first.devices)
        for number, device in enumerate(devices):
            left = max(worker.until - time.monotonic(), 0) / (len(devices) - number)
            request.say(f"{device.name} ({device.arch}), driver {device.driver}: at most {left / 60:.1f} minutes")
            name = re.sub(r"[^a-z0-9.]+", "-", f"{device.name} {device.arch}".lower()).strip("-.")
            folders[device] = Results(request.folder / name)
            folders[device].sweep()
            measuring = Measuring(request, device, folders[device], time.monotonic() + left)
            outcomes.update(measuring.outcomes(worker, None if number else first))
            spent = {kind: spent.get(kind, 0) + measuring.spent.get(kind, 0) for kind in {**spent, **measuring.spent}}
        measured_at = time.monotonic()
        checks = [verifying.enter_context(Verifying(device, folder.root)) for device, folder in folders.items()]
        measured = [finding for folder in folders.values() for finding in own(folder) if finding.method == "live"]
        if not measured:
            raise EnvironmentUnfitError(f"nothing was measured, so {request.file} was not written.")
        outcomes["beyond"] = len(measured) - _write(request.file, measured)
        told = _compared(request.file, devices, outcomes)
        verdicts = [pair for check in checks for pair in check.verdicts(end, request.say).items()]
    spent["writing, verifying"] = time.monotonic() - measured_at
    rounded = {what: round(seconds, 1) for what, seconds in spent.items()}
    return told._replace(verified=len(verdicts), wrong=[name for name, good in verdicts if not good], seconds=rounded)


def _kinds_of_gpus(found: Sequence[Device]) -> list[Device]:
    """One GPU of each kind that tcprobe knows; EnvironmentUnfitError where there is none."""
    devices = list({(device.name, device.arch): device for device in found if device.arch in BY_NAME}.values())
    if not devices:
        listed = ", ".join(f"{device.name} ({device.arch})" for device in found) or "none"
        raise EnvironmentUnfitError(f"no GPU with tensor cores that tcprobe knows; there are: {listed}.")
    return devices


@dataclass
class Measuring:
    """What a GPU is asked until a time, and what still waits."""

    request: Request
    device: Device
    results: Results
    end: float
    waiting: deque[list[Probe]] = field(default_factory=deque)
    spent: dict[str, float] = field(default_factory=dict)  # seconds, by kind

    def outcomes(self, worker: Relay, session: Session | None) -> Iterator[str]:
        """The status of each finding, "left" of each experiment that was not tried. The first goes to `session`."""
        for batch in batches(self.device):
            todo, complaints = missing(batch, self.device, self.results)
            for complaint in complaints:
                self.request.say(f"measured again, because it cannot be trusted: {complaint}")
            self.waiting += [todo] if todo else []
        self.request.tick(sum(map(len, self.waiting)), None)
        while self.waiting and (begun := time.monotonic()) < self.end:
            beside = [batch for batch in self.waiting if self._may_be_beside(batch)]
            if self.waiting[0] in beside:
                what = ", ".join(kind_of(batch[0]) for batch in beside)
                self.waiting = deque(batch for batch in self.waiting if batch not in beside)
                yield from self._side_by_side(worker, beside)
            else:
                what = kind_of(self.waiting[0][0])
                with session or Session(worker) as current:
                    yield from self._measure(worker, current)
                session = None
            self.spent[what] = self.spent.get(what, 0) + time.monotonic() - begun
        yield from ["left"] * sum(map(len, self.waiting))

    def _measure(self, worker: Relay, session: Session) -> Iterator[str]:
        """What waits first: all of it, or until the time is over or a family fails, which then waits as the last."""
        untried = {probe.id: probe for probe in self.waiting.popleft()}
        failures, family = Counter[str](), ""
        arriving = measure(session, self.device, list(untried.values()), self.results)
        try:
            for finding in (one for one in arriving if not isinstance(one, JobEnd)):
                del untried[finding.key.subject]
                family = _family(finding.key.subject)
                self.request.tick(0, f"{self.device.arch} {finding.key.subject}")
                yield finding.status
                failures[family] = failures[family] + 1 if finding.status == "failed" else 0
                if self.waiting or failures[family]:
                    worker.prepare()
                if failures[family] == IN_A_ROW or time.monotonic() > self.end:
                    break
        except TimeUpError:
            pass
        except EnvironmentUnfitError as error:
            self.request.say(str(error))
            yield from ["failed"] * len(untried)
            return
        finally:
            arriving.close()
        late = [probe for probe in untried.values() if failures[family] and _family(probe.id) == family]
        soon = [probe for probe in untried.values() if probe not in late]
        self.waiting.extendleft([soon] if soon else [])
        self.waiting += [late] if late else []

    def _may_be_beside(self, batch: Sequence[Probe]) -> bool:
        """Whether a batch may be measured beside others: a fault there, which might be another's, is not expected."""
        kind, seen = kind_of(batch[0]), _seen_live(self.device.arch)
        return kind in BESIDE and processes() > 1 and all((kind, probe.id) in seen for probe in batch)

    def _side_by_side(self, worker: Relay, beside: Sequence[Sequence[Probe]]) -> Iterator[str]:
        """Batches in parts that take about as long, a process each, those that take longest first."""
        seconds = [BESIDE[kind_of(batch[0])] * len(batch) for batch in beside]
        counts = [max(1, round(part / sum(seconds) * processes())) for part in seconds]
        parts = [batch[n::count] for batch, count in zip(beside, counts, strict=True) for n in range(count)]
        parts.sort(key=lambda part: -BESIDE[kind_of(part[0])] * len(part))
        arrived: SimpleQueue[AnySaved | None] = SimpleQueue()
        with children.threads(processes()) as pool:
            done = [pool.submit(self._part, worker, part, arrived.put) for part in parts]
            for _ in parts:
                while (finding := arrived.get()) is not None:
                    self.request.tick(0, f"{self.device.arch} {finding.key.subject}")
                    yield finding.status
                    worker.prepare()
            tried = sum(future.result() for future in done)
        yield from ["left"] * (sum(map(len, parts)) - tried)

    def _part(self, worker: Relay, part: Sequence[Probe], put: Callable[[AnySaved | None], None]) -> int:
        """Measure a part until the time is over; gives what arrives, then None. Returns how many did."""
        tried = 0
        try:
            own_worker = Worker(worker.command, worker.limit, min(worker.until, self.end))
            arriving = measure(Session(own_worker), self.device, part, Results(self.results.root))
            with closing(arriving):
                for finding in (one for one in arriving if not isinstance(one, JobEnd)):
                    tried += 1
                    put(finding)
        except TimeUpError:
            pass
        except EnvironmentUnfitError as error:
            self.request.say(str(error))
        finally:
            put(None)
        return tried


def processes() -> int:
    """How many measure at the same time."""
    return min(MOST_BESIDE, max(1, (os.cpu_count() or 1) // CORES))


@cache
def _seen_live(name: str) -> frozenset[tuple[str, str]]:
    """(kind, subject) of what is published of GPUs of an arch."""
    return frozenset((f.key.kind, f.key.subject) for f in measured_findings(published(), (name,)) if f.method == "live")


def _family(subject: str) -> str:
    """What probably fails together: tcgen05.ld, mma.m16n8k64."""
    return ".".join(subject.split(".")[:2])


def batches(device: Device) -> list[list[Probe]]:
    """All that an arch can show, in lists of one kind each.

    What nobody published of a GPU of the arch comes before the rest, and of each kind what is only documented before
    what machine code shows.
    """
    row, groups = arch(device.arch), dict[tuple[bool, int, str, bool], list[Probe]]()
    probes: list[Probe] = [one for one in experiments().values() if all(f.target.on(row) for f in one.fragments)]
    probes += [one for kind in kinds.names() for one in dialogues(kind).values() if one.target.on(row)]
    known = {(f.key.kind, f.key.subject, f.method) for f in measured_findings(published(), (row.name,))}
    for probe in probes:
        kind = kind_of(probe)
        place = ORDER.index(kind) if kind in ORDER else len(ORDER)
        live = (kind, probe.id, "live") in known
        in_code = not live and any((kind, probe.id, method) in known for method in FROM_CODE)
        groups.setdefault((live, place, kind, in_code), []).append(probe)
    return [groups[key] for key in sorted(groups)]


class Verifying:
    """`tcprobe verify` of a form of each family and types, with what was measured, in a process of its own."""

    def __init__(self, device: Device, folder: Path) -> None:
        forms = [form for form in verifiable() if form.target.on(arch(device.arch))]
        spread = {(form.family, *(f.type for f in form.fragments)): form for form in reversed(forms)}
        families: dict[str, list[str]] = {}
        for form in reversed(spread.values()):
            families.setdefault(form.family, []).append(form.id)
        names = [id_ for one_of_each in zip_longest(*families.values()) for id_ in one_of_each if id_]
        self._command = [*VERIFY, "--device", str(device.index), "--results", str(folder), *names]

    def __enter__(self) -> Verifying:
        self._output, self._errors = tempfile.TemporaryFile(), tempfile.TemporaryFile()
        pipes = {"stdin": subprocess.DEVNULL, "stdout": self._output, "stderr": self._errors}
        self._process = children.start(self._command, **pipes)
        return self

    def __exit__(self, *_: object) -> None:
        children.end(self._process)
        self._process.wait()
        self._output.close()
        self._errors.close()

    def verdicts(self, end: float, say: Callable[[str], None]) -> dict[str, bool]:
        """Whether each form came out right, of those that are done by `end`; says why none is."""
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(max(end - time.monotonic(), 1))
        self._output.seek(0)
        good: dict[str, bool] = {}
        for verdict in map(json.loads, self._output.read().split(b"\n")[:-1]):
            good[verdict["instruction"]] = verdict["good"] and good.get(verdict["instruction"], True)
        if not good and self._process.returncode is not None:
            self._errors.seek(0)
            say(f"not verified: {children.one_line(self._errors.read().decode(errors='replace'))}")
        return good


def _write(file: Path, measured: Sequence[AnySaved]) -> int:
    """Write findings, without the last of those that are known where they are too many for a file; how many it has."""
    write_report(file, measured)
    if file.stat().st_size > MOST_FILE:
        before = _published(measured)
        contradicting = {id(conflict.other) for conflict in conflicts_with(before, measured)}
        known = {subject_of(finding) for finding in before}
        measured = sorted(measured, key=lambda one: subject_of(one) in known and id(one) not in contradicting)
    while (size := file.stat().st_size) > MOST_FILE:
        measured = measured[: len(measured) * MOST_FILE // (size + size // 20)]
        write_report(file, measured)
    return len(measured)


def _published(findings: Sequence[AnySaved]) -> list[AnySaved]:
    return list(measured_findings(published(), {finding.arch for finding in findings}))


def _compared(file: Path, devices: list[Device], outcomes: Counter[str]) -> Contribution:
    """The contribution of a file, read back as an untrusted file, beside what is published of its archs."""
    findings = accept(file, None).findings
    before = _published(findings)
    conflicts = list(conflicts_with(before, findings))
    contradicting = {id(conflict.other) for conflict in conflicts}
    known = {subject_of(finding) for finding in before}
    agreeing = [f for f in findings if id(f) not in contradicting and subject_of(f) in known]
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
        beyond=outcomes["beyond"],
        verified=0,
        wrong=[],
        conflicts=conflicts,
        seconds={},
    )
