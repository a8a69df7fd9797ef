"""Measures on a device through a worker process that may be lost, and saves each finding when it arrives.

    with Session(Worker()) as session:          # starts the worker, learns its devices
        device = choose(session.devices, name="sm_90")
        for item in measure(session, device, todo, results): ...

A launch that fails or never ends costs its own experiment only: the worker is killed and a new one goes on
with the rest. Files are saved whole, so a stopped run can be continued.

A table is up to date, and others may be concluded from it, if it was measured with the same probe, by the same
method, with the same compiler; on a GPU also on the same model with the same driver and CUDA version, since each of
them has a compiler of its own. The version of tcprobe does not count: its probes do.
"""

from __future__ import annotations

import subprocess
import threading
import time
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from math import inf
from queue import Empty, Queue

from tcprobe import __version__
from tcprobe.errors import (
    DataError,
    EnvironmentUnfitError,
    NewerSchemaError,
    ProbeError,
    StarvedError,
    UnmeasuredError,
    UsageError,
    class_named,
    is_want_of_resources,
)
from tcprobe.isa import arch
from tcprobe.isa.fragment import Fragment
from tcprobe.layout.structure import anchor, read_slots
from tcprobe.layout.table import Table
from tcprobe.probes.experiment import (
    EVENTS,
    Context,
    Dialogue,
    Experiment,
    KnownTable,
    Readout,
    kernels,
    ptx_hash,
)
from tcprobe.probes.ptx import TOO_NEW
from tcprobe.references import claim_of, references
from tcprobe.run.backend import Device, Worker, live_command
from tcprobe.run.worker import Arrays, receive, send
from tcprobe.store import kinds
from tcprobe.store.choose import over_published
from tcprobe.store.finding import TABLE, AnyFinding, Finding, Key, Measurement, Status
from tcprobe.store.findings import read_any, save
from tcprobe.store.results import Results
from tcprobe.system import children
from tcprobe.values import Json

Probe = Experiment | Dialogue


def provenance(device: Device, ptx: str) -> dict[str, str]:
    """The provenance of a measurement on `device` with the probe of hash `ptx`."""
    return device.maker | {"ptx": ptx, "tcprobe": __version__}


def kind_of(experiment: Probe) -> str:
    """The kind of finding that an experiment concludes."""
    return experiment.kind if isinstance(experiment, Dialogue) else TABLE


def key_of(experiment: Probe, device: Device) -> Key:
    """The key of an experiment's finding on a device."""
    return Key(kind_of(experiment), device.arch, device.method, experiment.id)


def same(measurement: AnyFinding, device: Device) -> bool:
    """Whether method, compiler and, on a GPU, model, driver and CUDA version are those of `device`."""
    return measurement.method == device.method and device.maker.items() <= measurement.provenance.items()


def up_to_date(experiment: Probe, saved: AnyFinding | None, device: Device) -> bool:
    """Whether `device` need not measure `experiment` again; refusals and failures are always tried again."""
    if saved is None or saved.status != "measured" or not same(saved, device):
        return False
    return saved.provenance["ptx"] == ptx_hash(kernels(experiment))


def saved_tables(results: Results, device: Device) -> KnownTable:
    """The saved tables that conclusions about `device` may rest on."""

    def table(fragment: Fragment) -> Table | None:
        saved = results.measurement(device.arch, device.method, fragment.experiment)
        return saved.tables.get(fragment.operand) if saved and same(saved, device) else None

    return table


def conclude(
    experiment: Experiment | Dialogue, reading: Readout, context: Context, method: str, provenance: Mapping[str, str]
) -> Measurement | Finding:
    """The finding of `experiment` from its `reading`.

    ProbeError if the reading is no layout or no matrix product, contradicts known tables, or cannot be true.
    """
    if isinstance(experiment, Dialogue):
        body = experiment.conclude(reading, context)
        finding = Finding(experiment.kind, experiment.id, context.device.name, method, "measured", provenance, body)
        try:
            kinds.to_body(finding.kind, finding.plain)  # a number out of its bounds costs its own finding
            kinds.check(finding)
        except DataError as error:
            raise ProbeError(str(error)) from None
        return finding
    conclusion = experiment.conclude(reading, context)
    structure = conclusion.structure
    if structure:  # with the hash of the numbering that it leaves open
        tables = {o: read_slots(table, conclusion.unread.get(o)) for o, table in conclusion.tables.items()}
        structure = structure._replace(anchor=anchor(tables))
    return Measurement(
        experiment.id,
        context.device.name,
        method,
        "measured",
        provenance,
        conclusion.tables,
        conclusion.numbering,
        structure,
        conclusion.unread,
    )


