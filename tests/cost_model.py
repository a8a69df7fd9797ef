"""A machine whose clock follows a model, and loops that are mutated: what tests of costs have in common."""

import numpy as np

from tcprobe.isa.arch import WARP, arch
from tcprobe.probes import dialogues, timing
from tcprobe.probes.experiment import Context
from tcprobe.probes.timing import ROUNDS
from tcprobe.sass import toolchain
from tcprobe.sass.cubin import assemble, timed_code

HOPPER = arch("sm_90")
MMA = "mma.m16n8k16.row.col.f32.f16.f16.f32"
FP8 = "mma.m16n8k32.row.col.f32.e4m3.e4m3.f32"
WGMMA = "wgmma.mma_async.m64n256k16.f32.bf16.bf16"
LOAD = "ldmatrix.m8n8.x4.shared.b16"


MADE = {}


def codes(kernels):
    """The machine code of loops, by ptxas of this environment; each form once."""
    missing = [k for k in kernels if k.text not in MADE]
    lines, refused = assemble(toolchain.find(), missing, HOPPER) if missing else ({}, {})
    assert not refused
    MADE.update({k.text: code_of(lines[k.name]) for k in missing})
    return {k.name: MADE[k.text] for k in kernels}


def code_of(code):
    return timed_code([(code.start + 16 * j, text) for j, text in enumerate(code.lines)])


class Clock:
    """A GPU whose clock follows `cycles`(operation, block): cycles of one copy; what is around a loop takes 700."""

    device = HOPPER

    def __init__(self, cycles, codes, noise=0.0, rate=1.7):
        self.cycles, self.codes, self.rate = cycles, codes, rate
        self.noise = np.random.default_rng(0), noise

    def shared_bytes(self):
        return 233472

    def timed_code(self, kernel):
        return self.codes[kernel.name]

    def run(self, launches):
        return [self.one(launch) for launch in launches]

    def one(self, launch):
        plan = launch.inputs[1].view(np.uint32).reshape(-1, timing.ROW_WORDS)
        told = np.zeros((len(plan), len(ROUNDS) + 1, 2), np.uint32)
        rng, size = self.noise
        assert launch.grid == (len(plan) * launch.kernel.op.ctas, 1, 1)
        assert not plan[:, -1].any()
        assert launch.shared_bytes > self.shared_bytes() / 2
        for row, out in zip(plan, told, strict=True):
            assert row[0] <= launch.threads <= timing.MOST_THREADS
            rounds = row[2 + timing.MOST_WORDS :][: len(ROUNDS)].astype(np.int64)
            each = self.cycles(launch.kernel.op, row) * launch.kernel.op.copies
            made = 700 + rounds * each + np.abs(rng.normal(0, size, len(rounds)))
            out[: len(ROUNDS), 0] = made.round()
            out[: len(ROUNDS), 1] = (made / self.rate).round()
        return told.view(np.uint8).reshape(-1)


def concluded(id_, cycles, **more):
    experiment = dialogues("cost")[id_]
    bench = Clock(cycles, codes(experiment.kernels()), **more)
    return experiment.conclude(experiment.measure(bench), Context(HOPPER, lambda _: None))


def core(latency, interval, one_warp):
    """A tensor core: a chain waits for its latency, a warp for its own interval, all warps for the SM's."""

    def cycles(op, row):
        warps, shape = int(row[0]) // WARP, op.variant.split("_")[0]
        if shape in ("a", "b"):
            return latency[shape]
        chains = int(shape[1:]) if shape[:1] == "c" and shape[1:].isdigit() else 1
        return max(latency["c"] / chains, one_warp, interval * warps)

    return cycles
