"""Kernels for Blackwell spoilt by one wait, fence, phase, descriptor bit, swizzle or address, emulated: who is noticed.

    python benchmarks/spoilt_blackwell.py --out spoilt.csv --seconds 600

A spoilt kernel is noticed if the emulator finds something, an element is wrong, it does not end, or a note says that a
tcgen05.fence is missing; it is run with work in flight as late as can be, then as early, then at random. k is five
tiles and a part of one, with two stages; D has ends on both sides. Goes on where --out ends. Needs nvcc, no GPU.
"""

import argparse
import csv
import re
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from tcprobe.emulate.run import Options
from tcprobe.emulate.tensor_memory import FENCE
from tcprobe.errors import EnvironmentUnfitError, TcprobeError
from tcprobe.kernel.emulated import emulate_product
from tcprobe.kernel.gemm import GemmKernel, GemmOptions, gemm
from tcprobe.kernel.staged import SCALED

SCHEDULES = (("late", 0), ("early", 0), ("random", 1), ("random", 2))
NOTED = f"a note that a {FENCE} is missing"
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
# (kind, what, text, what stands there instead), of the first place where the text is; of tcgen05
EDITS = [
    ("wait", "the producer's for an empty stage", "wait(empty + 8 * stage, tile / STAGES % 2 ^ 1);", ";"),
    ("wait", "the multiply's for a full stage", "wait(full + 8 * stage, tile / STAGES % 2);", ";"),
    ("wait", "for the second block's stage", "wait(second + 8 * stage, tile / STAGES % 2);", ";"),
    ("wait", "the second block's for its stage", "wait(full + 8 * (tile % STAGES), tile / STAGES % 2);", ";"),
    ("wait", "for D", "wait(done, 0);", ";"),
    ("wait", "of a load of D", " tcgen05.wait::ld.sync.aligned;", ""),
    ("wait", "for stores of D", 'asm volatile("cp.async.bulk.wait_group 0;" : : : "memory");', ""),
    ("wait", "commit of an empty stage", "commit(empty + 8 * stage);", ";"),
    ("wait", "commit of D", "commit(done);", ";"),
    (
        "wait",
        "commit of D before the last multiplies",
        r"re:(      fence_after\(\);\n)(.*?)    commit\(done\);",
        r"\1      if (tile + 1 == tiles) commit(done);\n\2",
    ),
    ("wait", "the second block's arrival", "arrive_first(second + 8 * (tile % STAGES));", ";"),
    ("wait", "the bytes that are expected", "expect(barrier, BYTES_AB", "expect(barrier, 0 * BYTES_AB"),
    ("wait", "16 bytes fewer are expected", "expect(barrier, BYTES_AB", "expect(barrier, BYTES_AB - 16"),
    ("wait", "commit to one block", "const unsigned short both = 3;", "const unsigned short both = 1;"),
    ("wait", "an empty stage's arrivals", 'mbarrier.init.shared.b64 [%0], 1;"', 'mbarrier.init.shared.b64 [%0], 2;"'),
    ("fence", "before threads meet", "inline void meet() {\n  fence_before();", "inline void meet() {"),
    ("fence", "after threads have met", "  fence_after();\n}", "}"),
    ("fence", "after a stage is full", "      fence_after();\n", ""),
    ("fence", "after D is complete", "  __syncwarp();\n  fence_after();", "  __syncwarp();"),
    ("fence", "of the proxy, before stores of D", 'asm volatile("fence.proxy.async.shared::cta;" : : : "memory");', ""),
    ("fence", "of the warp, before stores of D", "    __syncwarp();\n    if (lane == 0) {", "    if (lane == 0) {"),
    ("fence", "threads meet at the start", "  meet();\n  const unsigned tmem", "  const unsigned tmem"),
    ("fence", "threads meet at the end", "  meet();\n  if (warp == 2)", "  if (warp == 2)"),
    ("fence", "the barrier's wait", "barrier.cluster.wait.acquire.aligned;", ""),
    (
        "fence",
        "the barrier's release",
        "barrier.cluster.arrive.release.aligned;",
        "barrier.cluster.arrive.relaxed.aligned;",
    ),
    ("fence", "the pair's release", "mbarrier.arrive.release.cluster", "mbarrier.arrive.relaxed.cluster"),
    ("phase", "of an empty stage", "tile / STAGES % 2 ^ 1);", "tile / STAGES % 2);"),
    (
        "phase",
        "of a full stage",
        "wait(full + 8 * stage, tile / STAGES % 2);",
        "wait(full + 8 * stage, tile / STAGES % 2 ^ 1);",
    ),
    ("phase", "of a full stage, always 0", "wait(full + 8 * stage, tile / STAGES % 2);", "wait(full + 8 * stage, 0);"),
    ("phase", "of an empty stage, always 1", "tile / STAGES % 2 ^ 1);", "1);"),
    (
        "phase",
        "of a ring that is longer",
        "wait(empty + 8 * stage, tile / STAGES % 2 ^ 1);",
        "wait(empty + 8 * stage, tile / (STAGES + 1) % 2 ^ 1);",
    ),
    (
        "phase",
        "of the second block's stage",
        "wait(second + 8 * stage, tile / STAGES % 2);",
        "wait(second + 8 * stage, tile / STAGES % 2 ^ 1);",
    ),
    ("phase", "of D", "wait(done, 0);", "wait(done, 1);"),
    ("phase", "the first multiply adds", "tile);", "1);"),
    ("phase", "every tile starts anew", "tile);", "0);"),
    (
        "phase",
        "the stage that is multiplied",
        "stage = tile % STAGES, at = shared + stage * STAGE;\n      wait(full",
        "stage = (tile + 1) % STAGES, at = shared + stage * STAGE;\n      wait(full",
    ),
    ("swizzle", "of D in shared memory", "place_d(lane, first", "place_d(lane ^ 1, first"),
    ("swizzle", "none of D", r"re:(return \(.*?\)) \^ .*; }", r"\1; }"),
    ("swizzle", "D's pieces", 'i)), "r"(words[4 * i])', '(i ^ 1))), "r"(words[4 * i])'),
    ("address", "A's line", ", m0);", ", m0 + 1);"),
    ("address", "A's k", "map_a, barrier, k0 + 0", "map_a, barrier, k0 + 16"),
    ("address", "B's line", r"re:(map_b, barrier, .*?, n0)", r"\1 + 8"),
    ("address", "B's k", "map_b, barrier, k0 + 0", "map_b, barrier, k0 + 16"),
    ("address", "A in its stage", "load(at + 0, map_a", "load(at + 1024, map_a"),
    ("address", "B in its stage", "load(at + BYTES_A + 0, map_b", "load(at + BYTES_A + 1024, map_b"),
    ("address", "half of B", "rank * (TILE_N / 2)", "rank * (TILE_N / 4)"),
    ("address", "A's second step", "multiply(tmem, a + ", "multiply(tmem, a + 1 + "),
    ("address", "B of the multiply", "((at + BYTES_A) & 0x3ffff)", "((at + BYTES_A + 32) & 0x3ffff)"),
    ("address", "a stage", "shared + stage * STAGE;", "shared + stage * (STAGE - 1024);"),
    ("address", "lanes of D", "(warp * 32 << 16)", "(warp * 32 << 15)"),
    ("address", "columns of D", "+ first, d);", "+ first + 1, d);"),
    ("address", "rows of D", "first_row = m0 + warp * 32", "first_row = m0 + warp * 31"),
    ("address", "columns of D in memory", "map_d, n0 + 0", "map_d, n0 + 8"),
    ("address", "D at the edge", "n0 + first + i < n", "n0 + first + i <= n"),
    (
        "address",
        "D in shared memory",
        "const unsigned at = shared + warp * ",
        "const unsigned at = shared + 64 + warp * ",
    ),
    ("address", "D of the multiply", "multiply(tmem, ", "multiply(tmem + 8, "),
    (
        "address",
        "columns that are not given back",
        r're:if \(warp == 2\)\n    asm volatile\("tcgen05.dealloc.*?\);\n',
        "",
    ),
    (
        "address",
        "half of the columns",
        ': "r"(tmem), "n"(COLUMNS)',
        ': "r"(tmem), "n"(COLUMNS > 32 ? COLUMNS / 2 : 64)',
    ),
    (
        "address",
        "too few columns",
        r"re:constexpr unsigned COLUMNS = \d+",
        "constexpr unsigned COLUMNS = 32 * (TILE_N < 64) + 32 * (TILE_N >= 64)",
    ),
    (
        "address",
        "columns after the permit",
        '    asm volatile("tcgen05.alloc',
        '    asm volatile("tcgen05.relinquish_alloc_permit.@GROUP@.sync.aligned;" : : : "memory");\n'
        '    asm volatile("tcgen05.alloc',
    ),
    ("address", "scales of A in tensor memory", "copy_atom(sa + 0", "copy_atom(sa + 4"),
    ("address", "scales of B in tensor memory", "copy_atom(sb + 4 * (0", "copy_atom(sb + 4 * (1"),
    ("address", "scales of A in shared memory", ", scales + 0 * ATOM)", ", scales + 16 + 0 * ATOM)"),
    ("address", "scales of B are A's", "scales + ((1 + i) * GROUPS", "scales + ((0 + i) * GROUPS"),
    ("address", "scales of another line", "atoms(sfa, m0, m)", "atoms(sfa, m0 + 128, m)"),
    (
        "address",
        "scales of another tile",
        "tile * GROUPS * ATOM, barrier",
        "(tile ? tile - 1 : 0) * GROUPS * ATOM, barrier",
    ),
    ("address", "how long a line of scales is", "(k + 4 * BLOCK - 1) / (4 * BLOCK)", "k / (4 * BLOCK)"),
    ("address", "scales among D", "SCALES = TILE_N,", "SCALES = TILE_N - 4,"),
    ("address", "scales for one warp", ".32x128b.warpx4 ", ".64x128b.warpx2::02_13 "),
]
BITS = {  # of a descriptor in shared memory: name, bit
    "stride": 32 + 6,
    "swizzle": 61,
    "version": 46,
    "base offset": 49,
    "start": 3,
}
EDITS_MMA = [
    ("wait", "for a stage", r're:asm volatile\("cp.async.wait_group \d+;" : : : "memory"\);', ""),
    ("wait", "one group fewer", r"re:cp.async.wait_group (\d+);", "cp.async.wait_group 1;"),
    ("wait", "commit", 'asm volatile("cp.async.commit_group;" : : : "memory");', ""),
    ("fence", "before the first tile", "  __syncthreads();\n  unsigned stage = shared;", "  unsigned stage = shared;"),
    ("fence", "between tiles", "        __syncthreads();  // the next", "        // the next"),
    ("fence", "before D takes the stages", "  __syncthreads();  // all have read the last tile", ""),
    ("fence", "before D leaves", "  __syncthreads();\n  for (int piece", "  for (int piece"),
    ("phase", "the next stage", "stage = after(stage);", "stage = shared;"),
    ("phase", "the stage that is filled", "into = after(into);", "into = shared;"),
    ("phase", "the step that is loaded", "load(stage, step + 1);", "load(stage, step);"),
    ("phase", "the tile that is filled", "fill(tile + STAGES - 1);", "fill(tile + STAGES);"),
    ("phase", "scales of the next word", "* STEPS + step) * ", "* STEPS + step + 1) * "),
    ("swizzle", "of A", r"re:lane & 16", "lane & 8"),
    ("address", "A's rows", "m0 * lda", "(m0 + 1) * lda"),
    ("address", "B's columns", "n0 * ldb", "(n0 + 1) * ldb"),
    ("address", "the next tile of A", "next_a += TILE_K", "next_a += 16 + TILE_K"),
    ("address", "the next tile of B", "next_b += TILE_K", "next_b += 16 + TILE_K"),
    ("address", "scales of A's rows", "m0 + down * WARP_M + i * 16", "m0 + down * WARP_M + i * 8"),
    ("address", "scales of B's columns", "n0 + across * WARP_N + j * 8", "n0 + across * WARP_N + j * 16"),
    ("address", "scales of A in lanes", "((lane & 1) << 3)", "((lane & 2) << 2)"),
    ("address", "scales of an atom", "line % 32 * 16", "line % 32 * 4"),
    ("address", "the byte of the scales", "step % PER_WORD * ", "0 * "),
    ("address", "how much there is of a line", "(n - n0) * ", "(n - n0 + 1) * "),
    ("address", "rows of D", "if (m0 + line >= m) break;", ""),
    ("address", "k that there is", "k - k0", "k - k0 + 16"),
]


