"""Layouts' texts as tcprobe reads them, against CuTe DSL, CuTe's C++ and Triton: counts of equal and of other ones.

    python benchmarks/layout_texts.py --mma 500 --copies 300 --triton 500 --compiled 1

Each package is asked in a process of its own: Triton aborts on what it does not expect. With --cutlass FOLDER, the
`include` of CUTLASS, atoms that CuTe DSL lacks are compiled for the host with g++ and CUDA's headers (--cuda).
"""

import argparse
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]


def main() -> None:
    """Every part that is asked for, a line a kind."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--part", choices=("cute", "triton", "compiled", "cxx"))
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--mma", type=int, default=500, help="tiled multiplies of CuTe DSL")
    parser.add_argument("--copies", type=int, default=300, help="tiled copies of CuTe DSL")
    parser.add_argument("--triton", type=int, default=500, help="random layouts of Triton")
    parser.add_argument("--compiled", type=int, default=4, help="every so many-th program of Triton is compiled")
    parser.add_argument("--cutlass", help="CUTLASS's include folder")
    parser.add_argument("--cuda", default="/usr/local/cuda/include", help="CUDA's include folder")
    parser.add_argument("--limit", type=int, default=1800, help="seconds for a part")
    asked = parser.parse_args()
    if asked.part:
        run(asked)
        return
    for part in ("cute", "triton", "compiled", *(["cxx"] if asked.cutlass else [])):
        command = [sys.executable, __file__, *sys.argv[1:], "--part", part]
        done = subprocess.run(command, capture_output=True, text=True, timeout=asked.limit, check=False)
        lines = [line for line in done.stdout.splitlines() if line.startswith(("|", "wrong"))]
        print("\n".join(lines) or f"{part}: {done.stderr.splitlines()[-1:]}")


def run(asked: argparse.Namespace) -> None:
    """One part in this process."""
    import foreign_layouts

    counts: Counter[tuple[str, bool]] = Counter()
    if asked.part == "cute":
        against, cases, judge = (
            "CuTe DSL",
            foreign_layouts.cute_cases(asked.seed, asked.mma, asked.copies),
            foreign_layouts.wrong,
        )
    elif asked.part == "cxx":
        against, judge = "CuTe C++", foreign_layouts.wrong
        cases = foreign_layouts.cxx_cases(asked.cutlass, asked.cuda, asked.seed)
    else:
        against, judge, triton = "Triton", foreign_layouts.wrong_bases, foreign_layouts.Triton()
        if asked.part == "triton":
            cases = triton.random(asked.seed, asked.triton)
        else:
            import triton_kernels

            path = Path(tempfile.mkdtemp()) / "kernel.ttgir"
            cases = triton.compiled(path, list(triton_kernels.cases()), (80, 90, 100), asked.compiled)
    for case in cases:
        reason = judge(case)
        counts[case.kind, reason is None] += 1
        if reason:
            print(f"wrong: {case.text}: {reason}")
    kinds = sorted({kind for kind, _ in counts})
    words = "compiled programs" if asked.part == "compiled" else "random"
    for kind in kinds:
        total = counts[kind, True] + counts[kind, False]
        print(f"| {against}, {words} | {kind} | {total} | {counts[kind, False]} |", flush=True)
    sys.stdout.flush()
    if asked.part in ("triton", "compiled"):
        import os

        os._exit(0)  # nanobind lists what leaked


if __name__ == "__main__":
    main()
