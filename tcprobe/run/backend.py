"""What runs launches: the protocol of backends, and the processes that each serve one.

`gpu` is the only file that imports CuPy; `emulator` is a tensor core with any layout, for tests. `worker` serves a
backend in a process of its own, which `tcprobe.run.runner` can replace when it dies or hangs. Nothing here imports
NumPy, so that such a process starts before the tool imports it.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from math import inf
from typing import TYPE_CHECKING, Protocol

from tcprobe.system import children
from tcprobe.system.worker import command

if TYPE_CHECKING:
    from tcprobe.layout.arrays import Bytes
    from tcprobe.probes.experiment import TimedCode
    from tcprobe.probes.ptx import Kernel, Launch
    from tcprobe.references.shared_memory.tensor_map import TensorMap


OUTPUTS_KEPT = 6  # how many results of `run` stay valid at a time


class BackendFaultError(Exception):
    """The device or its context is lost; nothing further can run in this process.

    `experiment` is the one that was running, if one was.
    """

    event = "fault"
    experiment: str | None = None


class BackendHangError(BackendFaultError):
    """What runs on the device does not end."""

    event = "hangs"


class BackendBugError(BackendFaultError):
    """An unexpected error; the device may be lost or not."""

    event = "bug"


@dataclass(frozen=True)
class Device:
    """A device as provenance names it. `arch` is sm_XX also for archs that tcprobe does not know."""

    index: int
    name: str
    arch: str
    driver: str
    cuda: str
    compiler: str
    method: str = "live"

    @property
    def maker(self) -> dict[str, str]:
        """What provenance says of it, in the order of `store.finding.MAKER`."""
        return {"device": self.name, "driver": self.driver, "cuda": self.cuda, "compiler": self.compiler}

    def to_json(self) -> dict[str, object]:
        return asdict(self)


class Backend(Protocol):
    """What the worker asks of a backend."""

    def devices(self) -> list[Device]:
        """All devices; EnvironmentUnfitError, saying what is missing, if the machine can have none."""

    def open(self, index: int) -> None:
        """Make device `index` the current one."""

    def load(self, kernels: Sequence[Kernel]) -> dict[str, str]:
        """Compile kernels; returns the compiler's words by name of each kernel that it refuses."""

    def unload(self, names: Iterable[str]) -> None:
        """Forget kernels; they are not run again."""

    def run(self, launches: Sequence[Launch]) -> list[Bytes]:
        """The outputs of all launches, valid for the next OUTPUTS_KEPT - 1 calls.

        BackendFaultError if the device is lost.
        """

    def timed_code(self, kernel: Kernel) -> TimedCode:
        """The opcodes that a loaded kernel times; its code must be `read`."""

    def shared_bytes(self) -> int:
        """Bytes of shared memory that an SM of the open device has."""

    def map_result(self, tensor_map: TensorMap) -> str:
        """The name of the driver's result code for a tensor map, such as CUDA_SUCCESS."""


COMMAND = command("tcprobe.run.live")


@dataclass(frozen=True)
class Worker:
    """The command of a worker, and after how many seconds of silence it counts as hung (None: never).

    From `until` on, by time.monotonic(), nobody waits for it.
    """

    command: tuple[str, ...] = field(default_factory=lambda: COMMAND)
    limit: float | None = 60.0
    until: float = inf

    def start(self) -> subprocess.Popen[bytes]:
        """Start it in a session of its own: Ctrl-C reaches only the tool, which then ends the worker."""
        return children.start(self.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True)


@dataclass(frozen=True)
class Relay(Worker):
    """A worker whose next process starts while one is at work (`prepare`), so that nobody waits for it."""

    _ready: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def start(self) -> subprocess.Popen[bytes]:
        """The process that is ready, or a new one."""
        process = self._ready.pop() if self._ready else super().start()
        return process if process.poll() is None else super().start()

    def prepare(self) -> None:
        """Start the next process. The one at work must have its context: some GPUs give no second one meanwhile."""
        if not self._ready:
            self._ready.append(super().start())

    def __enter__(self) -> Relay:
        return self

    def __exit__(self, *_: object) -> None:
        while self._ready:
            process = self._ready.pop()
            children.end(process)
            process.wait()


def live_worker(ptxas: str | None, limit: float) -> Worker:
    """A worker on the GPU; kernels are compiled by `ptxas`, or without one by the driver."""
    return Worker(live_command(ptxas, limit), limit)


def live_command(ptxas: str | None, limit: float) -> tuple[str, ...]:
    """The command of a worker on the GPU."""
    return command("tcprobe.run.live", ptxas, str(limit)) if ptxas else COMMAND


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