HARMLESS = {
    "after a stage is full": "the thread that has waited multiplies itself; CUTLASS's loop has no fence there",
    "the stage that is multiplied": "where tiles are even in number, two change places; the sum is the same",
    "k that there is": "what is read of A beyond k meets the zeros of B",
}


def spoilt(made: GemmKernel) -> Iterator[tuple[str, str, str]]:
    """(kind, what, source) of each edit that the kernel's text has a place for."""
    group = f"cta_group::{made.cluster}"
    for kind, what, text, instead in EDITS if made.maps else EDITS_MMA:
        if text.startswith("re:"):
            changed = re.sub(text[3:], instead, made.source, count=1, flags=re.DOTALL)
        else:
            changed = made.source.replace(text, instead.replace("@GROUP@", group), 1)
        narrow, nvf4 = made.gemm.tile[1] < 64, made.gemm.type == "nvf4"  # where these two edits say the same
        same = (what == "too few columns" and narrow) or (what == "the byte of the scales" and nvf4)
        if changed != made.source and not same:
            yield kind, what, changed
    for name in "ab" if made.maps else "":
        found = re.search(rf"unsigned long long {name} = (0x[0-9a-f]+)ull", made.source)
        for field, bit in BITS.items():
            word = f"{int(found[1], 16) ^ 1 << bit:#018x}"
            yield (
                "descriptor",
                f"{field} of {name.upper()}",
                made.source.replace(found[0], found[0].replace(found[1], word), 1),
            )
    if made.maps:
        word = re.search(r", (0x[0-9a-f]{8})u, ", made.source)[1]
        scaled = made.gemm.instruction.kind.startswith("mx")
        fields = {
            "M": 27 if scaled else 24,
            "N": 18,
            "type of A": 7,
            "type of B": 10,
            "major of A": 15,
            "major of B": 16,
            "sign of A": 13,
        }
        fields |= {"ID of scales": 29, "type of scales": 23} if scaled else {"type of D": 4}
        for field, bit in fields.items():
            yield (
                "descriptor",
                f"{field} of the instruction",
                made.source.replace(word, f"{int(word, 16) ^ 1 << bit:#010x}"),
            )


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
        if found.report.findings:
            first = found.report.findings[0]
            return f"{schedule}: {first.rule}: {first.text[:80]}"
        if not found.right:
            return f"{schedule}: {found.wrong} wrong, {found.outside} outside, finished {found.report.finished}"
        if any(FENCE in note for note in found.report.notes):
            return f"{schedule}: {NOTED}"
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
    noted = Counter(row[1] for row in done if row[3].endswith(NOTED))
    for kind, many in count.items():
        print(f"{kind}: {found[kind]} of {many} noticed" + (f", {noted[kind]} by a note" if noted[kind] else ""))
    for what, many in Counter(row[2] for row in explained).items():
        print(f"breaks nothing: {many} times {what}: {HARMLESS[what]}")
    for row in done:
        if bool(row[3]) == (row[1] == "none"):
            print("not noticed:" if row[1] != "none" else "a right kernel:", *row)


if __name__ == "__main__":
    main()
