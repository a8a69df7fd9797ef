"""Set-up and the two main jobs from a fresh clone, with Python 3.11 or later and a package index only.

    python3 tools/dev.py demo                the main job: measure on the GPU, or without one read sm_80 from machine
                                             code; then fit, show and compare; tables go to .venv/demo
    python3 tools/dev.py test                lint, types, tests with a sample of each slow one: minutes on two cores
    python3 tools/dev.py quick WORD...       lint, types, and the tests whose files have a word in their name
    python3 tools/dev.py test --all          the same with every case, as CI runs it
    python3 tools/dev.py test --consumers    the few tests that give emitted code to CuTe DSL, JAX, Numba, tinygrad and
                                             Triton, which are large: CI runs these after the others
    python3 tools/dev.py test --tilelang     the same and tilelang, which brings PyTorch

All make their own environment in .venv and lean on nothing else that is installed. What follows `test` goes to pytest.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
BIN = VENV / ("Scripts" if os.name == "nt" else "bin")

BROWSERS = ("chromium", "chromium-browser", "google-chrome")  # as tests/site_chromium.py looks for them
LARGE = {"--consumers": "[dev,consumers]", "--tilelang": "[dev,consumers,tilelang]"}  # extras by flag
SHOWN = "mma.m16n8k8.row.col.f32.f16.f16.f32.b"  # its picture has 4 lines
DONE = """
Your tables are in {folder}. Try next:
  {tcprobe} where m16n8k16 bf16 f32 a --row 3 --col 9
  {tcprobe} convert m16n8k16 f16 f32 d m16n8k16 f16 f32 a
  {tcprobe}                 # six tasks, a command each"""


def run(*command: str) -> None:
    """Run a command of the environment in the project's folder; end with its exit code if it fails."""
    print("$", *command, flush=True)
    call([str(BIN / command[0]), *command[1:]], cwd=ROOT, env=clean())


def said(*command: str) -> str:
    """What a command of the environment prints, its talk and progress aside; end with its exit code if it fails."""
    words = [str(BIN / command[0]), *command[1:]]
    done = subprocess.run(words, cwd=ROOT, env=clean(), stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        sys.exit(done.stdout + f"{command[0]} {command[1]} ended with code {done.returncode}")
    return done.stdout


def clean() -> dict[str, str]:
    """The environment without what would lead Python elsewhere."""
    return {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}


def call(command: list[str], **how: Any) -> None:
    """Run a command; end with its exit code if it fails, with a message if it cannot be run."""
    try:
        code = subprocess.run(command, check=False, **how).returncode
    except OSError as error:
        sys.exit(f"{command[0]} cannot be run: {error.strerror}. Remove {VENV}, and it is made again.")
    if code:
        sys.exit(code if code > 0 else 128 - code)


def install(extras: str) -> None:
    """Make .venv if there is none, and install the project with `extras` into it."""
    if not (BIN / ("python.exe" if os.name == "nt" else "python")).exists():
        print("making", VENV, flush=True)
        call([sys.executable, "-m", "venv", str(VENV)])
    run("python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--editable", f".{extras}")


def cuda_extra() -> str:
    """The extra with the CuPy for this machine's driver, empty without an NVIDIA driver."""
    if not shutil.which("nvidia-smi"):
        return ""
    try:
        text = subprocess.run(["nvidia-smi"], capture_output=True, text=True, check=False, timeout=60).stdout
    except (OSError, subprocess.TimeoutExpired):
        return ""
    version = re.search(r"CUDA Version:\s*(\d+)", text)
    return f"[cuda{min(int(version[1]), 13)}]" if version and int(version[1]) >= 12 else ""


def demo() -> None:
    """The main job, told in thirty lines: measure, one picture with its formula, who agrees, what to try next."""
    extra = cuda_extra()
    install(extra)
    folder, mine = str(VENV / "demo"), ["--results", str(VENV / "demo"), "--only"]
    what = "on this GPU" if extra else "on sm_80, by machine code"
    print(f"\n1. Measure which lane and register holds which element, {what}", flush=True)
    done = said("tcprobe", "run", *([] if extra else ["--arch", "sm_80", "--method", "sass"]), "--results", folder)
    print(*(f"   {line}" for line in done.splitlines() if not line.startswith(" ")), sep="\n")
    print(f"\n2. One of the tables: operand B of {SHOWN.removesuffix('.b')}, by `tcprobe show`")
    head, _, rest = said("tcprobe", "show", SHOWN, *mine).partition("layout ")
    print("\n".join(head.splitlines()[2:]))
    print(rest.partition("\n\n")[2].partition("\n\n")[0])
    print("\n3. Who publishes the same tables, by `tcprobe compare`")
    print(said("tcprobe", "compare", *mine).partition("\ntables:")[0])
    print(DONE.format(folder=shown(folder), tcprobe=shown(BIN / "tcprobe")))


def shown(path: str | Path) -> str:
    """A path as it may be typed here: relative where it lies below."""
    path = Path(path)
    return str(path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path)


def quick() -> None:
    """Lint, types, and the tests of what is worked on, by words in the names of their files."""
    words = [word for word in sys.argv[2:] if not word.startswith("-")]
    chosen = sorted({str(path) for word in words for path in (ROOT / "tests").glob(f"test_*{word}*.py")})
    if not chosen:
        sys.exit(f"no file tests/test_*WORD*.py for {' '.join(words) or 'no word'}: quick check, quick emulate order")
    install("[dev]")
    lint()
    run("python", "-m", "pytest", "-q", *chosen, *(word for word in sys.argv[2:] if word.startswith("-")))


def lint() -> None:
    """Lint and types."""
    run("ruff", "check", ".")
    run("ruff", "format", "--check", ".")
    run("mypy")


def test() -> None:
    """Lint, types, tests; or with a flag of LARGE the tests that need the large packages, and nothing else."""
    given = [word for word in sys.argv[2:] if word not in LARGE]
    large = [extras for flag, extras in LARGE.items() if flag in sys.argv[2:]]
    if large:
        install(large[-1])
        run("python", "-m", "pytest", "-m", "consumer", *given)
        return
    install("[dev,browser]" if any(map(shutil.which, BROWSERS)) else "[dev]")
    lint()
    run("python", "-m", "pytest", "--numprocesses", "auto", *given)


if __name__ == "__main__":
    if sys.version_info < (3, 11):  # noqa: UP036  (this runs before anything checks it)
        sys.exit(f"tcprobe needs Python 3.11 or later; this is {sys.version.split()[0]}.")
    jobs = {"demo": demo, "quick": quick, "test": test}
    if len(sys.argv) < 2 or sys.argv[1] not in jobs:
        sys.exit(__doc__)
    try:
        jobs[sys.argv[1]]()
    except KeyboardInterrupt:
        sys.exit(130)
