"""From an empty folder to a green check, played through: python benchmarks/contribution.py [ARCH] [MINUTES]

On an emulated GPU (sm_120, which is as documented) for so many minutes (1): `contribute`, `merge --check`, a clone, the
pull request's check, what a job of main derives, and the laws that it runs. Prints each command, what it said last, and
its seconds; exit code 1 if one is not as it should be.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
GPU = str(ROOT / "tests" / "first_minute.py")
LAWS = ("published", "tools", "compare", "derived")
SHOWN = 6  # last lines of what a command says


class Play:
    """Commands in a folder; `wrong` counts those that ended otherwise than they should."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.wrong = folder, 0

    def step(self, said: str, *command: str, allowed: tuple[int, ...] = (0,), clone: Path | None = None) -> None:
        """Run a command, print it as `said`, with what it says last."""
        begun = time.monotonic()
        environment = os.environ | ({"PYTHONPATH": str(clone)} if clone else {})
        done = subprocess.run(
            [sys.executable, *command],
            cwd=clone or self.folder,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        print(f"$ {said}")
        for line in (done.stdout + done.stderr).splitlines()[-SHOWN:]:
            print(f"    {line[:150].replace(f'{self.folder}/', '')}")
        good = done.returncode in allowed
        print(f"    {'ok' if good else 'WRONG'}, code {done.returncode}, {time.monotonic() - begun:.1f} s", flush=True)
        self.wrong += not good


def main(name: str = "sm_120", minutes: str = "1") -> int:
    """Play it through; 1 if a step went wrong."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        play, clone, begun = Play(folder), folder / "clone", time.monotonic()
        file = str(folder / "contribution.json.gz")
        play.step(f"tcprobe contribute --minutes {minutes}", GPU, "program", name, "contribute", "--minutes", minutes)
        size = Path(file).stat().st_size
        play.step(
            f"tcprobe merge contribution.json.gz --check    # {size:,} bytes", "-m", "tcprobe", "merge", file, "--check"
        )
        for part in ("tcprobe", "results", "tools", "tests", "docs", "benchmarks"):
            shutil.copytree(ROOT / part, clone / part, ignore=shutil.ignore_patterns("__pycache__"))
        for one in (*ROOT.glob("*.md"), ROOT / "pyproject.toml"):
            shutil.copy(one, clone / one.name)
        merged = ("merge", file, "--contributor", "somebody", "--results", "results")
        play.step(
            f"tcprobe {' '.join(merged).replace(file, 'contribution.json.gz')}", "-m", "tcprobe", *merged, clone=clone
        )
        theirs, ours = str(clone / "results"), str(ROOT / "results")
        play.step(
            "python tools/contribution.py theirs/results results", str(ROOT / "tools/contribution.py"), theirs, ours
        )
        play.step("python tools/derive.py", str(clone / "tools/derive.py"), clone=clone)
        tests = [str(clone / "tests" / f"test_{law}.py") for law in LAWS]
        said = f"python -m pytest {' '.join(f'tests/test_{law}.py' for law in LAWS)}"
        play.step(said, "-m", "pytest", "-q", "-n", "0", "-p", "no:cacheprovider", *tests, clone=clone)
        print(f"{name}, from an empty folder to a green check: {time.monotonic() - begun:.0f} s")
    return int(play.wrong > 0)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
