"""One command of tcprobe under limits: how it ended, and what is wrong with that whatever was asked."""

from __future__ import annotations

import itertools
import os
import re
import signal
import subprocess
import sys
import threading
import time
import unicodedata
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import NamedTuple

limits = SimpleNamespace(seconds=12.0)  # of a command; more on a machine that is busy
MOST_MEGABYTES = 600
ADDRESS_SPACE_KB = 2 << 20
MOST_OUTPUT = 16 << 20
CODES = (0, 1, 2, 3, 4, 130, 141)
TOOLCHAIN = ("run", "lower", "diff", "doctor")
PLACE = os.environ.get("TCPROBE") or str(Path(sys.executable).with_name("tcprobe"))
_number = itertools.count()
NOBODY = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]


class Fault(NamedTuple):
    """`kind` is a column of the table: crashed, hung, wrong, torn or unclear; `what` the same for alike faults."""

    kind: str
    what: str
    detail: str = ""


@dataclass(frozen=True)
class Outcome:
    """How a command ended. `code` is negative after a signal; the folder's path reads HERE in both texts."""

    code: int
    out: str
    err: str
    seconds: float
    megabytes: int
    hung: bool
    left: tuple[str, ...] = ()


Judge = Callable[[Outcome, Path], Iterator[Fault]]


@dataclass(frozen=True)
class Trial:
    """A command: arguments of tcprobe, what judges the outcome, which files it may write (patterns).

    `shell` is what /bin/sh runs, with the command in "$@"; `nobody` drops the rights of root.
    """

    argv: tuple[str | bytes, ...]
    judge: Judge
    writes: tuple[str, ...] = ()
    shell: str = 'exec "$@"'
    nobody: bool = False
    environment: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Case:
    """A hostile input: `make` prepares a folder, in which each of `trials` then runs."""

    category: str
    name: str
    make: Callable[[Path], object]
    trials: tuple[Trial, ...]


def execute(trial: Trial, folder: Path) -> Outcome:
    """Run a trial in `folder`, its texts caught beside, everything that it left behind ended."""
    mark = f"tcprobe-hostile-{os.getpid()}-{next(_number)}"
    texts = [folder.with_name(f"{folder.name}.{end}") for end in ("out", "err")]
    began = time.monotonic()
    with open(texts[0], "wb") as out, open(texts[1], "wb") as err:
        process = subprocess.Popen(
            _shell(trial),
            cwd=folder,
            env=_environment(trial, folder, mark),
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=err,
            start_new_session=True,
        )
        status, usage, hung = _wait(process)
    seconds = time.monotonic() - began
    left = _end(process.pid, mark, trial) if not hung else ()
    out_text, err_text = (_text(path, folder) for path in texts)
    return Outcome(os.waitstatus_to_exitcode(status), out_text, err_text, seconds, usage >> 10, hung, left)


def _shell(trial: Trial) -> list[str | bytes]:
    rights = NOBODY if trial.nobody and os.geteuid() == 0 else []
    script = f"ulimit -v {ADDRESS_SPACE_KB}; {trial.shell}"
    return ["/bin/sh", "-c", script, "sh", *rights, PLACE, *trial.argv]


def _environment(trial: Trial, folder: Path, mark: str) -> dict[str, str]:
    kept = {name: os.environ[name] for name in ("PATH",) if name in os.environ}
    own = {"HOME": str(folder / "home"), "TMPDIR": str(folder / "tmp"), "LANG": "C.UTF-8", "HOSTILE": mark}
    own["PYTHONDONTWRITEBYTECODE"] = "1"  # limits would leave broken .pyc files
    return {**kept, **own, **trial.environment}


