"""Starts worker processes; imports nothing that needs NumPy, so that a worker starts before NumPy is imported."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from tcprobe.system import children
from tcprobe.system.worker import command

COMMAND = command("tcprobe.run.live")


@dataclass(frozen=True)
class Worker:
    """The command of a worker, and after how many seconds of silence it counts as hung (None: never)."""

    command: tuple[str, ...] = field(default_factory=lambda: COMMAND)
    limit: float | None = 60.0

    def start(self) -> subprocess.Popen[bytes]:
        """Start it in a session of its own: Ctrl-C reaches only the tool, which then ends the worker."""
        return children.start(self.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True)


def live_worker(ptxas: str | None, limit: float) -> Worker:
    """A worker on the GPU; kernels are compiled by `ptxas`, or without one by the driver."""
    return Worker(command("tcprobe.run.live", ptxas, str(limit)) if ptxas else COMMAND, limit)


@contextmanager
def ended_by_errors(*processes: subprocess.Popen[bytes] | None) -> Iterator[None]:
    """A context that ends workers, which were started early, if an error occurs inside."""
    try:
        yield
    except BaseException:
        for process in filter(None, processes):
            children.end(process)
            process.wait()
        raise


def sass_worker(arch: str, ptxas: str, nvdisasm: str, limit: float) -> Worker:
    """A worker that reads the machine code of an arch. `limit` bounds each call of a tool in seconds."""
    return Worker(command("tcprobe.run.machine_code", arch, ptxas, nvdisasm, str(limit)), limit=None)
