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
    """An error that nobody expects: whether the device lives is not known."""

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
        """All devices; EnvironmentUnfitError says what is missing where there can be none."""

    def open(self, index: int) -> None:
        """Make device `index` the current one."""

    def load(self, kernels: Sequence[Kernel]) -> dict[str, str]:
        """Compile; the refused kernels by name, with the compiler's words."""

    def unload(self, names: Iterable[str]) -> None:
        """Forget kernels, which are not run again."""

    def run(self, launches: Sequence[Launch]) -> list[Bytes]:
        """The outputs of all launches, valid for the next OUTPUTS_KEPT - 1 calls.

        BackendFaultError if the device is lost.
        """

    def timed_code(self, kernel: Kernel) -> TimedCode:
        """What is timed in a loaded kernel whose code is `read`."""

    def shared_bytes(self) -> int:
        """Bytes of shared memory that an SM of the open device has."""

    def map_result(self, tensor_map: TensorMap) -> str:
        """What the driver says of a tensor map: CUDA_SUCCESS."""
