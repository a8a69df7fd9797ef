"""Runs cases, two at a time, and counts."""

from __future__ import annotations

import fnmatch
import os
import shutil
import stat
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from .board import Case, Fault, Outcome, Trial, execute, faults, is_clear, silence

KINDS = ("crashed", "hung", "wrong", "torn", "unclear")
SCRATCH = ("home", "tmp")
MOST_HANGS = 2  # on one input; what is left of its commands would hang as well


@dataclass(frozen=True)
class Finding:
    """A fault of one command on one input."""

    category: str
    case: str
    argv: tuple[str | bytes, ...]
    fault: Fault
    code: int
    err: str


@dataclass
class Tally:
    """What a category came to: inputs, commands, commands refused clearly, and how many inputs have which fault."""

    inputs: int = 0
    commands: int = 0
    clear: int = 0
    seconds: float = 0.0
    megabytes: int = 0
    kinds: Counter[str] = field(default_factory=Counter)


@dataclass
class Report:
    """Of a whole campaign. `left_out` counts inputs that the time did not suffice for."""

    tallies: dict[str, Tally] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)
    left_out: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    def add(self, case: Case, outcomes: list[Outcome], found: list[Finding]) -> None:
        """Count one case."""
        with self.lock:
            tally = self.tallies.setdefault(case.category, Tally())
            tally.inputs += 1
            tally.commands += len(outcomes)
            tally.clear += sum(o.code > 0 and is_clear(o.err) for o in outcomes)
            tally.seconds = max([tally.seconds, *(o.seconds for o in outcomes)])
            tally.megabytes = max([tally.megabytes, *(o.megabytes for o in outcomes)])
            tally.kinds.update({f.fault.kind for f in found})
            self.findings += found


def campaign(cases: Iterable[Case], seconds: float, jobs: int = 2, keep: Path | None = None) -> Report:
    """Run the cases until the time is up; folders go below `keep` and stay there, if it is given."""
    report, end = Report(), time.monotonic() + seconds

    def one(case: Case) -> None:
        if time.monotonic() > end:
            with report.lock:
                report.left_out += 1
            return
        report.add(case, *attempt(case, keep))

    with ThreadPoolExecutor(jobs) as pool:
        for done in [pool.submit(one, case) for case in cases]:
            done.result()
    return report


def attempt(case: Case, keep: Path | None = None) -> tuple[list[Outcome], list[Finding]]:
    """All trials of a case, each in a folder as `make` leaves it."""
    place = Path(tempfile.mkdtemp(prefix="hostile-", dir=keep))
    place.chmod(0o755)
    outcomes, found, before = [], [], None
    try:
        for number, trial in enumerate(case.trials):
            folder = place / f"{number:02}"
            if before is None:
                prepare(case, folder)
                before = snapshot(folder)
            else:
                (place / f"{number - 1:02}").rename(folder)
            outcome = execute(trial, folder)
            after = snapshot(folder)
            outcomes.append(outcome)
            found += [
                Finding(case.category, case.name, trial.argv, fault, outcome.code, outcome.err)
                for fault in [
                    *faults(outcome),
                    *silence(trial, outcome),
                    *(() if outcome.hung else changes(trial, before, after)),
                    *judged(trial, outcome, folder),
                ]
            ]
            if after != before:
                before = None
                remove(folder, keep)
            if sum(o.hung for o in outcomes) >= MOST_HANGS:
                break
    finally:
        remove(place, keep)
    return outcomes, found


def judged(trial: Trial, outcome: Outcome, folder: Path) -> list[Fault]:
    """What the trial's own judge says, where there is an outcome to judge; what it cannot read is not an answer."""
    try:
        answered = not any(fault.kind in ("crashed", "hung") for fault in faults(outcome))
        return list(trial.judge(outcome, folder)) if answered else []
    except (ValueError, TypeError, LookupError, AttributeError, SyntaxError, OSError) as error:
        return [Fault("wrong", "an answer that cannot be read", f"{type(error).__name__}: {error}")]


def prepare(case: Case, folder: Path) -> None:
    """A fresh folder for a case, with a home and a place for temporary files of its own."""
    folder.mkdir()
    for name in SCRATCH:
        (folder / name).mkdir()
        (folder / name).chmod(0o777)
    case.make(folder)


def snapshot(folder: Path) -> dict[str, tuple[int, int, int, str]]:
    """Kind, size and time of every file below a folder, links not followed."""
    found = {}
    for path in walk(str(folder)):
        info = os.lstat(path)
        link = os.readlink(path) if stat.S_ISLNK(info.st_mode) else ""
        size = 0 if stat.S_ISDIR(info.st_mode) else info.st_size
        moment = 0 if stat.S_ISDIR(info.st_mode) else info.st_mtime_ns
        found[os.path.relpath(path, folder)] = (info.st_mode, size, moment, link)
    return found


def walk(folder: str) -> Iterator[str]:
    """Every path below a folder."""
    for entry in os.scandir(folder):
        yield entry.path
        if entry.is_dir(follow_symlinks=False):
            yield from walk(entry.path)


def changes(trial: Trial, before: dict[str, tuple[int, int, int, str]], after: dict[str, object]) -> Iterator[Fault]:
    """Files that the trial may not have made, changed or removed; those of one that was killed do not count."""
    for name in sorted({n for n in {**before, **after} if before.get(n) != after.get(n)}):
        if name.endswith(".part") or not any(fnmatch.fnmatch(name, pattern) for pattern in trial.writes):
            verb = "made" if name not in before else "changed" if name in after else "removed"
            yield Fault("torn", f"a file was {verb}", repr(name))


def remove(folder: Path, keep: Path | None) -> None:
    """Remove a folder of a case, unless it is to be kept."""
    if keep is None:
        shutil.rmtree(folder, ignore_errors=True)


def shown(word: str | bytes) -> str:
    """An argument as it may be printed."""
    text = word if isinstance(word, str) else word.decode("utf-8", "surrogateescape")
    return text if text.isprintable() and text.isascii() else repr(text)
