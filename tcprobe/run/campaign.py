"""Carries out a request to measure: on a GPU of the arch if there is one, else from the arch's machine code.

    Request   what is asked            select    the experiments that it means
    runner    each experiment in a worker (`tcprobe.run.worker`); its finding is saved when it arrives
    Campaign  the device, the archs    Report    what was measured, kept, contradicted

auto   a visible GPU of the arch, else machine code; without an arch the first visible GPU, else every arch
live   a GPU only
sass   machine code only

Experiments are selected by names of fragments and instructions, by family, or by kind of finding. What machine code
shows is held back in `Drafts` until multiplies and moves have been checked against it; then all is saved together.
"""

from __future__ import annotations

import fnmatch
import os
import subprocess
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from tcprobe.errors import DataError, EnvironmentUnfitError, UsageError
from tcprobe.isa import arch, inventory, names
from tcprobe.isa.instruction import Instruction
from tcprobe.layout.table import Tables
from tcprobe.probes import dialogues, experiments
from tcprobe.probes.experiment import Dialogue, Experiment
from tcprobe.probes.moves import MemoryMove, RegisterMove
from tcprobe.probes.multiply import MultiplyExperiment
from tcprobe.question.answers import UNSET, Answer, Meta, UnsetType, plain
from tcprobe.run import runner
from tcprobe.run.backend import Device, sass_worker
from tcprobe.run.runner import Probe, kind_of, saved_tables
from tcprobe.store import findings, kinds
from tcprobe.store.choose import over_published
from tcprobe.store.finding import TABLE, Finding, Measurement
from tcprobe.store.kinds import encodings
from tcprobe.store.kinds.tensor_memory import KIND as TENSOR_MEMORY
from tcprobe.store.results import Results
from tcprobe.system import children
from tcprobe.values import Json

if TYPE_CHECKING:
    from tcprobe.sass.derive import Derived
    from tcprobe.sass.toolchain import Toolchain


AT_ONCE = max(2, min(os.cpu_count() or 2, 8))  # archs that are read from machine code at the same time
KINDS = {"tma": "tensor_maps"}  # kinds by the other names of --family


@dataclass(frozen=True)
class Request:
    """What is asked: what to measure and how. `arch` is one, "all" or None; `cuda` a folder with the tools."""

    patterns: tuple[str, ...] = ()
    arch: str | None = None
    index: int | None = None
    method: str = "auto"
    cuda: Path | None = None
    force: bool = False
    limit: float = 60.0
    family: str | None = None

    @property
    def subjects(self) -> str:
        """What a request for dialogues alone measures, in words."""
        if self.family:
            return f"findings of {self.family}"
        return f"places in tensor memory of {', '.join(self.patterns)}"

    def needs_gpu(self) -> UsageError:
        """The error of method sass, of a request for dialogues alone."""
        return UsageError(f"{self.subjects} are measured on a GPU, not read from machine code.")


def select(patterns: Sequence[str], family: str | None = None) -> list[Probe]:
    """The experiments on fragments and instructions that match `patterns`, on fragments that these need, and on their
    operands in tensor memory; only those of `family`, if given, which may also be a kind of finding. UsageError if
    there are none.
    """
    kind = KINDS.get(family or "", family)
    if kind in kinds.names():
        return _dialogues_by_subject(kind, patterns)
    tables, in_memory = _table_experiments(patterns), _in_tensor_memory(patterns)
    if family is None:
        return [*tables, *in_memory]
    names.select(family=family)  # which refuses an unknown one
    of_family: list[Probe] = [e for e in tables if any(f.family == family for f in e.fragments)]
    of_family += in_memory if family == "tcgen05" else []
    if not of_family:
        raise UsageError(f"nothing of family {family} can be measured here.", "nothing to measure")
    return of_family


def _dialogues_by_subject(kind: str, patterns: Sequence[str]) -> list[Probe]:
    """The experiments of a kind whose subjects match; UsageError if a pattern matches none."""
    every = dialogues(kind)
    if not every:
        made = getattr(kinds.kind(kind), "MADE", "others: run without `family`")
        raise UsageError(f"findings of kind {kind} follow from {made}.")
    for pattern in patterns:
        if not fnmatch.filter(every, pattern):
            raise UsageError(f"{pattern}: not a subject of {kind}; one is {next(iter(every))}.")
    return [
        dialogue for id_, dialogue in every.items() if not patterns or any(fnmatch.fnmatch(id_, p) for p in patterns)
    ]


