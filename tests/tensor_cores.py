"""Emulated tensor cores with tensor memory, for tests of what is measured of it."""

import random

import numpy as np
from bench import Live

from tcprobe.isa.arch import ARCHS
from tcprobe.isa.dtypes import dtype
from tcprobe.probes import dialogues
from tcprobe.probes.tensor_multiply_kernels import REGION
from tcprobe.run.emulator import Emulator

KIND = "tensor_memory"
ALL = dialogues(KIND)
D = "tcgen05.mma.cta_group::1.kind::f16.d.m64n64.f32"
EVERY_KIND = (
    D,
    "tcgen05.mma.cta_group::2.kind::f8f6f4.d.m128n64.f16",
    "tcgen05.mma.ws.cta_group::1.kind::i8.d.m32n64.s32",
    "tcgen05.mma.cta_group::1.kind::tf32.a.m128n64",
    "tcgen05.mma.sp.cta_group::1.kind::f16.e.m64n64.selector1",
    "tcgen05.mma.sp.cta_group::1.kind::mxf4.e.m128n64.selector0",
    "tcgen05.mma.cta_group::1.kind::mxf8f6f4.scale_a.m128n256.1x.selector3",
    "tcgen05.mma.cta_group::1.kind::mxf4nvf4.scale_b.m128n128.4x.selector0",
    "tcgen05.cp.64x128b.memory.warpx2::01_23",
)


class Core(Live, Emulator):
    """A tensor core that a test may change."""


def machine(experiment, kind=Core, **more):
    """An emulator of an arch that has the form."""
    return kind({}, name=next(row.name for row in ARCHS if experiment.target.on(row)), **more)


class Scattered(Core):
    """Elements anywhere, each in one, two or four places as far as there is room."""

    def __init__(self, tables, name, seed):
        super().__init__(tables, name=name)
        self.seed, self.known = seed, {}

    def in_tensor_memory(self, instruction, operand, said):
        key = (operand, said if operand == "memory" else (said.m, said.n, said.d_type, said.selector))
        if key not in self.known:
            self.known[key] = self.scattered(instruction, operand, said, random.Random(f"{self.seed} {operand}"))
        return self.known[key]

    def scattered(self, instruction, operand, said, rng):
        if operand == "memory":
            return anywhere(rng, (instruction.shape.m, instruction.shape.n), 1, (1, 2 * REGION, 32))
        copies = 1 << random.Random(self.seed).randrange(3)
        if operand == "d":
            return anywhere(rng, (said.m, said.n), copies, (said.ctas, said.n, dtype(said.d_type).bits))
        if operand == "a":
            return anywhere(rng, (said.m, said.stored), copies, (said.ctas, REGION, said.bits))
        if operand.startswith("scale_"):
            size = (said.m, said.vector) if operand == "scale_a" else (said.vector, said.n)
            return anywhere(rng, size, copies, (said.ctas, REGION, 8))
        _, _, span, bits = said.chunk  # the lower field of four bits is of the first elements of a chunk
        each = span * (4 // bits)
        four = anywhere(rng, (said.m, said.stored // each), copies, (said.ctas, REGION, 4)).repeat(each, axis=1)
        four[..., 2] += (np.arange(said.stored) // span % (4 // bits) * bits)[:, None]
        return four


def anywhere(rng, size, copies, memory):
    """Places of rows x cols elements, all different, in CTAs x 128 lanes x columns of parts of so many bits."""
    (rows, cols), (ctas, columns, bits) = size, memory
    parts = columns * 32 // bits
    copies = copies if rows * cols * copies <= ctas * 128 * parts else 1
    chosen = np.array(rng.sample(range(ctas * 128 * parts), rows * cols * copies)).reshape(rows, cols, copies)
    return np.stack([chosen // (128 * parts), chosen // parts % 128, chosen % parts * bits], axis=3)