LAST_BREATH = 5.0  # seconds for a worker that has closed its output to end by itself, so that its code is its own
Received = tuple[Json, Arrays]  # a message of the worker


@dataclass(frozen=True)
class JobEnd:
    """The end of a worker's job: seconds by stage, and its peak memory in MB, None if unknown."""

    stages: dict[str, float]
    peak_mb: float | None


class TimeUpError(EnvironmentUnfitError):
    """The time is over until which a worker is waited for."""


class WorkerLostError(EnvironmentUnfitError):
    """The worker died, hung or lost its device; the message says how, `event` which: "fault", "hangs" or "bug".

    `experiment` is the one that it blames, if it could.
    """

    def __init__(self, words: str, event: str = "fault", experiment: str | None = None) -> None:
        super().__init__(words)
        self.event, self.experiment = event, experiment


class Session:
    """A worker process, killed on leaving. After its job it is not waited for: its context is freed with it."""

    def __init__(self, worker: Worker, process: subprocess.Popen[bytes] | None = None) -> None:
        self.worker = worker
        self._messages: Queue[Received | Exception | None] = Queue()
        self._process = process or worker.start()
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()
        self._devices: list[Device] | None = None
        self._ended = False

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *_: object) -> None:
        children.end(self._process)
        if not self._ended:
            self._process.wait()

    @property
    def devices(self) -> list[Device]:
        """The worker's devices; raises the worker's error if it has none."""
        if self._devices is None:
            header, _ = self._next()
            self._devices = [Device(**device) for device in header["devices"]]
        return self._devices

    def work(self, job: Mapping[str, object]) -> Iterator[Received]:
        """Send the job and yield the worker's messages up to "done". WorkerLostError if it gets lost."""
        assert self._process.stdin is not None
        try:
            send(self._process.stdin, dict(job))
        except OSError:
            raise self._lost_error() from None
        while True:
            message = self._next()
            self._ended = message[0]["event"] == "done"
            yield message
            if self._ended:
                return

    def _listen(self) -> None:
        assert self._process.stdout is not None
        try:
            while (message := receive(self._process.stdout)) is not None:
                self._messages.put(message)
        except Exception as error:  # what is not a message of ours is as good as the end
            self._messages.put(error if is_want_of_resources(error) else None)
        else:
            self._messages.put(None)

    def _next(self) -> Received:
        message = self._awaited()
        if message is None:
            raise self._lost_error()
        if isinstance(message, Exception):
            raise message
        if message[0]["event"] in ("fault", "hangs", "bug"):
            raise WorkerLostError(message[0]["words"], message[0]["event"], message[0]["experiment"])
        if message[0]["event"] == "unfit":
            raise class_named(message[0]["error"])(message[0]["words"])
        return message

    def _awaited(self) -> Received | Exception | None:
        """What the listener hears next; StarvedError where it ended without a word, as without memory."""
        end = time.monotonic() + (inf if self.worker.limit is None else self.worker.limit)
        while (left := min(end, self.worker.until) - time.monotonic()) > 0:
            heard = self._listener.is_alive()
            with suppress(Empty):
                return self._messages.get(timeout=min(left, LAST_BREATH))
            if not heard:
                raise StarvedError
        if self.worker.until < end:
            raise TimeUpError("the time is over.")
        raise WorkerLostError(f"no answer for {self.worker.limit:g} s; it was stopped", "hangs")

    def _lost_error(self) -> Exception:
        """Why no message came, by how the worker ended; StarvedError as in `children.exit_code`."""
        try:
            code = self._process.wait(LAST_BREATH)
        except subprocess.TimeoutExpired:
            return WorkerLostError("the worker process sent something that tcprobe does not understand; it was stopped")
        if children.stopping():
            return children.StoppedError()
        how = f"by signal {-code}" if children.exit_code(code) < 0 else f"with code {code}"
        return WorkerLostError(f"the worker process ended {how}")


