"""Kernels for Blackwell spoilt by one wait, fence, phase, descriptor bit, swizzle or address, emulated: who is noticed.

    python benchmarks/spoilt_blackwell.py --out spoilt.csv --seconds 600

A spoilt kernel is noticed if the emulator finds something, an element is wrong, or it does not end; it is run with work
in flight as late as can be, then as early, then at random. k is five tiles and a part of one, with two stages; D has
ends on both sides. Goes on where --out ends. Needs nvcc, no GPU.
"""

import argparse
import csv
import re
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import blackwell_edits

from tcprobe.emulate.run import Options
from tcprobe.errors import EnvironmentUnfitError, TcprobeError
from tcprobe.kernel.emulated import emulate_product
from tcprobe.kernel.gemm import GemmKernel, GemmOptions, gemm
from tcprobe.kernel.staged import SCALED

SCHEDULES = (("late", 0), ("early", 0), ("random", 1), ("random", 2))
MOST = 400_000  # instructions of warps: forty times what a right kernel takes
KERNELS = {
    "nvf4, pair": GemmOptions("sm_100", "nvf4", (128, 128, 256), stages=2, cta_group=2),
    "f16": GemmOptions("sm_100", "f16", (128, 32, 64), stages=2),
    "sm_120 nvf4": GemmOptions("sm_120", "nvf4", (128, 64, 128), stages=2),
    "bf16, mn, f32": GemmOptions("sm_100", "bf16", (128, 64, 64), stages=2, a="col", b="row", out="f32"),
    "sm_120 mxf8": GemmOptions("sm_120", "mxf8", (64, 64, 128), stages=2, warps=(2, 2)),
    "e4m3, pair": GemmOptions("sm_100", "e4m3", (128, 64, 128), stages=2, cta_group=2),
    "mxf8": GemmOptions("sm_100", "mxf8", (128, 128, 128), stages=2),
    "tf32": GemmOptions("sm_100", "tf32", (128, 32, 32), stages=2),
}
BITS = {  # of a descriptor in shared memory: name, bit
    "stride": 32 + 6,
    "swizzle": 61,
    "version": 46,
    "base offset": 49,
    "start": 3,
}

HARMLESS = {
    "after a stage is full": "the thread that has waited multiplies itself; CUTLASS's loop has no fence there",
    "the stage that is multiplied": "where tiles are even in number, two change places; the sum is the same",
    "k that there is": "what is read of A beyond k meets the zeros of B",
}


def spoilt(made: GemmKernel) -> Iterator[tuple[str, str, str]]:
    """(kind, what, source) of each edit that the kernel's text has a place for."""
    yield from edited(made)
    if made.maps:
        for what, source in (*descriptors(made), *instruction(made)):
            yield "descriptor", what, source


def edited(made: GemmKernel) -> Iterator[tuple[str, str, str]]:
    """Those of the tables."""
    group = f"cta_group::{made.cluster}"
    edits = blackwell_edits.TCGEN05 if made.maps else blackwell_edits.MMA_SYNC
    for kind, what, (text, instead) in ((kind, *edit) for kind, of in edits.items() for edit in of.items()):
        if text.startswith("re:"):
            changed = re.sub(text[3:], instead, made.source, count=1, flags=re.DOTALL)
        else:
            changed = made.source.replace(text, instead.replace("@GROUP@", group), 1)
        narrow, nvf4 = made.gemm.tile[1] < 64, made.gemm.type == "nvf4"  # where these two edits say the same
        same = (what == "too few columns" and narrow) or (what == "the byte of the scales" and nvf4)
        if changed != made.source and not same:
            yield kind, what, changed


def descriptors(made: GemmKernel) -> Iterator[tuple[str, str]]:
    """(what, source): a bit of a descriptor in shared memory."""
    for name in "ab":
        found = re.search(rf"unsigned long long {name} = (0x[0-9a-f]+)ull", made.source)
        for field, bit in BITS.items():
            word = f"{int(found[1], 16) ^ 1 << bit:#018x}"
            yield f"{field} of {name.upper()}", made.source.replace(found[0], found[0].replace(found[1], word), 1)


def instruction(made: GemmKernel) -> Iterator[tuple[str, str]]:
    """(what, source): a bit of the instruction descriptor."""
    word = re.search(r", (0x[0-9a-f]{8})u, ", made.source)[1]
    scaled = made.gemm.instruction.kind.startswith("mx")
    fields = {"M": 27 if scaled else 24, "N": 18, "type of A": 7, "type of B": 10}
    fields |= {"major of A": 15, "major of B": 16, "sign of A": 13}
    fields |= {"ID of scales": 29, "type of scales": 23} if scaled else {"type of D": 4}
    for field, bit in fields.items():
        yield f"{field} of the instruction", made.source.replace(word, f"{int(word, 16) ^ 1 << bit:#010x}")


def noticed(made: GemmKernel) -> str:
    """By which schedule and how; empty where it is not."""
    size = (140 if made.gemm.type in SCALED else 100, made.gemm.tile[1] + 6, made.gemm.tile[2] * 5 + 40)
    for schedule, seed in SCHEDULES:
        try:
            found = emulate_product(made, size, Options(most=MOST, schedule=schedule, seed=seed))
        except EnvironmentUnfitError:
            raise  # the edit is no CUDA
        except TcprobeError as error:
            return f"{schedule}: {str(error)[:100]}"
        if found.report.errors:
            first = found.report.errors[0]
            return f"{schedule}: {first.rule}: {first.text[:80]}"
        if not found.right:
            return f"{schedule}: {found.wrong} wrong, {found.outside} outside, finished {found.report.finished}"
    return ""


def main() -> None:
    """Goes on where the file ends; prints the table of what it has."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--kernel", choices=KERNELS, action="append", help="of these kernels only")
    asked = parser.parse_args()
    began = time.monotonic()
    done = list(csv.reader(asked.out.open())) if asked.out.exists() else []
    known = {tuple(row[:3]) for row in done}
    with asked.out.open("a", newline="") as file:
        writer = csv.writer(file)
        for name in asked.kernel or KERNELS:
            made = gemm(KERNELS[name])
            for kind, what, source in [("none", "as it is", made.source), *spoilt(made)]:
                if (name, kind, what) in known or time.monotonic() - began > asked.seconds:
                    continue
                row = [name, kind, what, noticed(replace(made, source=source))]
                writer.writerow(row)
                file.flush()
                done.append(row)
    there = {(name, kind, what) for name, options in KERNELS.items() for kind, what, _ in spoilt(gemm(options))}
    done = [row for row in done if tuple(row[:3]) in there or row[1] == "none"]
    explained = [row for row in done if not row[3] and row[2] in HARMLESS]
    done = [row for row in done if row not in explained]
    count, found = Counter(row[1] for row in done), Counter(row[1] for row in done if row[3])
    for kind, many in count.items():
        print(f"{kind}: {found[kind]} of {many} noticed")
    for what, many in Counter(row[2] for row in explained).items():
        print(f"breaks nothing: {many} times {what}: {HARMLESS[what]}")
    for row in done:
        if bool(row[3]) == (row[1] == "none"):
            print("not noticed:" if row[1] != "none" else "a right kernel:", *row)


if __name__ == "__main__":
    main()
