"""What `tcprobe audit` of all packages takes: python benchmarks/audit.py [PACKAGE=PYTHON]...

A package that is installed is asked here, another where an environment's PYTHON has it; the others are named. Printed
are layouts compared, wall seconds and CPU seconds of each audit, and of all together; where the machine has other work,
CPU seconds are what wall seconds would be. Needs Linux or macOS.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import time

from tcprobe.audit.adapters import adapters
from tcprobe.audit.package_audit import version


def used() -> float:
    """CPU seconds of the processes that have ended."""
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    return ended.ru_utime + ended.ru_stime


def audit(package: str, python: str | None) -> tuple[float, float, str]:
    """Wall seconds, CPU seconds, and what came of it."""
    elsewhere = ["--python", python] if python else []
    begun, before = time.perf_counter(), used()
    command = [sys.executable, "-m", "tcprobe", "audit", package, *elsewhere, "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    seconds = time.perf_counter() - begun, used() - before
    if done.returncode > 1:
        return *seconds, done.stderr.strip()
    found = json.loads(done.stdout)
    return *seconds, f"{found['version']}: {found['of']} compared, {found['differ']} differ"


def main(elsewhere: dict[str, str]) -> None:
    wall = cpu = 0.0
    for package in adapters():
        if package not in elsewhere and version(package) is None:
            print(f"{package}: not installed", flush=True)
            continue
        seconds, cores, words = audit(package, elsewhere.get(package))
        wall, cpu = wall + seconds, cpu + cores
        print(f"{package} {words}; {seconds:.1f} s, {cores:.1f} CPU s", flush=True)
    print(f"all: {wall:.0f} s, {cpu:.0f} CPU s, load {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main(dict(word.split("=", 1) for word in sys.argv[1:]))