def choose(devices: Sequence[Device], name: str | None = None, index: int | None = None) -> Device:
    """The device of arch `name` or number `index`, the first without either; UsageError if there is none."""
    arch_name = name and arch.arch(name).name
    matching = [d for d in devices if arch_name in (None, d.arch) and index in (None, d.index)]
    if not matching:
        asked_words = " and ".join(
            part for part in (arch_name and f"of arch {arch_name}", index is not None and f"number {index}") if part
        )
        raise UsageError(
            f"no visible GPU {asked_words}; there are: {', '.join(f'{d.index}: {d.name} ({d.arch})' for d in devices)}."
        )
    device = matching[0]
    if device.arch not in {a.name for a in arch.ARCHS}:
        raise UsageError(f"{device.name} is {device.arch}: no tensor cores, or an arch that tcprobe does not know.")
    return device


def missing(todo: Sequence[Probe], device: Device, results: Results) -> tuple[list[Probe], list[str]]:
    """(experiments whose findings are not `up_to_date`, complaints about files that cannot be trusted).

    NewerSchemaError if a later tcprobe wrote a file, which must not be overwritten.
    """
    unmeasured, complaints = [], []
    for experiment in todo:
        try:
            before = read_any(results, key_of(experiment, device))
        except NewerSchemaError:
            raise
        except DataError as error:
            before = None
            complaints.append(str(error))
        if not up_to_date(experiment, before, device):
            unmeasured.append(experiment)
    return unmeasured, complaints


def measure(
    session: Session, device: Device, todo: Sequence[Probe], results: Results
) -> Generator[Measurement | Finding | JobEnd]:
    """As `measure_by`; what is too new for the driver's compiler is compiled by a later ptxas, if one is installed."""
    too_new: dict[str, Measurement | Finding] = {}
    for item in measure_by(session, device, todo, results):
        if not isinstance(item, JobEnd) and item.status == "refused" and (item.words or "").startswith(TOO_NEW):
            too_new[item.key.subject] = item
        else:
            yield item
    if too_new and (worker := _with_later_ptxas(session.worker, device)):
        with suppress(EnvironmentUnfitError), Session(worker) as other:  # then the refusals stay
            (same_gpu,) = (one for one in other.devices if one.index == device.index)
            for item in measure_by(other, same_gpu, [one for one in todo if one.id in too_new], results):
                if not isinstance(item, JobEnd):
                    del too_new[item.key.subject]
                    yield item
    yield from too_new.values()


def _with_later_ptxas(worker: Worker, device: Device) -> Worker | None:
    """The worker with the newest ptxas in place of the driver's compiler; None if none is later, or it has one."""
    from tcprobe.sass import toolchain

    if device.method != "live" or device.compiler.startswith("ptxas"):
        return None
    with suppress(EnvironmentUnfitError):
        if ptxas := toolchain.newer_than(device.cuda, arch.arch(device.arch)):
            limit = worker.limit or toolchain.LIMIT
            return Worker(live_command(ptxas, limit), worker.limit, worker.until)
    return None


def measure_by(
    session: Session, device: Device, todo: Sequence[Probe], results: Results
) -> Generator[Measurement | Finding | JobEnd]:
    """Measure `todo` on `device`; saves and yields each finding, and yields the end of each job.

    The first job goes to `session`; what a lost worker leaves goes to new workers, as careful jobs where nobody knows
    what lost it. TimeUpError from the time on until which the session's worker is waited for.
    """
    jobs: list[tuple[list[Probe], bool]] = [(list(todo), False)] if todo else []
    tabled = [experiment for experiment in todo if not isinstance(experiment, Dialogue)]
    threading.Thread(target=_tabulate_references, args=(tabled, device), daemon=True).start()
    while jobs:
        with session:
            if device not in session.devices:
                raise EnvironmentUnfitError(f"{device.name} was lost and did not come back.")
            part, careful = jobs.pop(0)
            job = Attempt(device, {experiment.id: experiment for experiment in part}, results, careful)
            yield from job.measure(session)
            jobs[:0] = job.rest
        if jobs:
            session = Session(session.worker)


