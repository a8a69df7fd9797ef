"""Kernels spoilt by one wait, fence, phase, descriptor bit, swizzle or address: how many the emulator notices.

    python benchmarks/emulations_spoilt.py --count 40 --table benchmarks/emulations_spoilt.md

Only lines that run are spoilt: each kernel multiplies whole tiles and, in another launch, tiles with edges.
The kinds, fixed before any was run (a spoilt kernel is noticed by a finding, by a wrong D, or because it does not end):

    wait dropped       a wait for copies, multiplies, a barrier or an mbarrier's phase is gone
    wait weakened      a wait lets one more group stay in flight
    fence dropped      fence.proxy.async or wgmma.fence is gone; both fences after mbarriers' initialisation
    phase              an mbarrier is waited for with the other parity, expects 16 bytes more, or an arrival
    descriptor         a bit of the stride, the start or the swizzle in a wgmma descriptor
    swizzle            another swizzle in a tensor map, or another constant in the address of a piece
    address            16 bytes, or a line, added to the address of a load, store, copy or matrix
"""

from __future__ import annotations

import argparse
import random
import re
import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from emulations import Case, gemm_case

from tcprobe.emulate.launch import Launch, MapArgument
from tcprobe.emulate.ptx import parse
from tcprobe.emulate.run import Options, emulate
from tcprobe.errors import TcprobeError
from tcprobe.kernel.gemm import GemmOptions

KERNELS = (
    GemmOptions("sm_80", "f16", (64, 64, 32), (2, 2), 3),
    GemmOptions("sm_80", "s8", (64, 64, 64), (2, 2), 2),
    GemmOptions("sm_80", "bf16", (64, 64, 64), (2, 2), 3, a="col"),
    GemmOptions("sm_90", "bf16", (128, 64, 64), stages=2),
    GemmOptions("sm_90", "f16", (64, 128, 32), stages=3),
    GemmOptions("sm_90", "e4m3", (128, 64, 64), stages=2),
    GemmOptions("sm_90", "f16", (128, 64, 64), stages=2, cluster=2),
    GemmOptions("sm_90", "tf32", (64, 64, 32), stages=2, out="f32"),
)
SIZES = ((128, 128, 320), (100, 136, 296))
MOST = 400_000  # instructions; a kernel that needs more does not end


@dataclass(frozen=True)
class Spoilt:
    """One edit: its kind, what it does, the text, the launch."""

    kind: str
    what: str
    text: str
    launch: Launch


def lines_that_run(case: Case) -> set[int]:
    """The numbers of lines that any thread executes."""
    seen: set[int] = set()
    emulate(
        parse(case.ptx),
        case.launch,
        Options(MOST, "sm_90"),
        lambda machine, pc, _: seen.add(machine.statements[pc].line),
    )
    return seen


