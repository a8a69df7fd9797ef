"""A run over many machines: each kind of GPU once, each compiler and arch once; all findings are merged here.

A `Crew` is the machines, such as the workers of a Dask scheduler (`tcprobe.run.fleet_dask`). A machine says what it
has (`offer`), then makes single runs, as many at a time as it takes (`single_run`); who is done first gets the next. A
machine that is lost costs only the run that it was at, which another makes. What a folder has by the very GPU or
compiler goes along with a run, which continues it as a single run does.

Jobs are single runs, each of one kind of GPU (a name and an arch) or of one arch's machine code by one compiler; they
follow from the offers. Only text travels back, and it is untrusted: sizes and shapes are checked, reports as `merge`
checks files, and their findings must be of their own job. A machine whose report is refused gets no more jobs, and what
came from it before is measured elsewhere.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NamedTuple, Protocol, TypeVar

import msgspec

from tcprobe import __version__
from tcprobe.errors import DataError, EnvironmentUnfitError, UsageError, understood
from tcprobe.isa import arch
from tcprobe.probes.experiment import Dialogue
from tcprobe.question.answers import plain
from tcprobe.run import merge
from tcprobe.run.backend import Device, live_worker
from tcprobe.run.campaign import DeviceReport, ExperimentAnswer, Request, select
from tcprobe.run.merge import MOST_BYTES, Conflict, measured_findings, take
from tcprobe.run.runner import Session
from tcprobe.sass import toolchain
from tcprobe.store import findings
from tcprobe.store.finding import FROM_CODE, made_by
from tcprobe.store.results import Results
from tcprobe.system import files
from tcprobe.system.children import Scratch, one_line
from tcprobe.values import Json

PROGRAM = (sys.executable, "-m", "tcprobe")  # what makes a single run
MOST_SECONDS = 6 * 3600.0  # for one run; what hangs inside it is stopped much earlier, by its own limit


class OfferedCompiler(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A toolkit as a machine finds it: `cuda` is its folder ("": the installed one), `name` as in findings."""

    cuda: str
    name: str
    archs: list[str]


