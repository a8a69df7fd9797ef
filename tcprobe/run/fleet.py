"""A run over many machines: each kind of GPU once, each compiler and arch once; all findings are merged here.

A `Crew` is the machines, such as the workers of a Dask scheduler (`tcprobe.run.fleet_dask`). A machine says what it
has, then makes single runs, as many at a time as it takes; who is done first gets the next. A machine that is lost
costs only the run that it was at, which another makes. Reports are taken as `merge` takes a stranger's. A machine whose
report is refused gets no more jobs, and what came from it before is measured elsewhere. What a folder has by
the very GPU or compiler goes along with a run, which continues it as a single run does.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from tcprobe.errors import DataError, EnvironmentUnfitError, UsageError
from tcprobe.probes.experiment import Dialogue
from tcprobe.run import report
from tcprobe.run.campaign import Request
from tcprobe.run.fleet_jobs import FleetJob, JobKey, decode, findings_of, jobs, known_findings
from tcprobe.run.fleet_worker import Offer, RunAnswer, offer, single_run
from tcprobe.run.merge import Conflict, measured_findings, take
from tcprobe.run.selection import in_words, select
from tcprobe.store.results import Results
from tcprobe.values import Json

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
    findings: list[report.AnySaved] = field(default_factory=list)
    kept: int = 0
    new: list[report.AnySaved] = field(default_factory=list)  # the findings that merging added
    complaints: list[str] = field(default_factory=list)
    refused_by: set[str] = field(default_factory=set)
    words: str | None = None  # why the job is given up

    @property
    def settled(self) -> bool:
        """Whether the job is done or given up."""
        return self.machine is not None or self.words is not None

    def to_json(self) -> Json:
        """Plain data, as of a single run (`campaign.Report`), with the machine that made it, None where it failed."""
        origin = self.findings[0].provenance if self.findings else {}
        return {
            "device": origin.get("device", self.key.maker),
            "arch": self.key.arch,
            "method": self.key.method,
            **{name: origin.get(name) for name in ("compiler", "driver", "cuda")},
            "experiments": [{"id": f.key.subject, "status": f.status, "words": f.words} for f in self.new],
            "kept": self.kept,
            "complaints": self.complaints if self.words is None else [*self.complaints, f"given up: {self.words}"],
            "contradictions": [],
            "unchecked": [],
            "machine": self.machine,
        }


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
    _before: list[report.AnySaved] = field(default_factory=list)  # of the folder; none if all is measured again
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
        self._ask(run_slots)
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
                self._tickets[self._start(machine, self._jobs[key])] = machine, key

    def _start(self, machine: str, job: FleetJob) -> str:
        """Have a machine make a job, continuing from the known findings; returns the ticket."""
        known_reports = known_findings(job, machine, self._before)
        arguments, _ = job.able[machine]
        return self.crew.give(machine, single_run, list(arguments), report.text(known_reports) if known_reports else "")

    def _next(self, machine: str) -> JobKey | None:
        """The first waiting job that a machine can make; None if there is none."""
        open_jobs = {key for _, key in self._tickets.values()}
        for key, job in self._jobs.items():
            outcome = self.outcomes[key]
            if not outcome.settled and key not in open_jobs and machine in job.able.keys() - outcome.refused_by:
                return key
        return None

    def _ask(self, run_slots: Mapping[str, int]) -> None:
        """Ask new machines for their offers."""
        for machine in [address for address in run_slots if address not in self._seen | self.distrusted]:
            self._seen.add(machine)
            self._tickets[self.crew.give(machine, offer, list(self.toolkit_folders), self.request.limit)] = (
                machine,
                None,
            )

    def _take(self, ticket: str, reply: object) -> None:
        """Take the answer to a ticket."""
        machine, key = self._tickets.pop(ticket)
        if isinstance(reply, LostMachineError):
            if key is not None:
                self._complain(self.outcomes[key], machine, str(reply), again=True)
            return
        try:
            if key is None:
                self._take_offer(machine, decode(reply, Offer))
            else:
                self._take_report(self.outcomes[key], machine, decode(reply, RunAnswer))
        except DataError as error:
            self.say(f"{machine}: {error} It gets no more jobs.")
            if key is not None:
                self._complain(self.outcomes[key], machine, str(error))
            self._distrust(machine)

    def _take_offer(self, machine: str, offered: Offer) -> None:
        self.offers[machine], self._unplanned = offered, True
        names = [f"{d.name} ({d.arch})" for d in offered.devices] + [compiler.name for compiler in offered.compilers]
        self.say(f"{machine}: {', '.join(names) or 'neither a GPU nor a compiler'}.")

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
        subjects = in_words(request.patterns, request.family)
        raise UsageError(f"{subjects} are measured on a GPU, not read from machine code.")
    return Request(**(vars(request) | {"method": "live"})) if only_live else request
