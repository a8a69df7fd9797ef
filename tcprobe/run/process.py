"""Starting a worker process: apart from everything that needs NumPy, so that it starts before that is imported."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass, field

COMMAND = (sys.executable, "-m", "tcprobe.run.live")


def sass_command(arch: str, ptxas: str, nvdisasm: str) -> tuple[str, ...]:
    """The command of a worker that reads the machine code of an arch."""
    return (sys.executable, "-m", "tcprobe.run.machine_code", arch, ptxas, nvdisasm)


@dataclass(frozen=True)
class Worker:
    """How to start a worker, and after how many seconds without a word from it it counts as hung."""

    command: tuple[str, ...] = field(default_factory=lambda: COMMAND)
    limit: float = 60.0

    def start(self) -> subprocess.Popen[bytes]:
        """A process of its own session, so that Ctrl-C reaches the tool alone, which then ends it."""
        return subprocess.Popen(self.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True)
