"""Starting a worker process: apart from everything that needs NumPy, so that it starts before that is imported."""

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
    """How to start a worker, and after how many seconds without a word from it it counts as hung (None: never)."""

    command: tuple[str, ...] = field(default_factory=lambda: COMMAND)
    limit: float | None = 60.0

    def start(self) -> subprocess.Popen[bytes]:
        """A process of its own session, so that Ctrl-C reaches the tool alone, which then ends it."""
        return children.start(self.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True)


def live_worker(ptxas: str | None, limit: float) -> Worker:
    """A worker on the GPU; what a ptxas makes runs there, or without one what the driver's compiler makes."""
    return Worker(command("tcprobe.run.live", ptxas, str(limit)) if ptxas else COMMAND, limit)


@contextmanager
def ended_by_errors(*processes: subprocess.Popen[bytes] | None) -> Iterator[None]:
    """Workers that were started early do not outlive an error, also one that comes before anybody takes them."""
    try:
        yield
    except BaseException:
        for process in filter(None, processes):
            children.end(process)
            process.wait()
        raise


def sass_worker(arch: str, ptxas: str, nvdisasm: str, limit: float) -> Worker:
    """A worker that reads the machine code of an arch. `limit` is for each call of a tool: nothing else can hang."""
    return Worker(command("tcprobe.run.machine_code", arch, ptxas, nvdisasm, str(limit)), limit=None)