class Offer(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a machine has: the version of tcprobe, GPUs, compilers; `words` say why it lacks any of these."""

    tcprobe: str
    devices: list[Device]
    compilers: list[OfferedCompiler]
    words: list[str]


class RunAnswer(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The text of a run's report, None if it wrote none; its exit code, and the last line that it printed."""

    report: str | None
    code: int
    words: str


def offer(toolkit_folders: Sequence[str], limit: float) -> str:
    """An `Offer` as JSON. "" in `toolkit_folders` is the installed one; a tool's call may take `limit` seconds."""
    compilers, words = [], []
    for folder in toolkit_folders:
        try:
            tools = toolchain.find(Path(folder) if folder else None, limit)
            compilers.append(OfferedCompiler(folder, tools.name, [row.name for row in tools.archs]))
        except Exception as error:
            words.append(str(understood(error)))
    devices: list[Device] = []
    try:
        ptxas = toolchain.compiler(Path(toolkit_folders[0])) if toolkit_folders and toolkit_folders[0] else None
        with Session(live_worker(ptxas, limit)) as session:
            devices = session.devices
    except Exception as error:
        words.append(str(understood(error)))
    return msgspec.json.encode(Offer(__version__, devices, compilers, words)).decode()


def single_run(arguments: Sequence[str], known_report: str = "") -> str:
    """A `RunAnswer` as JSON, of `tcprobe run ARGUMENTS` in a temporary folder.

    The run continues from the findings of `known_report`, unless that is "".
    """
    try:
        with Scratch() as scratch:
            path, folder = scratch.folder / "report.json", scratch.folder / "results"
            if known_report:
                path.write_text(known_report, encoding="utf-8")
                with merge.open_report(path) as source:
                    findings.save_all(Results(folder), merge.own(source))
                path.unlink()
            places = ["--results", str(folder), "--report", str(path)]
            completed = scratch.call([*PROGRAM, "run", *places, *arguments], MOST_SECONDS)
            raw = files.read(path, MOST_BYTES)
        last_line = one_line(completed.stderr.strip().rpartition("\n")[2])
        answer = RunAnswer(None if raw is None else merge.unpacked(raw).decode(), completed.returncode, last_line)
    except Exception as error:
        answer = RunAnswer(None, 70, one_line(str(understood(error))))
    return msgspec.json.encode(answer).decode()


MOST_OFFER = 1 << 20  # characters of an offer
MOST_ANSWER = 3 * (64 << 20)  # characters of an answer, whose report stands in it as a text
MOST_PARTS = 1000  # GPUs of a machine, toolkits, archs
Answer = TypeVar("Answer", Offer, RunAnswer)
METHODS = {"live": ("live",), "sass": FROM_CODE}  # of findings, by method of a run


class JobKey(NamedTuple):
    """What is measured once: the method, its `maker` (the name of a GPU or of a compiler), and the arch."""

    method: str
    maker: str
    arch: str

    def __str__(self) -> str:
        return f"{self.arch} {'of' if self.method == 'live' else 'by'} {self.maker}"


@dataclass(frozen=True)
class FleetJob:
    """A single run. `able`: by machine, the arguments of `tcprobe run` there and the device that findings will name."""

    key: JobKey
    able: Mapping[str, tuple[tuple[str, ...], Device]]


def decode(reply: object, statement: type[Answer]) -> Answer:
    """A machine's reply as a `statement`; DataError if it is none."""
    most = MOST_OFFER if statement is Offer else MOST_ANSWER
    if not isinstance(reply, str) or len(reply) > most:
        raise DataError(f"no answer, or one of more than {most} characters.")
    try:
        answer = msgspec.json.decode(reply, type=statement)
    except (msgspec.DecodeError, msgspec.ValidationError, RecursionError) as error:
        raise DataError(f"not an answer of tcprobe: {error}.") from None
    if isinstance(answer, Offer):
        _check_offer(answer)
    return answer


def _check_offer(offered: Offer) -> None:
    """DataError if versions of tcprobe differ, the offer is too long, or a GPU's description cannot be true."""
    if offered.tcprobe != __version__:
        raise DataError(f"it has tcprobe {offered.tcprobe}, this machine has {__version__}: install the same version.")
    counts = [
        len(offered.devices),
        len(offered.compilers),
        len(offered.words),
        *(len(c.archs) for c in offered.compilers),
    ]
    if max(counts) > MOST_PARTS:
        raise DataError(f"it offers more than {MOST_PARTS} devices, compilers or archs.")
    if any(device.method != "live" for device in offered.devices):
        raise DataError("it offers a device that is not a GPU.")


def jobs(request: Request, toolkit_folders: Sequence[str], offers: Mapping[str, Offer]) -> dict[JobKey, FleetJob]:
    """All jobs by key that the machines' offers allow; "" in `toolkit_folders` is the installed one.

    UsageError for an unknown arch.
    """
    live = dict(_live(request, offers)) if request.method != "sass" else {}
    if request.method == "live" or (request.method == "auto" and live and request.arch != "all"):
        return live
    measured = {key.arch for key in live}
    return live | {k: job for k, job in _from_code(request, toolkit_folders, offers) if k.arch not in measured}


def _live(request: Request, offers: Mapping[str, Offer]) -> Iterator[tuple[JobKey, FleetJob]]:
    """Each kind of GPU of a known arch, with the machines that have one."""
    kinds: dict[JobKey, dict[str, tuple[tuple[str, ...], Device]]] = {}
    known_archs = {row.name for row in arch.ARCHS}
    archs = known_archs if request.arch in (None, "all") else {arch.arch(request.arch or "").name}
    for address, offered in offers.items():
        for device in offered.devices:
            if device.arch in archs & known_archs:
                cuda = ("--cuda", str(request.cuda)) if request.cuda else ()
                words = _words(request, "--method", "live", "--device", str(device.index), *cuda)
                kinds.setdefault(JobKey("live", device.name, device.arch), {}).setdefault(address, (words, device))
    for key, able in sorted(kinds.items()):
        yield key, FleetJob(key, able)


def _from_code(
    request: Request, toolkit_folders: Sequence[str], offers: Mapping[str, Offer]
) -> Iterator[tuple[JobKey, FleetJob]]:
    """Each compiler and arch, the compilers in the order in which they were named."""
    only = None if request.arch in (None, "all") else arch.arch(request.arch or "").name
    for folder in toolkit_folders:
        kinds: dict[JobKey, dict[str, tuple[tuple[str, ...], Device]]] = {}
        for address, offered in offers.items():
            for tools in (compiler for compiler in offered.compilers if compiler.cuda == folder):
                for name in (name for name in tools.archs if only in (None, name)):
                    cuda = ("--cuda", folder) if folder else ()
                    words = _words(request, "--method", "sass", "--arch", name, *cuda)
                    device = Device(0, "machine code", name, "none", "none", tools.name, "sass")
                    kinds.setdefault(JobKey("sass", tools.name, name), {})[address] = (words, device)
        for key, able in sorted(kinds.items()):
            yield key, FleetJob(key, able)


def _words(request: Request, *options: str) -> tuple[str, ...]:
    """The arguments of `tcprobe run` for a job of a request."""
    family = ("--family", request.family) if request.family else ()
    return ("--limit", f"{request.limit:g}", *family, *options, "--", *request.patterns)


def known_findings(job: FleetJob, machine: str, saved_findings: Iterable[merge.AnySaved]) -> list[merge.AnySaved]:
    """The saved findings of a job's own device that are up to date: its run need not measure them again."""
    device = job.able[machine][1]
    methods = METHODS[job.key.method]
    own = [
        f
        for f in saved_findings
        if (f.arch, made_by(f)) == (job.key.arch, tuple(device.maker.values())) and f.method in methods
    ]
    return [finding for finding in own if merge.made_by_probe(finding)]


def findings_of(job: FleetJob, machine: str, text: str) -> list[merge.AnySaved]:
    """The findings of a machine's report, checked like any untrusted file; DataError also if one is not of this job."""
    device = job.able[machine][1]
    with tempfile.TemporaryDirectory(prefix="tcprobe-") as folder:
        path = Path(folder, "report.json")
        path.write_bytes(text.encode(errors="replace"))
        try:
            findings = merge.accept(path, Results(Path(folder, "none"))).findings
        except (DataError, UsageError) as error:
            raise DataError(str(error).replace(f"{path}", "its report")) from None
    arch_and_maker = (job.key.arch, tuple(device.maker.values()))
    for finding in findings:
        if finding.method not in METHODS[job.key.method] or (finding.arch, made_by(finding)) != arch_and_maker:
            raise DataError(f"its report has {finding.key.subject} of a different run than the one it was asked for.")
    return findings


MOST_TRIES = 3  # machines that are tried for a job
STEP = 0.5  # seconds between two looks at which machines are there


class LostMachineError(Exception):
    """A machine is gone, or its work ended without an answer."""


class Crew(Protocol):
    """Machines that make runs. An address names a machine, a ticket a call that a machine makes."""

    def slots(self) -> Mapping[str, int]:
        """By address of each present machine, how many runs it takes at a time."""

    def give(self, address: str, work: Callable[..., str], *arguments: object) -> str:
        """Have a machine call a function of this package; returns the call's ticket."""

    def answers(self, seconds: float) -> Iterable[tuple[str, object]]:
        """Finished tickets, after at most `seconds`, each with the function's answer or a LostMachineError."""

    def drop(self, ticket: str) -> None:
        """Forget a ticket."""


@dataclass
class JobOutcome:
    """The outcome of a job: a machine's findings, or none; `kept` counts those known before; complaints."""

    key: JobKey
    machine: str | None = None
    findings: list[merge.AnySaved] = field(default_factory=list)
    kept: int = 0
    new: list[merge.AnySaved] = field(default_factory=list)  # the findings that merging added
    complaints: list[str] = field(default_factory=list)
    refused_by: set[str] = field(default_factory=set)
    words: str | None = None  # why the job is given up

    @property
    def settled(self) -> bool:
        """Whether the job is done or given up."""
        return self.machine is not None or self.words is not None

    def to_json(self) -> Json:
        return plain(self.answer)

    @property
    def answer(self) -> DeviceReport:
        """As of a single run (`campaign.Report`), with the machine that made it, None where it failed."""
        origin = self.findings[0].provenance if self.findings else {}
        return DeviceReport.of(
            self,
            device=origin.get("device", self.key.maker),
            arch=self.key.arch,
            method=self.key.method,
            **{name: origin.get(name) for name in ("compiler", "driver", "cuda")},
            experiments=[ExperimentAnswer(f.key.subject, f.status, f.words) for f in self.new],
            complaints=self.complaints if self.words is None else [*self.complaints, f"given up: {self.words}"],
            contradictions=[],
            unchecked=[],
            machine=self.machine,
        )


@dataclass
class Fleet:
    """A request that a crew carries out; "" in `toolkit_folders` is the installed one; `patience` seconds without
    any machine that could do a job before it is given up. `say` gets lines of talk.
    """

    crew: Crew
    request: Request
    toolkit_folders: Sequence[str]
    say: Callable[[str], None] = lambda _: None
    patience: float = 60.0
    offers: dict[str, Offer] = field(default_factory=dict)
    distrusted: set[str] = field(default_factory=set)
    outcomes: dict[JobKey, JobOutcome] = field(default_factory=dict)
    _jobs: dict[JobKey, FleetJob] = field(default_factory=dict)
    _before: list[merge.AnySaved] = field(default_factory=list)  # of the folder; none if all is measured again
    _tickets: dict[str, tuple[str, JobKey | None]] = field(default_factory=dict)  # open: machine, job (None: an offer)
    _seen: set[str] = field(default_factory=set)
    _unplanned: bool = False  # whether an offer came that no job follows from yet
    _idle_since: float = field(default_factory=time.monotonic)

    def run(self, results: Results) -> tuple[list[JobOutcome], list[Conflict]]:
        """Make all jobs; merges the findings that arrived, even if it is interrupted.

        EnvironmentUnfitError if no machine can make any job; DataError if the folder has files that cannot be trusted.
        """
        self.request = _with_method(self.request)
        before = list(measured_findings(results))
        self._before = [] if self.request.force else before
        try:
            while True:
                run_slots = self.crew.slots()
                self._lose(run_slots)
                self._hand_out(run_slots)
                if self._over():
                    break
                for ticket, answer in self.crew.answers(STEP):
                    self._take(ticket, answer)
            if not self.outcomes:
                words = "; ".join(dict.fromkeys(w for reply in self.offers.values() for w in reply.words))
                raise EnvironmentUnfitError(
                    f"no machine of the fleet has what this needs: {words or 'the fleet is empty'}."
                )
        finally:
            conflicts = self._merge(results)
        return list(self.outcomes.values()), conflicts

    def _over(self) -> bool:
        """Whether no ticket is open and every job settled; gives up jobs that no machine can make after `patience`."""
        waiting = [outcome for outcome in self.outcomes.values() if not outcome.settled]
        if self._tickets:
            self._idle_since = time.monotonic()
            return False
        if time.monotonic() - self._idle_since < self.patience and (waiting or not self.offers):
            return False
        for late_outcome in waiting:
            late_outcome.words = "no machine is left that could do it"
        return True

    def _lose(self, run_slots: Mapping[str, int]) -> None:
        """Take back the tickets of machines that are gone; a machine that comes back is asked for its offer again."""
        for ticket, (machine, _) in list(self._tickets.items()):
            if machine not in run_slots:
                self.crew.drop(ticket)
                self._take(ticket, LostMachineError("it was lost"))
        self._seen &= set(run_slots)

    def _hand_out(self, run_slots: Mapping[str, int]) -> None:
        """Ask new machines for offers; give the others as many jobs as they take."""
        for machine in [address for address in run_slots if address not in self._seen | self.distrusted]:
            self._seen.add(machine)
            ticket = self.crew.give(machine, offer, list(self.toolkit_folders), self.request.limit)
            self._tickets[ticket] = machine, None
        if self._unplanned and all(key is not None for _, key in self._tickets.values()):
            self._jobs |= jobs(self.request, self.toolkit_folders, self.offers)
            self.outcomes |= {key: JobOutcome(key) for key in self._jobs if key not in self.outcomes}
            self._unplanned = False
        busy = Counter(machine for machine, _ in self._tickets.values())
        for machine, most in run_slots.items():
            for _ in range(max(most, 1) - busy[machine]):
                key = self._next(machine)
                if key is None:
                    break
                known = known_findings(self._jobs[key], machine, self._before)
                arguments, _ = self._jobs[key].able[machine]
                known_report = merge.report_text(known) if known else ""  # from which the run continues
                ticket = self.crew.give(machine, single_run, list(arguments), known_report)
                self._tickets[ticket] = machine, key

    def _next(self, machine: str) -> JobKey | None:
        """The first waiting job that a machine can make; None if there is none."""
        open_jobs = {key for _, key in self._tickets.values()}
        for key, job in self._jobs.items():
            outcome = self.outcomes[key]
            if not outcome.settled and key not in open_jobs and machine in job.able.keys() - outcome.refused_by:
                return key
        return None

    def _take(self, ticket: str, reply: object) -> None:
        """Take the answer to a ticket."""
        machine, key = self._tickets.pop(ticket)
        if isinstance(reply, LostMachineError):
            if key is not None:
                self._complain(self.outcomes[key], machine, str(reply), again=True)
            return
        try:
            if key is None:
                offered = self.offers[machine] = decode(reply, Offer)
                self._unplanned = True
                parts = [*(f"{d.name} ({d.arch})" for d in offered.devices), *(c.name for c in offered.compilers)]
                self.say(f"{machine}: {', '.join(parts) or 'neither a GPU nor a compiler'}.")
            else:
                self._take_report(self.outcomes[key], machine, decode(reply, RunAnswer))
        except DataError as error:
            self.say(f"{machine}: {error} It gets no more jobs.")
            if key is not None:
                self._complain(self.outcomes[key], machine, str(error))
            self._distrust(machine)

    def _take_report(self, job_outcome: JobOutcome, machine: str, run_answer: RunAnswer) -> None:
        if run_answer.report is None:
            self._complain(job_outcome, machine, f"code {run_answer.code}: {run_answer.words}")
            return
        job_outcome.findings = findings_of(self._jobs[job_outcome.key], machine, run_answer.report)
        job_outcome.machine = machine
        self.say(f"{job_outcome.key}: {len(job_outcome.findings)} findings, from {machine}.")

    def _complain(self, job_outcome: JobOutcome, machine: str, words: str, again: bool = False) -> None:
        """Note that a machine did not make a job; others try it, and with `again` this machine too."""
        job_outcome.complaints.append(f"{machine}: {words}")
        if not again:
            job_outcome.refused_by.add(machine)
        able = self._jobs[job_outcome.key].able.keys() - job_outcome.refused_by
        if len(job_outcome.complaints) >= MOST_TRIES or not able:
            job_outcome.words = job_outcome.complaints[-1]

    def _distrust(self, machine: str) -> None:
        """Give a machine no more jobs; others repeat those that it made."""
        self.distrusted.add(machine)
        for job_outcome in self.outcomes.values():
            job_outcome.refused_by.add(machine)
            if job_outcome.machine == machine:
                job_outcome.machine, job_outcome.findings = None, []
                self._complain(job_outcome, machine, "another report of it was refused")

    def _merge(self, results: Results) -> list[Conflict]:
        """Merge all findings in the order of the jobs, not of arrival; returns the contradictions."""
        conflicts: list[Conflict] = []
        for job_outcome in sorted(self.outcomes.values(), key=lambda outcome: outcome.key):
            if job_outcome.findings:
                merged = take(job_outcome.findings, results)
                job_outcome.kept, job_outcome.new = merged.known, merged.new
                conflicts += merged.conflicts
        return conflicts


def _with_method(request: Request) -> Request:
    """The request, with method live if it is for dialogues alone; UsageError for these with method sass."""
    only_live = all(isinstance(experiment, Dialogue) for experiment in select(request.patterns, request.family))
    if only_live and request.method == "sass":
        raise request.needs_gpu()
    return replace(request, method="live") if only_live else request
