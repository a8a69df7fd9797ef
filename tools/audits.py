"""Audit earlier versions of a package, so that results/errata.json says since when a layout differs; make the pages.

    python3 tools/audits.py tensor-layouts 0.1.0 0.1.1 0.2.0
    python3 tools/audits.py tilelang --python ENVIRONMENT/bin/python 0.1.13 0.1.14 0.1.15
    python3 tools/audits.py tilelang --python ENVIRONMENT/bin/python --with apache-tvm-ffi==0.1.11 0.1.12

Each version is fetched from the package index without what it needs, but for what --with names, into a cache,
TCPROBE_AUDITED or tcprobe/audited in the user's cache folder, and stands before what the environment has: this
Python's, or another's. A version that cannot be asked is named and left out. Needs tcprobe and pip.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TCPROBE = [sys.executable, "-m", "tcprobe"]


def cache() -> Path:
    """The folder that versions are kept in."""
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(os.environ.get("TCPROBE_AUDITED") or Path(home) / "tcprobe" / "audited")


def fetched(wanted: list[str], python: str) -> Path:
    """The folder of packages, NAME==VERSION each, for a Python; they are installed there if they are not yet."""
    folder = cache() / ",".join(wanted)
    if not any(folder.glob("*.dist-info")):
        pip = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps"]
        subprocess.run([*pip, "--target", str(folder), *wanted], check=True)
    return folder


def audit(package: str, version: str, python: str | None, beside: list[str]) -> bool:
    """Audit a version, with packages beside it, and save what came of it; whether it could be asked."""
    folder = fetched([f"{package}=={version}", *beside], python or sys.executable)
    elsewhere = ["--python", python] if python else []
    command = [*TCPROBE, "audit", package, *elsewhere, "--save", str(ROOT / "results"), "--json"]
    done = subprocess.run(
        command, cwd=ROOT, env=os.environ | {"PYTHONPATH": str(folder)}, stdout=subprocess.DEVNULL, check=False
    )
    print(f"{package} {version}: {'audited' if done.returncode in (0, 1) else 'not audited'}", flush=True)
    return done.returncode in (0, 1)  # 1: something differs, which the page says


def main(words: list[str]) -> None:
    """Fetch, audit, publish."""
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("package")
    parser.add_argument("versions", nargs="+")
    parser.add_argument("--python")
    parser.add_argument("--with", dest="beside", action="append", default=[])
    given = parser.parse_intermixed_args(words)
    audited = [audit(given.package, version, given.python, given.beside) for version in given.versions]
    subprocess.run([*TCPROBE, "pages", "--results", "results"], cwd=ROOT, check=True)
    sys.exit(0 if all(audited) else 1)


if __name__ == "__main__":
    main(sys.argv[1:])