def _table_experiments(patterns: Sequence[str]) -> list[Experiment]:
    if not patterns:
        return list(experiments().values())
    ids: set[str] = set()
    for pattern in patterns:
        meaning = names.resolve(pattern)
        forms = meaning.instructions if len(meaning.instructions) == 1 else []
        in_memory = _in_tensor_memory([pattern])
        fragments = meaning.fragments if forms or in_memory else meaning.some_fragments
        named = {f.experiment for f in fragments} | {form.id for form in forms}
        if not named & set(experiments()) and not in_memory:
            unprobed = inventory.instructions()[next(iter(named))]
            raise UsageError(f"{unprobed.id}: {unprobed.unprobed}.")
        ids |= named
    listed = {id_: id_.rpartition(".x")[0] if id_.startswith("tcgen05.") else id_ for id_ in experiments()}
    return [e for id_, e in experiments().items() if {id_, listed[id_]} & ids]  # listed without its repetitions


def _in_tensor_memory(patterns: Sequence[str]) -> list[Dialogue]:
    """The experiments on operands in tensor memory, of the forms that `patterns` match; without patterns all."""
    every = dialogues(TENSOR_MEMORY)
    if not patterns:
        return list(every.values())
    ids = (form.id for pattern in patterns for form in names.resolve(pattern).instructions)
    forms = tuple(f"{id_}." for id_ in ids if id_.startswith("tcgen05."))
    return [dialogue for id_, dialogue in every.items() if id_.startswith(forms)] if forms else []


class ExperimentAnswer(Answer):
    """What came of an experiment."""

    id: str
    status: str
    words: str | None


class DeviceReport(Answer):
    """What was done on one device or arch."""

    device: str
    arch: str
    method: str
    compiler: str | None
    driver: str | None
    cuda: str | None
    experiments: list[ExperimentAnswer]
    kept: int
    complaints: list[str]
    contradictions: list[str]
    unchecked: list[str]
    machine: (
        Annotated[
            str | None,
            Meta(
                description="With --scheduler only: the worker that made the run, null where it was given up; "
                "`complaints` say why."
            ),
        ]
        | UnsetType
    ) = UNSET
    kind: Annotated[str, Meta(description="Of a kind of finding only.")] | UnsetType = UNSET
    findings: (
        Annotated[
            dict[str, dict[str, Any]],
            Meta(description="What was measured now, by subject; the kind says its shape."),
        ]
        | UnsetType
    ) = UNSET


class RunLine(DeviceReport, kw_only=True):
    """What was done on one device or arch, one object each."""

    results: str


@dataclass
class Report:
    """What a run did on one device: new measurements, the number kept from before, and complaints about files.

    `beside` has the files of refusals and failures that were saved next to tables measured before, not over them.
    """

    device: Device
    measurements: list[Measurement]
    kept: int
    complaints: list[str]
    beside: list[Path] = field(default_factory=list)
    job_end: runner.JobEnd | None = None
    contradictions: list[str] = field(default_factory=list)  # of machine code
    unchecked: list[str] = field(default_factory=list)  # measured fragments that no multiply was read for
    documented: dict[str, str] = field(default_factory=dict)  # mma forms of which nothing follows, and why
    findings: list[Finding] = field(default_factory=list)  # of a kind that is not a table
    kind: str = TABLE

    @property
    def every(self) -> list[Measurement | Finding]:
        """All findings of the run, of every kind."""
        return [*self.measurements, *self.findings]

    def to_json(self) -> Json:
        return plain(self.answer)

    @property
    def answer(self) -> DeviceReport:
        """The device, each experiment with its status and words, and how many were kept."""
        other = self.kind != TABLE
        return DeviceReport.of(
            self,
            device=self.device.name,
            **{name: getattr(self.device, name) for name in ("arch", "method", "compiler", "driver", "cuda")},
            experiments=[ExperimentAnswer(f.key.subject, f.status, f.words) for f in self.every],
            kind=self.kind if other else UNSET,
            findings={f.subject: f.plain for f in self.findings if f.body} if other else UNSET,
        )