class Attempt:
    """One job of a worker. After `measure`, `rest` has the remaining experiments, as jobs that are careful or not."""

    def __init__(self, device: Device, left: dict[str, Probe], results: Results, careful: bool) -> None:
        self.rest: list[tuple[list[Probe], bool]] = []
        self._device, self._left, self._results, self._careful = device, left, results, careful
        self._begun: str | None = None
        self._compiled = False

    def measure(self, session: Session) -> Iterator[Measurement | Finding | JobEnd]:
        """Save and yield findings as they arrive; if the worker is lost, blame an experiment if one is certain."""
        job = {
            "device": self._device.index,
            "kind": kind_of(next(iter(self._left.values()))),  # that of all
            "experiments": list(self._left),
            "folder": str(self._results.root),
            "careful": self._careful,
        }
        try:
            for message in session.work(job):
                header, _ = message
                if header["event"] == "begin":
                    self._begun = header["experiment"]
                elif header["event"] == "compiled":
                    self._compiled = True
                elif header["event"] == "done":
                    yield JobEnd(header["stages"], header["peak_mb"])
                else:
                    yield self._save(message)
        except WorkerLostError as error:
            culprit = error.experiment if error.experiment in self._left else self._culprit()
            if culprit:
                yield self._save(({"event": error.event, "experiment": culprit, "words": str(error), "ptx": ""}, {}))
            remaining = list(self._left.values())
            in_halves = self._careful and not culprit  # to find it
            half = len(remaining) // 2 if in_halves else len(remaining)
            self.rest = [(part, culprit is None) for part in (remaining[:half], remaining[half:]) if part]

    def _culprit(self) -> str | None:
        """The experiment that lost the worker; None if that is not certain.

        If everything was compiled it is the one begun last; in a careful job of one experiment it is that one.
        """
        if self._compiled and self._begun in self._left:
            return self._begun
        return next(iter(self._left)) if self._careful and len(self._left) == 1 else None

    def _save(self, message: Received) -> Measurement | Finding:
        """Conclude, save and return one finding."""
        header, _ = message
        experiment = self._left.pop(header["experiment"])
        finding = self._conclude(experiment, message)
        if finding.status == "refused" and _compiled_before(experiment, self._device, self._results):
            words = f"refused, though this compiler took it before: {finding.words}"
            finding = replace(finding, status="failed", words=words)
        save(self._results, finding)
        return finding

    def _context(self, experiment: Probe) -> Context:
        """The tables that conclusions may use: those of the same maker, and for dialogues also published ones."""
        row = arch.arch(self._device.arch)
        if not isinstance(experiment, Dialogue):
            return Context(row, saved_tables(self._results, self._device))
        layers = over_published(self._results.root)

        def table(fragment: Fragment) -> Table | None:
            measurement = layers.choose(fragment, [row.name])
            return measurement.table(fragment) if measurement else None

        return Context(row, table)

    def _conclude(self, experiment: Probe, message: Received) -> Measurement | Finding:
        (header, arrays), device = message, self._device
        origin = provenance(device, header["ptx"] or ptx_hash(kernels(experiment)))
        event, words = header["event"], header.get("words")
        if words is None:
            try:
                return conclude(experiment, arrays, self._context(experiment), device.method, origin)
            except UnmeasuredError as error:
                event, words = "unmeasured", str(error)
            except ProbeError as error:
                event, words = "unsound", str(error)
        status: Status = "refused" if event == "refused" else "failed"
        if not isinstance(experiment, Dialogue):
            return Measurement(experiment.id, device.arch, device.method, status, origin, words=words)
        about = (experiment.kind, experiment.id, device.arch, device.method)
        if event in EVENTS and (body := experiment.instead(event, words)) is not None:
            return Finding(*about, "measured", origin, body)
        return Finding(*about, status, origin, None, words)


def _tabulate_references(todo: Sequence[Experiment], device: Device) -> None:
    """Make the references' tables, which `references` caches, while the worker compiles."""
    with suppress(Exception):  # who needs them meets the error, and reports it
        for experiment in todo:
            for reference in () if experiment.early else references():
                for fragment in experiment.fragments:
                    claim_of(reference, fragment, arch.arch(device.arch))


def _compiled_before(experiment: Probe, device: Device, results: Results) -> bool:
    """Whether this compiler has compiled this very probe before; then it cannot refuse it now."""
    try:
        return up_to_date(experiment, read_any(results, key_of(experiment, device)), device)
    except DataError:
        return False