def _wait(process: subprocess.Popen[bytes]) -> tuple[int, int, bool]:
    """Status, kilobytes at most and whether the time ran out; the whole group is killed when it does."""
    late = threading.Event()

    def kill() -> None:
        late.set()
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)

    timer = threading.Timer(limits.seconds, kill)
    timer.start()
    _, status, usage = os.wait4(process.pid, 0)
    timer.cancel()
    process.returncode = os.waitstatus_to_exitcode(status)
    return status, usage.ru_maxrss, late.is_set()


def _end(group: int, mark: str, trial: Trial) -> tuple[str, ...]:
    """Names of processes that outlived the command, by its group and, with a toolchain, by its mark."""
    left = _marked(mark) if trial.argv and trial.argv[0] in TOOLCHAIN else []
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(group, signal.SIGKILL)
        left.append((group, "a process of its group"))
    for pid, _ in left:
        with suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGKILL)
    return tuple(name for _, name in left)


def _marked(mark: str) -> list[tuple[int, str]]:
    found = []
    for place in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if f"HOSTILE={mark}\0".encode() in (place / "environ").read_bytes() + b"\0":
                found.append((int(place.name), (place / "comm").read_text().strip()))
    return found


def _text(path: Path, folder: Path) -> str:
    with open(path, "rb") as file:
        raw = file.read(MOST_OUTPUT)
    path.unlink()
    return raw.decode("utf-8", "surrogateescape").replace(str(folder), "HERE")


@cache
def rights_can_go() -> bool:
    """Whether tcprobe runs without the rights of root: to root nothing is unreadable or read-only."""
    if os.geteuid():
        return True
    with suppress(OSError):
        return subprocess.run([*NOBODY, PLACE, "--version"], capture_output=True, check=False).returncode == 0
    return False


def faults(outcome: Outcome) -> Iterator[Fault]:
    """What no command may do, whatever it was asked."""
    if outcome.hung:
        yield Fault("hung", "no end in time", f"{limits.seconds:.0f} s")
        return
    both = outcome.out + outcome.err
    if outcome.code not in CODES:
        yield Fault("crashed", f"exit code {outcome.code}", last_line(outcome.err))
    elif re.search(r"Traceback \(most recent|Exception ignored|MemoryError|original exception was", both):
        yield Fault("crashed", f"traceback, {_exception(both)}", last_line(outcome.err))
    if outcome.megabytes > MOST_MEGABYTES:
        yield Fault("crashed", f"more than {MOST_MEGABYTES} MB", f"{outcome.megabytes} MB")
    if outcome.left:
        yield Fault("torn", "processes left", ", ".join(outcome.left))
    for name, text in (("stdout", outcome.out), ("stderr", outcome.err)):
        found = controls(text)
        if found:
            yield Fault("wrong", f"control characters on {name}", found)


def silence(trial: Trial, outcome: Outcome) -> Iterator[Fault]:
    """A refusal says why, briefly, unless nobody can hear it."""
    if "2>" not in trial.shell and outcome.code not in (0, 1) and not outcome.hung and not is_clear(outcome.err):
        yield Fault("unclear", "no brief message", f"exit {outcome.code}, {len(outcome.err)} characters on stderr")


def _exception(text: str) -> str:
    found = re.findall(r"^(\w+(?:Error|Exception|Interrupt))\b", text, re.MULTILINE)
    return found[-1] if found else "of some kind"


def last_line(text: str) -> str:
    """The last line of a text, cut and made harmless."""
    lines = text.strip().splitlines() or [""]
    return repr(lines[-1][:160])


def is_clear(err: str) -> bool:
    """Whether stderr explains something, briefly."""
    return bool(err.strip()) and len(err) < 4000 and "Traceback" not in err


def controls(text: str) -> str:
    """Names of the characters that steer a terminal or turn text round, empty without any."""
    found = {c for c in text if c != "\n" and (not c.isprintable()) and _steers(c)}
    return ", ".join(sorted(f"U+{ord(c):04X}" for c in found)[:5])


def _steers(character: str) -> bool:
    return unicodedata.category(character) in ("Cc", "Cf", "Cs", "Zl", "Zp")