@dataclass
class Campaign:
    """Carries out a request. `say` gets messages; `tick` gets (number of further experiments, None) or (0, name).

    `early` has workers by arch that were started before this module was imported.
    """

    request: Request
    folder: Path
    say: Callable[[str], None] = lambda _: None
    tick: Callable[[int, str | None], None] = lambda _, __: None
    early: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)
    reports: list[Report] = field(default_factory=list)

    def run(self, live: runner.Session | None) -> list[Report]:
        """Measure; `live` is a session with the GPU worker, started early, or None for method sass."""
        experiments = select(self.request.patterns, self.request.family)
        tables = [experiment for experiment in experiments if not isinstance(experiment, Dialogue)]
        with ExitStack() as stack:
            if live:
                stack.enter_context(live)
            device = self._live_device(live, only=not tables)
            if live and device:
                self._measure_all(live, device, experiments)
        names = self._sass_archs(device) if tables else []
        if names:
            self._read_archs(names, tables)
        return self.reports

    def _live_device(self, live: runner.Session | None, only: bool) -> Device | None:
        """The GPU to measure on; None, after saying why, if machine code is read instead. `only` a GPU can show it."""
        arch_name, auto = self.request.arch, self.request.method == "auto" and not only
        if live is None and only:
            raise self.request.needs_gpu()
        if live is None:
            return None
        try:
            return runner.choose(live.devices, None if arch_name == "all" else arch_name, self.request.index)
        except (EnvironmentUnfitError, UsageError) as error:
            if not auto or self.request.index is not None:
                raise
            self.say(f"No GPU for this: {str(error).split('. ')[0].rstrip('.')}.")
            return None

    def _sass_archs(self, device: Device | None) -> list[str]:
        """Archs to read from machine code."""
        arch_name, method = self.request.arch, self.request.method
        if method == "live" or (device and arch_name != "all"):
            return []
        if arch_name not in (None, "all"):
            return [arch.arch(arch_name or "").name]
        measured = device.arch if device and method == "auto" else None
        return [row.name for row in self._tools().archs if row.name != measured]

    def _tools(self) -> Toolchain:
        from tcprobe.sass.toolchain import find

        return find(self.request.cuda, self.request.limit)

    def _read_archs(self, names: Sequence[str], experiments: Sequence[Experiment]) -> None:
        """Read archs from machine code, AT_ONCE at a time."""
        tools = self._tools()
        todo = [e for e in experiments if "sass" in e.methods]
        following = [e for e in experiments if "sass" not in e.methods]
        if not todo:
            raise UsageError(
                "machine code shows wmma fragments, and all else only through them: remove FRAGMENT and `family`, "
                "or measure on a GPU.",
                "no GPU",
            )
        unknown = [name for name in names if name not in {row.name for row in tools.archs}]
        if unknown:
            known_archs = ", ".join(row.name for row in tools.archs)
            raise UsageError(
                f"{tools.ptxas} ({tools.ptxas_version}) does not know {', '.join(unknown)}; it knows {known_archs}."
            )
        self.say(f"Reading machine code of {', '.join(names)} with {tools.name}.")
        with children.threads(AT_ONCE) as pool:
            read = list(pool.map(lambda name: self._read_arch(name, tools, todo, following), names))
        for report, derived in read:
            self.reports.append(report)
            if derived:
                self._same_opcodes(report, tools, derived)

    def _read_arch(
        self, name: str, tools: Toolchain, todo: Sequence[Experiment], following: Sequence[Experiment]
    ) -> tuple[Report, Derived | None]:
        """Read fragments, then the multiplies and moves that use them; save the tables that no multiply contradicts."""
        worker = sass_worker(name, tools.ptxas, tools.nvdisasm, self.request.limit)
        drafts = Drafts(self.folder)
        with runner.Session(worker, self.early.pop(name, None)) as session:
            report = self._measure(session, session.devices[0], todo, drafts)
        measured = [m.experiment for m in report.measurements if m.tables]
        multiplies = [e.instruction for e in following if isinstance(e, MultiplyExperiment)]
        derived = _derive_multiplies(report, tools, drafts, multiplies) if multiplies else None
        checked = derived.conclusion.checked_experiments if derived else set()
        moves = [e.instruction for e in following if isinstance(e, MemoryMove | RegisterMove)]
        _derive_moves(report, tools, drafts, moves)
        report.unchecked = [experiment for experiment in measured if experiment not in checked]
        report.measurements = self._new(report, report.measurements)
        report.complaints += drafts.settle()
        report.beside = _beside(drafts, report)
        return report, derived

    def _same_opcodes(self, report: Report, tools: Toolchain, derived: Derived) -> None:
        """Add what follows for an arch from the same opcodes on other archs, read before: method same-opcode."""
        from tcprobe.sass.derive import measurement
        from tcprobe.sass.evidence import conclude_by_encoding

        row, drafts, measurements = arch.arch(report.device.arch), Drafts(self.folder), []
        own = {opcode: anchored.tables for opcode, anchored in derived.conclusion.opcodes.items()}
        pending, layers = derived.forms.pending, over_published(self.folder)
        for form, content, words, contradicted in conclude_by_encoding(pending, row, own, derived.encodings, layers):
            if content or contradicted:
                measurements.append(measurement(form.instruction, row, "same-opcode", tools, content or words))
                drafts.overrule(measurements[-1])
            else:
                report.documented[form.instruction.id] = words
            if contradicted:
                report.contradictions.append(f"{form.instruction.id}: {words}")
        report.measurements += self._new(report, measurements)
        report.complaints += drafts.settle()

    def _new(self, report: Report, measurements: Sequence[Measurement]) -> list[Measurement]:
        """The measurements that differ from the saved ones; the others are counted as kept."""
        results = Results(self.folder)
        new = [m for m in measurements if self.request.force or not _is_saved(results, m)]
        report.kept += len(measurements) - len(new)
        return new

    def _measure_all(self, live: runner.Session, device: Device, probes: Sequence[Probe]) -> None:
        """Measure experiments that the device supports, kind by kind; UsageError if it supports none."""
        on_device = [
            probe for probe in probes if not isinstance(probe, Dialogue) or probe.target.on(arch.arch(device.arch))
        ]
        if not on_device:
            raise UsageError(f"{device.arch} has no {self.request.subjects}.")
        for kind in dict.fromkeys(map(kind_of, on_device)):
            with ExitStack() as stack:
                session = live if not self.reports else stack.enter_context(runner.Session(live.worker))
                of_kind = [probe for probe in on_device if kind_of(probe) == kind]
                self.reports.append(self._measure(session, device, of_kind))

    def _measure(
        self, session: runner.Session, device: Device, probes: Sequence[Probe], into: Results | None = None
    ) -> Report:
        """Measure the experiments that have no finding on the device yet."""
        results = into or Results(self.folder)
        todo, complaints = runner.missing(probes, device, results)
        todo = list(probes) if self.request.force else todo
        report = Report(device, [], len(probes) - len(todo), complaints, kind=kind_of(probes[0]))
        self.tick(len(todo), None)
        for finding_or_end in runner.measure(session, device, todo, results):
            if isinstance(finding_or_end, runner.JobEnd):
                report.job_end = finding_or_end
            else:
                self.tick(0, f"{device.arch} {finding_or_end.key.subject}")
                if isinstance(finding_or_end, Finding):
                    report.findings.append(finding_or_end)
                else:
                    report.measurements.append(finding_or_end)
        report.beside = _beside(results, report)
        return report


