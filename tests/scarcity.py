"""Commands that get little memory: they do their work or say that there is none, and leave nothing half-written.

`starve` runs a command of `WORKS` in a folder of its own under a limit of its address space, and says what was wrong.
Where an allocation fails is chance, so whatever the limit is, both ends are right.
"""

import shutil
import subprocess
from pathlib import Path

from faults import MOST_SECONDS, PYTHON, left, start_environment
from kills import Work, digests

from tcprobe.store.results import published

LIMITS = range(60, 601, 10)  # MB
CRASHES = ("Traceback", "internal error", "Fatal", "Exception", "OpenBLAS", "Stopped", "terminate")


def _measured(trial: Path) -> None:
    """A folder of measurements to be merged: one form, with its layouts."""
    whole, here = published().root, trial / "mine"
    (here / "sm_80" / "sass").mkdir(parents=True)
    for path in (whole / "sm_80" / "sass").glob("wmma.m8n8k4*.json"):
        shutil.copy(path, here / "sm_80" / "sass")
    shutil.copytree(whole / "layouts", here / "layouts")


FORMS = ("run", "wmma.m8n8k4.*", "--arch", "sm_80", "--method", "sass", "--results", "r")
WORKS = (
    Work("run", FORMS),
    Work("run whole", ("run", "--arch", "sm_80", "--method", "sass", "--results", "r")),
    Work("show", ("show", "wmma.m16n16k16.d.f32", "--arch", "sm_90")),
    Work("show formulas", ("emit", "wmma.m16n16k16.d.f32", "--arch", "sm_90", "--to", "sympy")),
    Work("where", ("where", "mma.m16n8k16.row.col.f32.f16.f16.f32.a", "--arch", "sm_80", "--row", "3", "--col", "9")),
    Work("merge", ("merge", "mine", "--contributor", "me", "--results", "r"), _measured),
    Work("site", ("site", "-o", "site")),
)


def starve(work: Work, megabytes: int, trial: Path, whole: dict[str, str]) -> tuple[int | None, list[str], str]:
    """Exit code, what was wrong, and stderr; `whole` has the digests of the files that the work makes unhindered."""
    work.prepare(trial)
    environment = start_environment(trial)
    shell = f'ulimit -c 0; ulimit -v {megabytes * 1000}; exec "$@"'
    command = ["/bin/sh", "-c", shell, "sh", *PYTHON, *work.arguments]
    try:
        done = subprocess.run(
            command, capture_output=True, timeout=MOST_SECONDS, check=False, env=environment, cwd=trial
        )
    except subprocess.TimeoutExpired as error:
        return None, ["hung"], (error.stderr or b"").decode(errors="replace")
    errors = done.stderr.decode(errors="replace")
    wrong = [*_unclear(done.returncode, errors), *left(environment), *_torn(done.returncode, digests(trial), whole)]
    return done.returncode, wrong, errors


def _unclear(code: int, errors: str) -> list[str]:
    wrong = [f"crashed: {word}" for word in CRASHES if word in errors]
    if code not in (0, 3):
        wrong.append(f"exit code {code}")
    if errors.count("Error: ") != (code == 3):
        wrong.append("no message" if code else "a message of no error")
    return wrong


def _torn(code: int, files: dict[str, str], whole: dict[str, str]) -> list[str]:
    wrong = [f"torn: {name}" for name, digest in files.items() if whole.get(name) != digest]
    return wrong + [f"missing: {name}" for name in whole if code == 0 and name not in files]
