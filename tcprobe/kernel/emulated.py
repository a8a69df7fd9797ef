"""A GEMM kernel on the CPU: its PTX from nvcc, small whole matrices, and what the emulator finds.

All numbers are whole and small, so that products are exact whatever the order of their sums.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np

from tcprobe.emulate.launch import Argument, BufferArgument, Launch, MapArgument, check_shape, scalar
from tcprobe.emulate.ptx import parse
from tcprobe.emulate.report import Report, ReportAnswer
from tcprobe.emulate.run import Options, emulate
from tcprobe.kernel.compiled import compiled
from tcprobe.kernel.gemm import GemmKernel
from tcprobe.kernel.products import (
    UNWRITTEN,
    ProductSize,
    map_of,
    random_matrices,
    result_bits,
    rounded_bits,
)
from tcprobe.layout.arrays import Bits, Bytes
from tcprobe.question.answers import Meta, plain
from tcprobe.values import Json


class HostLines:
    """A matrix of bits, its lines a multiple of 16 bytes apart, with a gap that no kernel may write."""

    address = 16  # what it is a multiple of

    def __init__(self, bit_patterns: Bits, gap: int = 16) -> None:
        self.lines, self.length = bit_patterns.shape
        self.kind, size = bit_patterns.dtype, bit_patterns.itemsize
        self.used = self.length * size
        self.ld = -(-self.used // 16) * 16 + gap
        self.memory = np.full((self.lines, self.ld), UNWRITTEN, np.uint8)
        self.memory[:, : self.used] = np.ascontiguousarray(bit_patterns).view(np.uint8)

    def read(self, memory: Any) -> tuple[Bits, int]:
        """(values, bytes between the lines that have changed) of what a kernel made of it."""
        values = np.ascontiguousarray(memory[:, : self.used]).view(self.kind)
        return values, int((memory[:, self.used :] != UNWRITTEN).sum())


class ProductAnswer(ReportAnswer, before=True):
    """Of `--emulate`: a product on the CPU."""

    elements: Annotated[int, Meta(ge=1)]
    wrong: Annotated[int, Meta(ge=0, description="Elements that differ from NumPy's.")]
    outside: Annotated[int, Meta(ge=0, description="Bytes written outside D.")]


@dataclass(frozen=True)
class EmulatedProduct:
    """`wrong` of `elements` differ from NumPy's; bytes written `outside` D; what the emulator found."""

    elements: int
    wrong: int
    outside: int
    report: Report

    @property
    def right(self) -> bool:
        """Whether nothing is wrong."""
        return not (self.wrong or self.outside or self.report.wrong)

    def to_json(self) -> Json:
        answer = ProductAnswer.of(self.report.answer, elements=self.elements, wrong=self.wrong, outside=self.outside)
        return plain(answer)


def launch_of(
    kernel: GemmKernel, abd: tuple[HostLines, HostLines, HostLines], mnk: ProductSize, scales: list[Bytes]
) -> Launch:
    """The launch over A, B and D in memory, and scales; D's buffer is that of the parameter d."""
    a, b, d = abd
    named: dict[str, Argument] = {
        **{name: BufferArgument(lines.memory) for name, lines in zip("abd", abd, strict=True)},
        **{name: scalar("s32", side) for name, side in zip("mnk", mnk, strict=True)},
        **{f"ld{name}": scalar("s64", lines.ld) for name, lines in zip("abd", abd, strict=True)},
        **{name: BufferArgument(memory) for name, memory in zip(("sfa", "sfb"), scales, strict=False)},
    }
    parameters = kernel.parameters
    behind = [name for name in "ab" if f"map_{name}" in parameters]
    places = {name: n for n, name in enumerate([*parameters, *behind])}
    lines = {"a": a, "b": b, "d": d}
    for name in kernel.maps:
        named[f"map_{name}"] = MapArgument(map_of(kernel.maps[name], lines[name]), places[name])
    arguments = [named[name] for name in [*parameters, *behind]]
    cluster = (1, kernel.cluster, 1) if kernel.cluster > 1 else (1, 1, 1)
    shape = check_shape(kernel.grid(*mnk), kernel.block, cluster, kernel.shared_bytes)
    return Launch(kernel.name, shape, arguments)


def emulate_product(kernel: GemmKernel, mnk: ProductSize, options: Options | None = None) -> EmulatedProduct:
    """Run the kernel over a product of a size; EnvironmentUnfitError without nvcc."""
    module = parse(compiled(kernel.source, kernel.gemm.compiled_for, "ptx").decode())
    (a, b), images, scales = random_matrices(kernel, mnk)
    first, second, third = (HostLines(bits) for bits in (*images, ~result_bits(kernel, mnk)))
    launch = launch_of(kernel, (first, second, third), mnk, scales)
    done = emulate(module, launch, options)
    place = kernel.parameters.index("d")
    values, outside = third.read(done.buffers[place])
    wrong = int((values != rounded_bits(a @ b, kernel.gemm.out)).sum())
    return EmulatedProduct(values.size, wrong, outside, done.report)
