"""Backends run launches. Each is a class with the methods of `Backend`; probes know none of them.

`gpu` is the only file that imports CuPy; `emulator` is a tensor core with any layout, for tests.
`worker` serves a backend in a process of its own, which `tcprobe.run.runner` can replace when it dies or hangs.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:  # brings NumPy along
    from tcprobe.layout.arrays import Bytes
    from tcprobe.probes.experiment import TimedCode
    from tcprobe.probes.ptx import Kernel, Launch
    from tcprobe.references.shared_memory.tensor_map import TensorMap

OUTPUTS_KEPT = 6  # how many results of `run` stay valid at a time


class BackendFaultError(Exception):
    """The device or its context is lost; nothing further can run in this process."""

    event = "fault"


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

    def to_json(self) -> dict[str, object]:
        """Plain data."""
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