def _derive_multiplies(report: Report, tools: Toolchain, drafts: Drafts, multiplies: Sequence[Instruction]) -> Derived:
    """Follow the code of multiplies, on the tables just read."""
    from tcprobe.sass.derive import derive

    name = report.device.arch
    derived = derive(tools, arch.arch(name), multiplies, saved_tables(drafts, report.device))
    conclusion, verdict = derived.conclusion, derived.conclusion.verdict
    withheld = drafts.withhold(name, "sass", verdict.withheld)
    for measurement in derived.measurements:
        (drafts.overrule if measurement.method == "derived" else drafts.write)(measurement)
    drafts.contest(name, conclusion.contested)
    drafts.write_encodings(name, tools.name, derived.encodings)
    if conclusion.opcodes or conclusion.contested:
        drafts.write_opcodes(name, tools.name, {o: (a.tables, a.source) for o, a in conclusion.opcodes.items()})
    refuted = {*verdict.withheld, *verdict.misread, *derived.forms.contradicted}
    kept = [m for m in report.measurements if m.experiment not in refuted]
    report.measurements = kept + withheld + derived.measurements
    report.contradictions = [f"{m.experiment}: {m.words}" for m in report.measurements if m.experiment in refuted]
    return derived


def _derive_moves(report: Report, tools: Toolchain, drafts: Drafts, moves: Sequence[Instruction]) -> None:
    """Follow the code of matrix moves, on the tables that no multiply contradicts."""
    from tcprobe.sass.moves import derive_moves

    name = report.device.arch
    derived = derive_moves(tools, arch.arch(name), moves, saved_tables(drafts, report.device))
    if report.contradictions:  # what followed from loads that are withheld now follows no more
        gone = {i.id for i in moves if drafts.has_tables((name, "derived", i.id))} - {m.experiment for m in derived}
        derived += drafts.withhold(name, "derived", dict.fromkeys(gone, f"withheld: {report.contradictions[0]}"))
    for measurement in derived:
        drafts.overrule(measurement)
    report.measurements += derived


