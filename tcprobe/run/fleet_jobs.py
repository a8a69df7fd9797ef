"""The jobs of a fleet: single runs, each of one kind of GPU or of one arch's machine code by one compiler.

They follow from what machines offer. A kind of GPU is its name and arch: it is measured once, wherever it is. An offer
and an answer are a stranger's: bounded, of the stated shape, and what a report claims must be what was asked for.
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
Stated = TypeVar("Stated", Offer, RunAnswer)
METHODS = {"live": ("live",), "sass": FROM_CODE}  # of findings, by method of a run


class JobKey(NamedTuple):
    """What is measured once: by which method, of what (a GPU, or a compiler in a folder), on which arch."""

    method: str
    of: str
    arch: str

    def __str__(self) -> str:
        return f"{self.arch} {'of' if self.method == 'live' else 'by'} {self.of}"


@dataclass(frozen=True)
class FleetJob:
    """A single run. `able` has by machine the arguments of `tcprobe run` there, and the device that findings name."""

    key: JobKey
    able: Mapping[str, tuple[tuple[str, ...], Device]]


def decoded(reply: object, statement: type[Stated]) -> Stated:
    """What a machine answered; DataError where it is not such a `statement`."""
    most = MOST_OFFER if statement is Offer else MOST_ANSWER
    if not isinstance(reply, str) or len(reply) > most:
        raise DataError(f"no answer, or one of more than {most} characters.")
    try:
        found = msgspec.json.decode(reply, type=statement)
    except (msgspec.DecodeError, msgspec.ValidationError, RecursionError) as error:
        raise DataError(f"not an answer of tcprobe: {error}.") from None
    if isinstance(found, Offer):
        _check_offer(found)
    return found


def _check_offer(offered: Offer) -> None:
    """DataError where versions differ, there is too much, or a GPU is none that can be."""
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
    """By key what is to be done, as machines offer it; `toolkit_folders` has "" for the installed one.

    UsageError for an arch that there is not.
    """
    live = dict(_live(request, offers)) if request.method != "sass" else {}
    if request.method == "live" or (request.method == "auto" and live and request.name != "all"):
        return live
    measured = {key.arch for key in live}
    return live | {k: job for k, job in _from_code(request, toolkit_folders, offers) if k.arch not in measured}


def _live(request: Request, offers: Mapping[str, Offer]) -> Iterator[tuple[JobKey, FleetJob]]:
    """Each kind of GPU of a known arch, with the machines that have one."""
    kinds: dict[JobKey, dict[str, tuple[tuple[str, ...], Device]]] = {}
    known = {row.name for row in arch.ARCHS}
    wanted = known if request.name in (None, "all") else {arch.arch(request.name or "").name}
    for address, offered in offers.items():
        for device in offered.devices:
            if device.arch in wanted & known:
                cuda = ("--cuda", str(request.cuda)) if request.cuda else ()
                words = _words(request, "--method", "live", "--device", str(device.index), *cuda)
                kinds.setdefault(JobKey("live", device.name, device.arch), {}).setdefault(address, (words, device))
    for key, able in sorted(kinds.items()):
        yield key, FleetJob(key, able)


def _from_code(
    request: Request, toolkit_folders: Sequence[str], offers: Mapping[str, Offer]
) -> Iterator[tuple[JobKey, FleetJob]]:
    """Each compiler and arch, the compilers in the order in which they were named."""
    wanted = None if request.name in (None, "all") else arch.arch(request.name or "").name
    for folder in toolkit_folders:
        kinds: dict[JobKey, dict[str, tuple[tuple[str, ...], Device]]] = {}
        for address, offered in offers.items():
            for tools in (one for one in offered.compilers if one.cuda == folder):
                for name in (name for name in tools.archs if wanted in (None, name)):
                    cuda = ("--cuda", folder) if folder else ()
                    words = _words(request, "--method", "sass", "--arch", name, *cuda)
                    made = Device(0, "machine code", name, "none", "none", tools.name, "sass")
                    kinds.setdefault(JobKey("sass", tools.name, name), {})[address] = (words, made)
        for key, able in sorted(kinds.items()):
            yield key, FleetJob(key, able)


def _words(request: Request, *options: str) -> tuple[str, ...]:
    """The arguments of a single run of a request."""
    family = ("--family", request.family) if request.family else ()
    return ("--limit", f"{request.limit:g}", *family, *options, "--", *request.patterns)


def continued(job: FleetJob, machine: str, saved_findings: Iterable[merge.Known]) -> list[merge.Known]:
    """Of findings, those that a machine's run of a job need not make again, or rests on: of its device, up to date."""
    device = job.able[machine][1]
    methods = METHODS[job.key.method]
    own = [f for f in saved_findings if (f.arch, made_by(f)) == (job.key.arch, _maker(device)) and f.method in methods]
    return [finding for finding in own if report.made_by_probe(finding)]


def _maker(device: Device) -> tuple[str, ...]:
    return device.name, device.driver, device.cuda, device.compiler


def findings_of(job: FleetJob, machine: str, text: str) -> list[merge.Known]:
    """What a machine's report says, accepted as a stranger's, and of what was asked for; DataError otherwise."""
    device = job.able[machine][1]
    with tempfile.TemporaryDirectory(prefix="tcprobe-") as folder:
        path = Path(folder, "report.json")
        path.write_bytes(text.encode(errors="replace"))
        try:
            found = merge.accepted(path, Results(Path(folder, "none")))
        except (DataError, UsageError) as error:
            raise DataError(str(error).replace(f"{path}", "its report")) from None
    asked = (job.key.arch, _maker(device))
    for finding in found:
        if finding.method not in METHODS[job.key.method] or (finding.arch, made_by(finding)) != asked:
            raise DataError(f"its report has {finding.key.subject} of a different run than the one it was asked for.")
    return found
