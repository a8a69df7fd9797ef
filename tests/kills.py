"""Commands that are stopped at any moment: nothing may be torn or left behind, and the next run completes the work.

`stop` runs a command in a folder of its own, stops it by a signal after a while, runs it again, and says what was
wrong.
"""

import hashlib
import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from faults import MOST_SECONDS, PYTHON, left, start_environment

from tcprobe.store.results import Results, published

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGKILL)
STOPPED = {signal.SIGINT: 130, signal.SIGTERM: 143, signal.SIGKILL: -9}


@dataclass(frozen=True)
class Work:
    """A command, and what it needs in its folder."""

    name: str
    arguments: tuple[str, ...]
    prepare: Callable[[Path], None] = lambda _: None


def _some_results(trial: Path) -> None:
    """Tables of one arch, without pages."""
    (trial / "r").mkdir()
    for name in ("sm_80", "layouts"):
        shutil.copytree(published().root / name, trial / "r" / name, ignore=shutil.ignore_patterns("*.md"))


WORKS = (
    Work("run", ("run", "wmma.*", "--arch", "sm_80", "--method", "sass", "--results", "r")),
    Work("run, all archs", ("run", "wmma.m8n8k4.*", "--arch", "all", "--results", "r")),
    Work("run, with multiplies", ("run", "--arch", "sm_90", "--method", "sass", "--results", "r")),
    Work("lower", ("lower", "mma.m16n8k16.*", "--arch", "sm_80", "--save", "r")),
    Work("pages", ("pages", "--results", "r"), _some_results),
    Work("emit", ("emit", "wmma.*", "--to", "cuda", "--arch", "sm_80", "-o", "o.h")),
)


def stop(work: Work, how: signal.Signals, after: float, trial: Path, whole: dict[str, str]) -> list[str]:
    """What was wrong, with `whole` the digests of the files that the work makes where nobody stops it."""
    work.prepare(trial)
    environment = start_environment(trial)
    command = [*PYTHON, *work.arguments]
    process = subprocess.Popen(command, cwd=trial, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    _wait_until_it_listens(process)
    try:
        process.wait(after)
    except subprocess.TimeoutExpired:
        process.send_signal(how)
    try:
        _, errors = process.communicate(timeout=MOST_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        return ["hung"]
    found = left(environment)
    if process.returncode not in (0, STOPPED[how], -how):  # -how: after Python has put its handlers away
        found.append(f"exit code {process.returncode}")
    if b"Traceback" in errors or b"Error" in errors or b"xception" in errors:
        found.append(f"crashed: {errors.decode(errors='replace')[-300:]}")
    found += [f"torn: {name}" for name, digest in digests(trial).items() if name in whole and digest != whole[name]]
    return [*found, *_again(command, environment, trial, whole)]


def _wait_until_it_listens(process: subprocess.Popen[bytes]) -> None:
    """Before Python has read a line of tcprobe, a signal is Python's own to answer."""
    while process.poll() is None and not _caught(process.pid) & 1 << signal.SIGTERM - 1:
        time.sleep(0.002)


def _caught(process: int) -> int:
    """The signals that a process has handlers for, as bits."""
    with suppress(FileNotFoundError, ProcessLookupError):
        status = Path(f"/proc/{process}/status").read_text()
        return int(status.partition("SigCgt:")[2].split()[0], 16)
    return 0


def _again(command: list[str], environment: dict[str, str], trial: Path, whole: dict[str, str]) -> list[str]:
    """What is wrong after the command has been run once more."""
    done = subprocess.run(command, cwd=trial, env=environment, capture_output=True, check=False, timeout=MOST_SECONDS)
    found = [] if done.returncode == 0 else [f"second run: {done.returncode}, {done.stderr.decode()[-300:]}"]
    made = digests(trial)
    found += [f"not completed: {name}" for name in whole if made.get(name) != whole[name]]
    return found + [f"too much: {name}" for name in made if name not in whole] + left(environment)


def digests(trial: Path) -> dict[str, str]:
    """SHA-256 of every file that is not a part file, by name."""
    files = [p for p in trial.rglob("*") if p.is_file() and "tmp" not in p.relative_to(trial).parts]
    return {
        str(p.relative_to(trial)): hashlib.sha256(p.read_bytes()).hexdigest() for p in files if ".part" not in p.name
    }


def undisturbed(work: Work, trial: Path) -> tuple[dict[str, str], float]:
    """The digests of the files that the work makes, and how many seconds it takes."""
    work.prepare(trial)
    environment, start = start_environment(trial), time.monotonic()
    done = subprocess.run([*PYTHON, *work.arguments], cwd=trial, env=environment, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode(errors="replace")
    seconds = time.monotonic() - start
    for name in Results(trial / "r").archs():
        assert list(Results(trial / "r").measurements(name, "sass"))
    return digests(trial), seconds
