"""How far the clock falls under full load: one loop on every SM for a third of a second, by form and by data.

There are many more blocks than SMs, and an SM runs one block at a time. A block records cycles and nanoseconds of its
passes. Only blocks of the third quarter count: by then the clock has settled, and no SM is idle yet. All multiplies
have the same factors: zeros, or random numbers that keep sums finite.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from tcprobe.errors import ProbeError
from tcprobe.isa import inventory
from tcprobe.isa.arch import WARP, WARPGROUP
from tcprobe.isa.instruction import Instruction
from tcprobe.layout.arrays import Floats, Ints, Words
from tcprobe.probes import timing
from tcprobe.probes.cost import DECIMALS, KIND, OfRow, ProvedNumbers
from tcprobe.probes.cost_multiplies import Chained, round_of
from tcprobe.probes.cost_warpgroups import Flown
from tcprobe.probes.experiment import Bench, Context, Readout, array_of_text
from tcprobe.probes.proof import lines, stem
from tcprobe.probes.ptx import Kernel
from tcprobe.probes.timing import IMAGE_WORDS, RANDOM, ZEROS, Loop, TimedBlock
from tcprobe.store.kinds.cost import FULL_LOAD, Body, Clock, Data

__all__ = ("KIND", "experiments")
ROUNDS = 8192  # of a pass: some milliseconds
BLOCKS = 528  # four for each SM of the largest GPUs
SETTLED = slice(BLOCKS // 2, 3 * BLOCKS // 4)
WARPS, CHAINS = 8, 4
IMAGES: dict[Data, int] = {"zeros": ZEROS, "random": RANDOM}
FORMS = (
    "mma.m16n8k16.row.col.f32.f16.f16.f32",
    "mma.m16n8k8.row.col.f32.tf32.tf32.f32",
    "mma.m16n8k32.row.col.s32.s8.s8.s32",
    "mma.m16n8k4.row.col.f64.f64.f64.f64",
    "wgmma.mma_async.m64n256k16.f32.f16.f16",
    "wgmma.mma_async.m64n256k8.f32.tf32.tf32",
    "wgmma.mma_async.m64n256k32.f32.e4m3.e4m3",
    "wgmma.mma_async.m64n256k32.s32.s8.s8",
)


class FullLoad(OfRow):
    """The clock while all SMs run one form, with zeros and with random factors."""

    @property
    def id(self) -> str:
        """FULL_LOAD and the form's id."""
        return f"{FULL_LOAD}.{self.row.id}"

    @property
    def loop(self) -> Loop:
        """The loop in which the form reaches its interval."""
        wide = self.row.threads == WARPGROUP
        flown_or_chained = (
            Flown(self.row, CHAINS) if wide else Chained(self.row, chains=CHAINS, copies=round_of(self.row))
        )
        return replace(flown_or_chained.loop(), subject=self.id)

    def kernels(self) -> list[Kernel]:
        """The loop's kernel."""
        return [self.loop.kernel()]

    def measure(self, bench: Bench) -> Readout:
        """By data the cycles and nanoseconds of every pass, (BLOCKS, passes, 2); "code": the loop's opcodes."""
        kernel, alone = self.loop.kernel(), bench.shared_bytes() // 2 + 1024
        inputs = np.stack([np.zeros(IMAGE_WORDS, np.uint32), numbers(self.row.type("a"))]).view(np.uint8)
        launches = [
            timing.launch(kernel, [self.block(image)] * BLOCKS, alone, inputs.reshape(1, -1))
            for image in IMAGES.values()
        ]
        times = [timing.pass_times(*pair) for pair in zip(launches, bench.run(launches), strict=True)]
        code = array_of_text(lines({FULL_LOAD: bench.timed_code(kernel)}))
        return {**dict(zip(IMAGES, times, strict=True)), "code": code}

    def block(self, image: int) -> TimedBlock:
        """A block whose factors come from `image`."""
        if self.row.threads == WARP:
            return TimedBlock(WARPS * WARP, image, rounds=ROUNDS)
        usual = next(b for b in Flown(self.row, CHAINS).blocks() if b.image == RANDOM)
        return TimedBlock(2 * WARPGROUP, image, usual.words, ROUNDS)

    def conclude(self, reading: Readout, context: Context) -> Body:
        """The clocks; ProbeError unless the loop's machine code is as expected."""
        loop, proof = self.loop, ProvedNumbers(reading)
        each = {o: 1 for o in proof.each(FULL_LOAD) if stem(o).endswith("MMA") and "->" not in o}
        beside = Flown(self.row, CHAINS).beside if self.row.threads == WARPGROUP else {}
        proof.check_opcodes(FULL_LOAD, dict.fromkeys(each, loop.copies), beside)
        warps = self.block(ZEROS).threads // self.row.threads
        by_data = {data: _rates_and_cycles(reading[data]) for data in IMAGES}
        clocks = [
            Clock(
                data,
                round(float(np.median(rates)) * 1000, 0),
                round(float(np.median(cycles)) / (ROUNDS * loop.copies * warps), DECIMALS),
            )
            for data, (rates, cycles) in by_data.items()
        ]
        spread = max(float(np.ptp(cycles) / np.median(cycles)) for _, cycles in by_data.values())
        return Body(opcodes=dict.fromkeys(each, 1.0), spread=round(spread, 4), clocks=clocks)


def _rates_and_cycles(times: Ints) -> tuple[Floats, Floats]:
    """(cycles per nanosecond, cycles of a pass) of each block that counts, without the pass that warms up."""
    cycles, ns = (times[SETTLED, 1:, j].astype(float) for j in (0, 1))
    if (cycles <= 0).any() or (ns <= 0).any():
        raise ProbeError("a pass took no time.")
    return cycles.sum(axis=1) / ns.sum(axis=1), cycles.mean(axis=1)


def numbers(type_: str) -> Words:
    """Random numbers of a type: normal for f16, tf32 and f64, any bits for integers, small exponents for e4m3."""
    random = np.random.default_rng(0)
    normal = random.normal(size=2 * IMAGE_WORDS)
    if type_ == "f16":
        return normal.astype(np.float16).view(np.uint32)
    if type_ == "tf32":
        return normal[:IMAGE_WORDS].astype(np.float32).view(np.uint32)
    if type_ == "f64":  # a 64-bit register gets the word in both halves
        return (normal[:IMAGE_WORDS].view(np.uint64) >> np.uint64(32)).astype(np.uint32)
    whole = random.integers(0, 256, 4 * IMAGE_WORDS, np.uint8)
    if type_ == "e4m3":  # biased exponents below 8
        whole &= np.uint8(0xBF)
    return whole.view(np.uint32)


def rows() -> Sequence[Instruction]:
    """The forms that reach a GPU's peak rates, by type."""
    return [inventory.instructions()[id_] for id_ in FORMS]


def experiments() -> list[FullLoad]:
    """One experiment for each form."""
    return [FullLoad(row) for row in rows()]
