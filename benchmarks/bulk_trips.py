"""What the round trip of cp.async.bulk depends on: python benchmarks/bulk_trips.py [--check]

Cycles from issue to the end of waiting, of one thread that copies from L2 into shared memory, and what changes them:

1. how the survey does it beside other ways to wait and to announce bytes, and all sizes at once beside one alone
2. from which SM, and from which address: each SM alone, the same bytes; then one SM, addresses 8 KB apart
3. the clock: an SM's cycles go by its own, those of L2 by another

`--check` assembles all loops by ptxas and needs no GPU.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from tcprobe.isa.arch import arch
from tcprobe.layout.arrays import Floats
from tcprobe.probes import dialogues, timing
from tcprobe.probes.cost_moves import BULK_COPIES as COPIES
from tcprobe.probes.cost_moves import BULKS, SIZES
from tcprobe.probes.cost_warpgroups import BLOCKS, numbers
from tcprobe.probes.timing import IMAGE_WORDS, TimedBlock, TimedLoop

if TYPE_CHECKING:
    from tcprobe.run.gpu import Gpu

BULK = BULKS[0]
SHOWN = tuple(SIZES.index(size) for size in (16, 1024, 4096, 16384, 65536))
SMS = 132
LOADED = "full-load.wgmma.mma_async.m64n256k16.f32.f16.f16"
PLACES = 64  # images that are read from: 8 KB apart
IMAGE_BYTES = 4 * IMAGE_WORDS


def changed(name: str, old: str, new: str) -> TimedLoop:
    """The survey's loop with other lines."""
    loop = BULK.loop()
    body = [line.replace(old, new) for line in loop.body]
    if body == loop.body:
        raise SystemExit(f"{name}: the loop has no {old}")
    return replace(loop, variant=name, body=body)


def announced_late() -> TimedLoop:
    """The copy is issued before its bytes are announced."""
    loop = BULK.loop()
    lines, each = list(loop.body), len(loop.body) // COPIES
    for start in range(0, len(lines), each):
        lines[start], lines[start + 1] = lines[start + 1], lines[start]
    return replace(loop, variant="late", body=lines)


def ways() -> dict[str, TimedLoop]:
    """The loops, by what is different in them."""
    return {
        "as the survey: try_wait": BULK.loop(),
        "test_wait": changed("test", "try_wait", "test_wait"),
        "bytes announced after the copy": announced_late(),
    }


