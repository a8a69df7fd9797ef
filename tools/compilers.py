"""Get versions of ptxas from the package index, and publish what all of them agree in.

    python3 tools/compilers.py                   the versions below; writes results/compilers.json, then the pages
    python3 tools/compilers.py 12.9.86 13.5.37   these

Versions are kept in a cache, TCPROBE_COMPILERS or tcprobe/compilers in the user's cache folder, 80 MB each, and are not
fetched again. Needs tcprobe and pip in the Python that runs it.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VERSIONS = (
    "11.7.99",
    "11.8.89",
    "12.0.140",
    "12.1.105",
    "12.2.140",
    "12.3.107",
    "12.4.131",
    "12.5.82",
    "12.6.85",
    "12.8.93",
    "12.9.86",
    "13.0.88",
    "13.1.115",
    "13.2.86",
    "13.3.73",
    "13.4.92",
    "13.5.37",
)
PACKAGES = {"11": "nvidia-cuda-nvcc-cu11", "12": "nvidia-cuda-nvcc-cu12"}  # later ones have no suffix


def cache() -> Path:
    """The folder that versions are kept in."""
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(os.environ.get("TCPROBE_COMPILERS") or Path(home) / "tcprobe" / "compilers")


def fetched(version: str) -> Path:
    """The folder of a version, which is installed there if it is not yet."""
    folder = cache() / version
    if not any(folder.glob("nvidia/*/bin/ptxas*")):
        name = PACKAGES.get(version.partition(".")[0], "nvidia-cuda-nvcc")
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps"]
        subprocess.run([*pip, "--target", str(folder), f"{name}=={version}"], check=True)
    return folder


def main(versions: list[str]) -> None:
    """Fetch, compare, publish."""
    folders = [word for version in versions or VERSIONS for word in ("--cuda", str(fetched(version)))]
    tcprobe = [sys.executable, "-m", "tcprobe"]
    done = subprocess.run([*tcprobe, "compilers", *folders, "--json"], cwd=ROOT, stdout=subprocess.PIPE, check=False)
    if done.returncode > 1:  # 1: something differs, which the page says
        sys.exit(done.returncode)
    (ROOT / "results" / "compilers.json").write_bytes(done.stdout)
    subprocess.run([*tcprobe, "pages", "--results", "results"], cwd=ROOT, check=True)


if __name__ == "__main__":
    if any(word.startswith("-") for word in sys.argv[1:]):
        sys.exit(__doc__)
    main(sys.argv[1:])