def spoilt(case: Case) -> Iterator[Spoilt]:  # noqa: C901, PLR0912  # a line an edit
    """Every edit of a kernel."""
    lines, running = case.ptx.splitlines(), lines_that_run(case)
    beside: set[int] = set()

    def edit(kind: str, number: int, line: str) -> Spoilt:
        old = lines[number].strip()
        text = "\n".join([*lines[:number], line, *lines[number + 1 :]])
        return Spoilt(kind, f"line {number + 1}: {old[:90]} -> {line.strip()[:60] or 'nothing'}", text, case.launch)

    for number, line in enumerate(lines):
        word = line.strip()
        if number + 1 not in running:
            continue
        if re.match(
            r"(cp\.async\.wait_group|wgmma\.wait_group|cp\.async\.bulk\.wait_group|bar\.sync|barrier\.sync)", word
        ):
            yield edit("wait dropped", number, "")
        if re.match(r"barrier\.cluster\.wait", word):
            yield edit("wait dropped", number, "")
        if "mbarrier.try_wait" in word:
            yield edit("wait dropped", number, re.sub(r"mbarrier\.try_wait[^;]*;", "setp.eq.u32 p, 0, 0;", line))
            yield edit(
                "phase",
                number,
                re.sub(
                    r"(mbarrier\.try_wait[^,]*, \[[^\]]*\], )(%r\d+);",
                    r"xor.b32 \2, \2, 1; \1\2; xor.b32 \2, \2, 1;",
                    line,
                ),
            )
        if found := re.match(r"(\s*(?:cp\.async|wgmma)\.wait_group[\w.]* )(\d+);", line):
            yield edit("wait weakened", number, f"{found[1]}{int(found[2]) + 1};")
        if word.startswith("fence.mbarrier_init"):  # beside a proxy fence, which would do for it
            after = next(n for n in range(number, len(lines)) if "fence.proxy.async" in lines[n])
            text = "\n".join(line for n, line in enumerate(lines) if n not in (number, after))
            yield Spoilt(
                "fence dropped", f"lines {number + 1} and {after + 1}: both fences after init", text, case.launch
            )
            beside.add(after)
        if re.match(r"(fence\.proxy\.async|wgmma\.fence)", word) and number not in beside:
            yield edit("fence dropped", number, "")
        if found := re.match(r"(\s*mbarrier\.init[^,]*, )(\d+);", line):
            for count in {int(found[2]) + 1, max(1, int(found[2]) - 1)} - {int(found[2])}:
                yield edit("phase", number, f"{found[1]}{count};")
        if found := re.match(r"(\s*mov\.u32\s+%r\d+, )(\d+);", line):
            for later in lines[number : number + 4]:
                if "expect_tx" in later and found[0].split()[1].rstrip(",") in later:
                    for more in (16, -16):
                        yield edit("phase", number, f"{found[1]}{int(found[2]) + more};")
        if found := re.match(r"(\s*or\.b64\s+%rd\d+, %rd\d+, )(\d{10,});", line):
            bits = int(found[2])
            for bit in (32, 34, 36, 49, 50, 62, 63):
                yield edit(
                    "descriptor",
                    number,
                    f"{found[1]}{(bits ^ 1 << bit) - (1 << 64 if (bits ^ 1 << bit) >> 63 else 0)};",
                )
        if (found := re.match(r"(\s*add\.s64\s+%rd\d+, %rd\d+, )([248]);", line)) and case.name.startswith(
            "gemm_sm_90"
        ):
            yield edit("descriptor", number, f"{found[1]}{int(found[2]) + 1};")
        if found := re.match(r"(\s*and\.b32\s+%r\d+, %r\d+, )(112|48|96|496|240);", line):
            yield edit("swizzle", number, f"{found[1]}{int(found[2]) ^ 16};")
        if found := re.match(r"(\s*xor\.b32\s+%r\d+, %r\d+, )(16|32|64|96|48);", line):
            yield edit("swizzle", number, f"{found[1]}{int(found[2]) ^ 16};")
        if found := re.match(
            r"(.*(?:ldmatrix|stmatrix|cp\.async\.c|st\.shared|ld\.shared)[^\[]*\[%r\d+)(\+\d+)?(\].*)", line
        ):
            for more in (16, 128):
                yield edit("address", number, f"{found[1]}+{int((found[2] or '+0')[1:]) + more}{found[3]}")
        if found := re.match(r"(.*cp\.async\.bulk\.tensor[^{]*\{)(%r\d+), (%r\d+)(\}.*)", line):
            yield edit("address", number, f"{found[1]}{found[3]}, {found[2]}{found[4]}")
    for number, argument in enumerate(case.launch.arguments):
        if isinstance(argument, MapArgument):
            for mode in {0, 1, 2, 3} - {argument.map.swizzle}:
                if argument.map.row_bytes > {0: 1 << 20, 1: 32, 2: 64, 3: 128}[mode]:
                    continue
                changed = list(case.launch.arguments)
                changed[number] = argument._replace(map=argument.map._replace(swizzle=mode))
                yield Spoilt(
                    "swizzle", f"tensor map {number}: mode {mode}", case.ptx, replace(case.launch, arguments=changed)
                )


def run(case: Case, text: str, launch: Launch, schedule: str = "late") -> tuple[str, bytes]:
    """What is found, and D."""
    try:
        done = emulate(parse(text), launch, Options(MOST, "sm_90", schedule))
    except TcprobeError as error:
        return f"refused: {error}"[:100], b""
    result = np.ascontiguousarray(done.buffers[case.result]).tobytes()
    if done.report.errors:
        return done.report.errors[0].rule, result
    return "" if done.report.finished else "does not end", result


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=60, help="of each kind, at most")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=3600)
    parser.add_argument("--table", type=Path)
    asked = parser.parse_args()
    pool: dict[str, list[tuple[Case, bytes, Spoilt]]] = {}
    for options, size in ((options, size) for options in KERNELS for size in SIZES):
        case = gemm_case(options, size)
        words, right = run(case, case.ptx, case.launch)
        assert not words, (case.name, words)
        for one in spoilt(case):
            pool.setdefault(one.kind, []).append((case, right, one))
    rng, end = random.Random(asked.seed), time.time() + asked.seconds
    counts: dict[str, Counter[str]] = {}
    missed: list[str] = []
    for kind, every in pool.items():
        for case, right, one in rng.sample(every, min(asked.count, len(every))):
            if time.time() > end:
                break
            words, result = run(case, one.text, one.launch)
            if not words and result == right:  # work in flight may show when it lands early
                words, result = run(case, one.text, one.launch, "early")
            how = words or ("wrong bits" if result != right else "")
            counts.setdefault(kind, Counter())[how.partition(":")[0] or "not noticed"] += 1
            if not how:
                missed.append(f"{kind}: {case.name}: {one.what}")
                print(missed[-1], flush=True)
    text = table(counts, {kind: len(every) for kind, every in pool.items()}, missed)
    print(text)
    if asked.table:
        asked.table.write_text(text)
    return 0


def table(counts: dict[str, Counter[str]], there: dict[str, int], missed: list[str]) -> str:
    """By kind how many were noticed, and how; then those that were not."""
    lines = ["| kind | there are | tried | noticed | how |", "| --- | --- | --- | --- | --- |"]
    for kind, how in counts.items():
        tried, lost = how.total(), how["not noticed"]
        ways = ", ".join(f"{word} {n}" for word, n in how.most_common() if word != "not noticed")
        lines.append(f"| {kind} | {there[kind]} | {tried} | {tried - lost} | {ways} |")
    tried = sum(how.total() for how in counts.values())
    lines += ["", f"{tried - len(missed)} of {tried} noticed.", "", *(f"- {one}" for one in missed), ""]
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
