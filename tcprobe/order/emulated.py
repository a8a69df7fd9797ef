"""A kernel's PTX as a call, without a GPU: each call emulates the launch with other operands in its buffers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np

from tcprobe.emulate import launch as launches
from tcprobe.emulate.launch import BufferArgument, Launch
from tcprobe.emulate.ptx import MOST_TEXT, Module, parse
from tcprobe.emulate.run import Options, emulate
from tcprobe.errors import UsageError
from tcprobe.layout.arrays import Array
from tcprobe.order.calls import CallError
from tcprobe.order.memory import numpy_type
from tcprobe.system import files


class Operands(NamedTuple):
    """The numbers of a launch's arguments that are A, B (None of a reduction) and D."""

    a: int
    b: int | None
    d: int


class Emulated:
    """A kernel of a file with its launch: called with A and B, it gives D, whose rows are contiguous.

    UsageError where the buffers of the launch have other sizes than the matrices, CallError where the kernel is wrong.
    """

    def __init__(self, path: Path, launch: Path, operands: Sequence[int], d: str, majors: tuple[str, str]) -> None:
        self.module: Module = parse(files.read_text(path, MOST_TEXT))
        self.launch = launches.run_python(launch) if launch.suffix == ".py" else launches.read(launch)
        self.name = self.module.kernel(self.launch.kernel).name
        self.operands = Operands(operands[0], None if len(operands) == 2 else operands[1], operands[-1])
        self.d, self.majors = numpy_type(d), majors
        for number in operands:
            if number >= len(self.launch.arguments) or not self._is_buffer(number):
                raise UsageError(f"`operands`: argument {number} of the launch is no buffer.")

    def _is_buffer(self, number: int) -> bool:
        return isinstance(self.launch.arguments[number], BufferArgument)

    @property
    def arch(self) -> str:
        """That of the text."""
        return self.module.target.rstrip("af")

    def __call__(self, x: Array, y: Array | None = None) -> Array:
        """D of A (m x k) and B (k x n)."""
        m, n = x.shape[0], 1 if y is None else y.shape[1]
        held: dict[int, Array] = {self.operands.d: np.zeros((m, n), self.d)}
        for number, side, major in zip((self.operands.a, self.operands.b), (x, y), self.majors, strict=True):
            if number is not None and side is not None:
                held[number] = np.ascontiguousarray(side if major == "row" else side.T)
        done = emulate(self.module, self._launch(held), Options())
        errors = done.report.errors
        if errors or not done.report.finished:
            why = errors[0].in_words if errors else "it does not come to its end"
            raise CallError(f"{self.name} is wrong under `tcprobe emulate`: {why}")
        return np.asarray(done.buffers[self.operands.d])

    def _launch(self, held: dict[int, Array]) -> Launch:
        arguments = list(self.launch.arguments)
        for number, array in held.items():
            argument = arguments[number]
            assert isinstance(argument, BufferArgument)
            if argument.array.nbytes != array.nbytes:
                sizes = " x ".join(map(str, array.shape))
                raise UsageError(
                    f"`operands`: argument {number} has {argument.array.nbytes} bytes in the launch; {sizes} of "
                    f"{array.dtype} are {array.nbytes}. The launch is that of one shape: give its `shape`."
                )
            arguments[number] = argument._replace(array=array, out=None)
        return replace(self.launch, arguments=arguments)