def _is_saved(results: Results, new: Measurement) -> bool:
    """Whether a folder has this very measurement; False if its file cannot be trusted."""
    with suppress(DataError):
        return new.status == "measured" and results.measurement(new.arch, new.method, new.experiment) == new
    return False


def _beside(results: Results, report: Report) -> list[Path]:
    """The files of refusals and failures that were saved next to earlier tables."""
    tables = [
        results.refusal_path(m.arch, m.method, m.experiment) for m in report.measurements if m.status != "measured"
    ]
    others = [findings.refusal_path(results, f.key) for f in report.findings if f.status != "measured"]
    return [place for place in (*tables, *others) if place.exists()]


Encodings = Mapping[str, tuple[Iterable[str], Iterable[str]]]  # bits and forms by opcode


class Drafts(Results):
    """A results folder whose new files stay in memory until `settle` writes them."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self._drafts: dict[tuple[str, str, str], Measurement] = {}
        self._aside: list[Measurement] = []
        self._opcodes: list[tuple[str, str, Mapping[str, tuple[Tables, str]]]] = []
        self._contested: set[tuple[str, str]] = set()
        self._encodings: list[tuple[str, str, Encodings]] = []

    def write(self, measurement: Measurement) -> None:
        """Keep a measurement; reading through this object gives it as if it were saved.

        A refusal or failure does not take the place of tables, as in any results folder.
        """
        key = (measurement.arch, measurement.method, measurement.experiment)
        if measurement.status != "measured" and self.has_tables(key):
            self._aside.append(measurement)
        else:
            self.overrule(measurement)

    def overrule(self, measurement: Measurement) -> None:
        """Keep a conclusion in place of the earlier one, even if the new one failed."""
        key = (measurement.arch, measurement.method, measurement.experiment)
        self._drafts[key] = self._read[key] = measurement

    def withhold(self, arch: str, method: str, why: Mapping[str, str]) -> list[Measurement]:
        """Replace measurements, saved ones too, by failures and return these; `why` has the reasons by experiment."""
        failed = [
            replace(m, status="failed", tables={}, numbering=None, structure=None, unread={}, words=words)
            for experiment, words in why.items()
            if (m := self.measurement(arch, method, experiment))
        ]
        for measurement in failed:
            self.overrule(measurement)
        return failed

    def contest(self, arch: str, opcodes: Collection[str]) -> None:
        """Forget the layouts of opcodes, saved ones too."""
        self._contested |= {(arch, opcode) for opcode in opcodes}

    def opcodes(self, arch: str) -> Json:
        """The saved layouts of opcodes, without the contested ones."""
        return {name: layout for name, layout in super().opcodes(arch).items() if (arch, name) not in self._contested}

    def write_opcodes(self, arch: str, compiler: str, layouts: Mapping[str, tuple[Tables, str]]) -> list[str]:
        """Keep the layouts of opcodes; complaints come from `settle`."""
        self._opcodes.append((arch, compiler, layouts))
        return []

    def write_encodings(self, arch: str, compiler: str, encoded: Encodings) -> None:
        """Keep how opcodes are encoded."""
        self._encodings.append((arch, compiler, encoded))

    def settle(self) -> list[str]:
        """Save everything; returns complaints about existing files that could not be trusted."""
        for measurement in self._drafts.values():
            super().write(measurement)
        for measurement in self._aside:
            self.set_aside(measurement)
        complaints: list[str] = []
        for opcodes in self._opcodes:
            complaints += super().write_opcodes(*opcodes)
        for encoded in self._encodings:
            complaints += encodings.write_document(self, *encoded)
        for drafts in (self._encodings, self._drafts, self._aside, self._opcodes):
            drafts.clear()
        return complaints
