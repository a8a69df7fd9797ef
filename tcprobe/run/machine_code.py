"""The machine-code backend: `python -m tcprobe.run.machine_code ARCH PTXAS NVDISASM LIMIT`, a worker without a GPU.

Runs loads and stores of wmma fragments through `tcprobe.sass`. Multiplies are not interpreted: code does not
show what a tensor core does. A probe whose code cannot be followed is refused: "not read: ..." and why.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence

import numpy as np

from tcprobe.errors import ProbeError, UnreadProbeError
from tcprobe.isa import arch
from tcprobe.layout.arrays import Bytes
from tcprobe.probes.experiment import TimedCode
from tcprobe.probes.ptx import POISON, Kernel, Launch
from tcprobe.references.shared_memory.tensor_map import TensorMap
from tcprobe.run.backend import Device
from tcprobe.sass import toolchain
from tcprobe.sass.cubin import Code, assemble
from tcprobe.sass.decode import UnreadError
from tcprobe.sass.machine import Image, Machine
from tcprobe.sass.opcodes import OPCODES

# far apart, beyond 32 bits, and different in every byte, so that a wrong addition leaves the images
BASES = (0x7F12_3456_0000, 0x7E98_7654_0000)


class Sass:
    """One arch that the toolchain assembles for."""

    def __init__(self, name: str, tools: toolchain.Toolchain) -> None:
        self._row, self._tools = arch.arch(name), tools
        self._codes: dict[str, Code] = {}
        self._outputs: dict[tuple[object, ...], Bytes] = {}  # many kernels have the same code and the same input

    def devices(self) -> list[Device]:
        """The arch as a device."""
        return [Device(0, "machine code", self._row.name, "none", "none", self._tools.name, method="sass")]

    def open(self, index: int) -> None:
        """Nothing to do."""

    def load(self, kernels: Sequence[Kernel]) -> dict[str, str]:
        """Assemble and disassemble all kernels that move fragments."""
        moves = [k for k in kernels if k.op.from_code]
        codes, refused = assemble(self._tools, moves, self._row)
        self._codes |= codes
        return refused

    def unload(self, names: Iterable[str]) -> None:
        """Nothing to do: kernels of equal code share it and its outputs."""

    def timed_code(self, kernel: Kernel) -> TimedCode:
        """ProbeError: nothing is timed."""
        raise ProbeError(f"{kernel.name}: machine code does not show how long anything takes.")

    def shared_bytes(self) -> int:
        """ProbeError: machine code does not show the size of an SM's shared memory."""
        raise ProbeError("machine code does not show how much shared memory an SM has.")

    def map_result(self, tensor_map: TensorMap) -> str:
        """ProbeError: there is no driver."""
        raise ProbeError(f"machine code does not show what a driver says about {tensor_map}.")

    def run(self, launches: Sequence[Launch]) -> list[Bytes]:
        return [self._run(launch) for launch in launches]

    def _run(self, launch: Launch) -> Bytes:
        code = self._codes.get(launch.kernel.name)
        if code is None:
            raise UnreadProbeError(f"not read: {launch.kernel.name} is a multiply")
        key = (id(code), launch.inputs[0].tobytes(), launch.output_bytes, launch.ldm, launch.grid)
        try:
            if key not in self._outputs:
                self._outputs[key] = run(code, launch)
            return self._outputs[key]
        except UnreadError as error:
            raise UnreadProbeError(f"not read: {error}") from None


def run(code: Code, launch: Launch) -> Bytes:
    """The output of a launch of `code`; UnreadError if the code cannot be followed exactly."""
    if code.unread:
        raise UnreadError(next(iter(code.unread.values())))
    output = np.full(launch.output_bytes, POISON, np.uint8)
    images = [Image(BASES[0], launch.inputs[0].reshape(-1)), Image(BASES[1], output)]
    parameters = b"".join(i.base.to_bytes(8, "little") for i in images) + launch.ldm.to_bytes(4, "little")
    if code.parameter_bytes != len(parameters):
        raise UnreadError(f"the cubin has {code.parameter_bytes} bytes of parameters, the kernel {len(parameters)}")
    machine = Machine(launch.grid[0], images, parameters, code.parameter_base)
    machine.run(code.instructions, code.start, OPCODES)
    return output


if __name__ == "__main__":
    from tcprobe.run.worker import main

    main(lambda: Sass(sys.argv[1], toolchain.toolchain_of(sys.argv[2], sys.argv[3], float(sys.argv[4]))), method="sass")
