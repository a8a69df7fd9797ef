"""What a machine of a fleet does: it offers what it has, and makes single runs of tcprobe in processes of their own.

Both functions return JSON as text and raise nothing, so only text travels back; `tcprobe.run.fleet` does not trust it.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import msgspec

from tcprobe import __version__
from tcprobe.errors import understood
from tcprobe.run import merge, report
from tcprobe.run.backend import Device
from tcprobe.run.process import live_worker
from tcprobe.run.report import MOST_BYTES
from tcprobe.run.runner import Session
from tcprobe.sass import toolchain
from tcprobe.store import findings
from tcprobe.store.results import Results
from tcprobe.system import files
from tcprobe.system.children import Scratch, one_line

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
                _continue(known_report, path, Results(folder))
            places = ["--results", str(folder), "--report", str(path)]
            completed = scratch.call([*PROGRAM, "run", *places, *arguments], MOST_SECONDS)
            raw = files.read(path, MOST_BYTES)
        last_line = one_line(completed.stderr.strip().rpartition("\n")[2])
        answer = RunAnswer(None if raw is None else raw.decode(), completed.returncode, last_line)
    except Exception as error:
        answer = RunAnswer(None, 70, one_line(str(understood(error))))
    return msgspec.json.encode(answer).decode()


def _continue(known_report: str, path: Path, results: Results) -> None:
    """Save the findings of a report; uses the file `path` and removes it."""
    path.write_text(known_report, encoding="utf-8")
    with report.open_report(path) as source:
        findings.save_all(results, merge.own(source))
    path.unlink()
