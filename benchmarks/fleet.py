"""How much faster two workers are than one, on compilers x archs: python benchmarks/fleet.py [FOLDER]...

Each FOLDER has a toolkit; without one, the installed one. A scheduler and workers of Dask run on this machine, each
worker with one thread and one core of its own, as machines of a core have it. Printed are wall seconds and the CPU
seconds of the busiest worker, by one worker and by two; where the machine has other work, CPU seconds are what wall
seconds would be. The folders of findings must be the same. Needs `pip install 'tcprobe[fleet]'`, and Linux.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

SCHEDULER = """
import asyncio, sys
from distributed import Scheduler
async def serve():
    async with Scheduler(host="127.0.0.1", port=0, dashboard=False) as scheduler:
        print(scheduler.address, flush=True)
        await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
asyncio.run(serve())
"""
WORKER = """
import asyncio, os, sys
from distributed import Worker
async def serve():
    os.sched_setaffinity(0, map(int, sys.argv[3:]))
    async with Worker(sys.argv[1], nthreads=int(sys.argv[2]), dashboard=False) as worker:
        print(worker.address, flush=True)
        await worker.finished()
asyncio.run(serve())
"""
CORES = sorted(os.sched_getaffinity(0))


class Machine(NamedTuple):
    """What a worker has: cores, runs at a time, and GPUs as CUDA_VISIBLE_DEVICES names them."""

    cores: Sequence[int]
    threads: int = 1
    gpus: str = ""


class Running(NamedTuple):
    """A worker's address and process."""

    address: str
    process: subprocess.Popen[str]


@contextlib.contextmanager
def fleet(machines: Sequence[Machine]) -> Iterator[tuple[str, list[Running]]]:
    """The address of a scheduler with a worker for each machine, and these."""
    with contextlib.ExitStack() as stack:

        def started(program: str, *words: str, gpus: str = "") -> Running:
            command, given = [sys.executable, "-c", program, *words], os.environ | {"CUDA_VISIBLE_DEVICES": gpus}
            pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
            process = stack.enter_context(subprocess.Popen(command, text=True, env=given, **pipes))
            stack.callback(process.kill)
            return Running(process.stdout.readline().strip(), process)

        address = started(SCHEDULER).address
        yield (
            address,
            [started(WORKER, address, str(m.threads), *map(str, m.cores), gpus=m.gpus) for m in machines],
        )


def used(process: int) -> float:
    """CPU seconds of a process and of its children that have ended."""
    words = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, words[11:15])) / os.sysconf("SC_CLK_TCK")


def digest(folder: Path) -> str:
    """How many files a folder has, and a hash of their names and bytes."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    content = b"".join(str(p.relative_to(folder)).encode() + p.read_bytes() for p in files)
    return f"{len(files)} files, {hashlib.sha256(content).hexdigest()[:12]}"


def run(workers: int, words: list[str]) -> tuple[float, float, str]:
    """Wall seconds, CPU seconds of the busiest worker, and a hash of what was found."""
    machines = [Machine([core]) for core in CORES[:workers]]
    with fleet(machines) as (address, running), tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "tcprobe", "run", "--method", "sass", "--scheduler", address, *words]
        begun, before = time.perf_counter(), [used(one.process.pid) for one in running]
        subprocess.run([*command, "--results", folder], check=True, stdout=subprocess.DEVNULL)
        wall = time.perf_counter() - begun
        busiest = max(used(one.process.pid) - b for one, b in zip(running, before, strict=True))
        return wall, busiest, digest(Path(folder))


def main(folders: list[str]) -> None:
    words = [word for folder in folders for word in ("--cuda", folder)]
    walls, cores, hashes = {}, {}, set()
    for workers in (1, 2):
        walls[workers], cores[workers], content = run(workers, words)
        hashes.add(content)
        said = f"{walls[workers]:.0f} s, busiest core {cores[workers]:.0f} CPU s, load {os.getloadavg()[0]:.1f}"
        print(f"{workers} of one core: {said}; {content}", flush=True)
    print(
        f"two are {walls[1] / walls[2]:.2f} times as fast as one by the clock, {cores[1] / cores[2]:.2f} by CPU seconds"
    )
    if len(hashes) > 1:
        sys.exit("their findings differ")


if __name__ == "__main__":
    main(sys.argv[1:])