def cycles(gpu: Gpu, loop: TimedLoop, blocks: Sequence[TimedBlock], inputs: int = PLACES * IMAGE_BYTES) -> Floats:
    """Of each block; nan for one without a thread."""
    data = np.zeros((1, inputs), np.uint8)
    launch = timing.launch(loop.kernel(), blocks, gpu.shared_bytes() // 2 + 1024, data)
    told = timing.pass_times(launch, gpu.run([launch])[0])
    used, passes, ns = [block.threads > 0 for block in blocks], told[:, :, 0], told[:, :, 1]
    RATES.append(float(np.median(passes[used, 2::2].sum(axis=1) / np.maximum(ns[used, 2::2].sum(axis=1), 1))))
    spent = (passes[:, 2::2].min(axis=1) - passes[:, 1::2].min(axis=1)) / ((timing.LONG - timing.SHORT) * COPIES)
    return np.where(used, spent, np.nan)


def block(size: int, image: int = 0) -> TimedBlock:
    """One thread that copies so many bytes from an image."""
    return TimedBlock(1, image, (size,))


IDLE = TimedBlock(0)
RATES: list[float] = []  # cycles a nanosecond, of every launch


def said(values: Floats) -> str:
    """Least, median and most."""
    return f"{np.nanmin(values):.0f}, {np.nanmedian(values):.0f}, {np.nanmax(values):.0f}"


def main() -> None:
    from tcprobe.run.gpu import Gpu

    gpu = Gpu()
    gpu.open(0)
    loops = ways()
    if refused := gpu.load([loop.kernel() for loop in loops.values()]):
        raise SystemExit(str(refused))
    sizes = [SIZES[number] for number in SHOWN]
    print(f"| one thread, cycles | {' | '.join(f'{size} bytes' for size in sizes)} |\n|---|{'--:|' * len(sizes)}")
    for name, loop in loops.items():
        together = cycles(gpu, loop, [block(size) for size in SIZES])[list(SHOWN)]
        alone = [cycles(gpu, loop, [block(size)])[0] for size in sizes]
        for words, found in (("all sizes at once", together), ("alone", alone)):
            print(f"| {name}; {words} | {' | '.join(f'{value:.1f}' for value in found)} |")
    usual = next(iter(loops.values()))
    print("\nleast, median and most of")
    for size in (16, 1024, 65536):
        by_sm = [
            cycles(gpu, usual, [block(size) if number == one else IDLE for number in range(SMS)])[one]
            for one in range(0, SMS, 3)
        ]
        print(f"  {len(by_sm)} SMs, one at a time, {size} bytes at one address: {said(np.array(by_sm))}")
        by_place = [cycles(gpu, usual, [block(size, image)])[0] for image in range(PLACES - 8)]
        print(f"  {len(by_place)} addresses, one SM, {size} bytes: {said(np.array(by_place))}")
        every = cycles(gpu, usual, [block(size)] * SMS)
        print(f"  {SMS} SMs at once, {size} bytes at one address: {said(every)}")
    both = np.array(
        [
            cycles(gpu, usual, [block(16, image) if number == one else IDLE for number in range(SMS)])[one]
            for one in range(0, SMS, 12)
            for image in range(0, PLACES - 8, 4)
        ]
    )
    print(f"  {both.size} pairs of SM and address, 16 bytes: {said(both)}")
    print(f"  cycles a nanosecond: {min(RATES):.3f} to {max(RATES):.3f}")
    slowed(gpu, usual)


def slowed(gpu: Gpu, loop: TimedLoop) -> None:
    """Right after all SMs multiplied random numbers, when their clock is lower: cycles, MHz and nanoseconds."""
    load = dialogues("cost")[LOADED]
    if refused := gpu.load(load.kernels()):
        raise SystemExit(str(refused))
    alone, random = gpu.shared_bytes() // 2 + 1024, numbers(load.row.type("a"))
    inputs = np.stack([random, random]).view(np.uint8).reshape(1, -1)
    heat = timing.launch(load.kernels()[0], [load.block(timing.RANDOM)] * BLOCKS, alone, inputs)
    print("\n| bytes, after a full load | cycles | MHz | nanoseconds |\n|---|--:|--:|--:|")
    for size in (16, 1024, 4096, 16384, 65536):
        data = np.zeros((1, PLACES * IMAGE_BYTES), np.uint8)
        launch = timing.launch(loop.kernel(), [block(size)], alone, data)
        for name, before in (("none", []), ("once", [heat]), ("twice", [heat, heat])):
            found = timing.decode(launch, gpu.run([*before, launch])[-1])[0]
            cycles_, rate = found[timing.RUNS], found[timing.RUNS + 1]
            print(f"| {size}, {name} | {cycles_:.1f} | {1000 * rate:.0f} | {cycles_ / rate:.1f} |")


def check() -> None:
    """Every loop holds the copies that were written."""
    from tcprobe.sass import toolchain
    from tcprobe.sass.cubin import assemble, timed_code

    for name, loop in ways().items():
        codes, refused = assemble(toolchain.find(), [loop.kernel()], arch("sm_90"))
        if refused:
            raise SystemExit(f"{name}: {refused}")
        code = timed_code([(16 * at, text) for at, text in enumerate(codes[loop.name].lines)])
        counts = Counter(opcode.split(".")[0] for opcode in code.loop)
        if counts[BULK.opcode] != COPIES:
            raise SystemExit(f"{name}: {counts}")
        print(f"{name}: {dict(counts)}")


if __name__ == "__main__":
    check() if "--check" in sys.argv[1:] else main()
