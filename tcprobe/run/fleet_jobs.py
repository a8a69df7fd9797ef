"""The jobs of a fleet: single runs, each of one kind of GPU or of one arch's machine code by one compiler.

They follow from the machines' offers. A kind of GPU is a name and an arch; it is measured once, on any machine. Offers
and answers are untrusted: their size and shape are checked, and a report must have findings of its own job only.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, TypeVar

import msgspec

from tcprobe import __version__
from tcprobe.errors import DataError, UsageError
from tcprobe.isa import arch
from tcprobe.run import merge, report
from tcprobe.run.backend import Device
from tcprobe.run.campaign import Request
from tcprobe.run.fleet_worker import Offer, RunAnswer
from tcprobe.store.evidence import FROM_CODE, made_by
from tcprobe.store.results import Results

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
    if request.method == "live" or (request.method == "auto" and live and request.name != "all"):
        return live
    measured = {key.arch for key in live}
    return live | {k: job for k, job in _from_code(request, toolkit_folders, offers) if k.arch not in measured}


def _live(request: Request, offers: Mapping[str, Offer]) -> Iterator[tuple[JobKey, FleetJob]]:
    """Each kind of GPU of a known arch, with the machines that have one."""
    kinds: dict[JobKey, dict[str, tuple[tuple[str, ...], Device]]] = {}
    known_archs = {row.name for row in arch.ARCHS}
    archs = known_archs if request.name in (None, "all") else {arch.arch(request.name or "").name}
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
    only = None if request.name in (None, "all") else arch.arch(request.name or "").name
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


def known_findings(job: FleetJob, machine: str, saved_findings: Iterable[report.AnySaved]) -> list[report.AnySaved]:
    """The saved findings of a job's own device that are up to date: its run need not measure them again."""
    device = job.able[machine][1]
    methods = METHODS[job.key.method]
    own = [f for f in saved_findings if (f.arch, made_by(f)) == (job.key.arch, _maker(device)) and f.method in methods]
    return [finding for finding in own if report.made_by_probe(finding)]


def _maker(device: Device) -> tuple[str, ...]:
    return device.name, device.driver, device.cuda, device.compiler


def findings_of(job: FleetJob, machine: str, text: str) -> list[report.AnySaved]:
    """The findings of a machine's report, checked like any stranger's; DataError also if one is not of this job."""
    device = job.able[machine][1]
    with tempfile.TemporaryDirectory(prefix="tcprobe-") as folder:
        path = Path(folder, "report.json")
        path.write_bytes(text.encode(errors="replace"))
        try:
            findings = merge.accept(path, Results(Path(folder, "none")))
        except (DataError, UsageError) as error:
            raise DataError(str(error).replace(f"{path}", "its report")) from None
    arch_and_maker = (job.key.arch, _maker(device))
    for finding in findings:
        if finding.method not in METHODS[job.key.method] or (finding.arch, made_by(finding)) != arch_and_maker:
            raise DataError(f"its report has {finding.key.subject} of a different run than the one it was asked for.")
    return findings
