"""What tcprobe prints is checked too: compiled by NVRTC and every ptxas that is here, no rule finds an error.

Functions are called by kernels of one warp or warpgroup; whole kernels are taken as they are. Warnings that are known
have their reason in KNOWN.
"""

from __future__ import annotations

import itertools
import subprocess
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import emitted
import emitted_layouts
import emitted_reductions
import nvrtc
import path_cases
import pytest
from machine_code import TOOLS, needs_tools

from tcprobe import emit
from tcprobe.check.code_check import Checker
from tcprobe.check.rule import rules
from tcprobe.isa import inventory
from tcprobe.kernel.gemm import GemmOptions, gemm
from tcprobe.sass import elf, toolchain
from tcprobe.sass.code_files import CodeFiles
from tcprobe.sass.disassemble import programs
from tcprobe.store.cell import emittable, selected
from tcprobe.store.results import published

pytestmark = [needs_tools, pytest.mark.skipif(not nvrtc.library(), reason="no NVRTC here")]
AROUND = """
#define running threadIdx.x
#define MINE(at, own) ((unsigned char*)(at) + threadIdx.x * sizeof own)
typedef unsigned char u8; typedef unsigned short u16; typedef unsigned long long u64;
template <class P> __device__ void straight(u8* input, u8* output) {
  typename P::Word own[P::REGISTERS];
  P::load(input, threadIdx.x, own);
  memcpy(MINE(output, own), own, sizeof own);
}
"""
MULTIPLIES = emitted.FAMILIES - {"ldmatrix", "movmatrix"}
KNOWN = {
    "bank-conflicts": "D in the epilogue, and an operand with ld of its own, are stored or loaded as their rows lie",
    "sectors": "a lane's own elements of a fragment lie in as many sectors as the plan of `load` says",
    "registers": "tiles are chosen for the multiplies that they keep busy, not for blocks of an SM",
    "serialised": "the last step of a tile is waited for alone",
    "slow-path": "mma.sync was asked for, or the arch's target has no suffix",
    "spills": "functions of large fragments are called here with all their elements in registers at once",
    "emulated": "the form was asked for",
}


def checked(texts: Sequence[str], number: int) -> list[Counter[tuple[str, str]]]:
    """What all rules find in each PTX text, as each ptxas assembles it, by (rule, severity); disassembled together."""
    with tempfile.TemporaryDirectory() as folder:
        cubins = {cubin: at for at, ptx in enumerate(texts) for cubin in assembled(ptx, Path(folder) / f"text{at}.ptx")}
        assert set(cubins.values()) == set(range(len(texts)))
        checker = Checker(TOOLS, list(rules()), CodeFiles(TOOLS))
        kernels = list(checker.check(list(cubins)))
        assert {kernel.file for kernel in kernels} == set(map(str, cubins))
        assert not checker.complaints
        found = [Counter[tuple[str, str]]() for _ in texts]
        for kernel in kernels:
            errors = [each.finding for each in kernel.findings if each.finding.severity == "error"]
            assert not errors, (kernel.kernel, number, errors)
            cubin = Path(kernel.file)
            found[cubins[cubin]].update((each.finding.rule, each.finding.severity) for each in kernel.findings)
            if kernel.kernel.startswith("gemm") and number >= 80:
                slow = [each.finding for each in kernel.findings if each.finding.rule == "bank-conflicts"]
                assert not [f for f in slow if f.text.startswith(("LDSM", "LDGSTS"))], slow
                assert main_loops(cubin).isdisjoint(f.address for f in slow), slow
    return found


def assembled(ptx: str, source: Path) -> list[Path]:
    """The cubins that each ptxas which knows its version and target makes of a text."""
    source.write_text(ptx)
    target = next(line.split()[1].rstrip(",") for line in ptx.splitlines() if line.startswith(".target"))
    made = []
    for number, ptxas in enumerate(toolchain.compilers()):
        cubin = source.with_suffix(f".{number}.cubin")
        run = subprocess.run(
            [ptxas, "-arch", target, str(source), "-o", str(cubin)], capture_output=True, text=True, check=False
        )
        if "Unsupported .version" in run.stderr or "not defined for option 'gpu-name'" in run.stderr:
            continue
        assert run.returncode == 0, run.stderr[:500]
        made.append(cubin)
    return made


def main_loops(path: Path) -> set[int]:
    """The addresses in loops that multiply; from sm_80 on shared memory has no conflict there, nor one undecided."""
    code = elf.cubin(path.read_bytes())
    inside = {
        kernel.instructions[at].address
        for kernel in programs(toolchain.find(None), code.arch, code.functions)
        for loop in kernel.loops
        for blocks in [[kernel.blocks[number] for number in loop]]
        if any(kernel.instructions[at].mnemonic.endswith("MMA") for b in blocks for at in range(b.first, b.end))
        for b in blocks
        for at in range(b.first, b.end)
    }
    assert inside
    return inside


def warnings(found: Counter[tuple[str, str]]) -> set[str]:
    """The rules that warn."""
    return {rule for rule, severity in found if severity == "warning"}


def kernels_of(cases: Sequence[Any]) -> str:
    """CUDA C++ with a kernel for each case."""
    texts = [AROUND]
    for number, case in enumerate(cases):
        texts.append(emitted.renamed(case.code, number))
        texts.append(
            f'extern "C" __global__ void __launch_bounds__({case.threads}) case{number}(u8* input, u8* output) '
            f"{{ {emitted.renamed(case.body, number).replace('>();', '>(input, output);')} }}"
        )
    return "\n".join(texts)


def functions(sample: Any) -> Iterator[tuple[str, list[Any]]]:
    """(what prints them, cases), a few of each."""
    cells = sample(emitted.cells(), 499, emitted.spread)
    yield "reduce --over", list(emitted_reductions.reductions(cells))[:12]
    yield "reduce --mask", list(emitted_reductions.masks(cells[:3]))[:12]
    yield "load", list(emitted_layouts.loads([c for c in cells if c.fragment.products == 1]))[:12]
    own = emitted.on("sm_90")
    yield "convert", list(emitted.conversions([(a, b) for a in own[:3] for b in own[:3]]))[:8]
    results = [
        c for c in own if c.fragment.operand == "d" and c.fragment.cols <= 64 and c.fragment.family in MULTIPLIES
    ]
    ways = itertools.product(("stmatrix", "stmatrix.x2.trans"), (None, "bf16"), ("row",), ("plain", "SWIZZLE_128B"))
    yield "convert stmatrix", list(emitted.stores(results[:: len(results) // 4], list(ways)))[:8]
    yield "emit --to cuda", list(emitted_layouts.headers(cells))[:12]


PRINTED = ["reduce --over", "reduce --mask", "load", "convert", "convert stmatrix", "emit --to cuda"]


@pytest.fixture(scope="module")
def printed() -> dict[str, Counter[tuple[str, str]]]:
    """By what printed them what is found in kernels of functions; filled by the first test that asks."""
    return {}


@pytest.mark.parametrize("what", PRINTED)
def test_functions(what: str, sample: Any, printed: dict[str, Counter[tuple[str, str]]]) -> None:
    if not printed:
        library, given = nvrtc.library(), dict(functions(sample))
        assert list(given) == PRINTED
        assert all(given.values())
        options = ("-arch=sm_90a", "-std=c++17", "-DTCPROBE_ANY_ARCH")
        texts = [nvrtc.ptx(library, kernels_of(cases), *options) for cases in given.values()]
        printed |= zip(PRINTED, checked(texts, 90), strict=True)
    assert warnings(printed[what]) <= KNOWN.keys(), (what, printed[what])


PTX = [
    "mma.m16n8k16.row.col.f32.bf16.bf16.f32",
    "mma.sp.m16n8k16.row.col.f16.f16.f16.f16",
    "wmma.mma.row.row.m16n16k16.f16.f16",
    "ldmatrix.m8n8.x1.shared.b16",
    "stmatrix.m8n8.x1.shared.b16",
]


@pytest.mark.parametrize("name", PTX)
def test_ptx(name: str) -> None:
    """`emit --to ptx`, in a kernel whose registers are zero. Descriptors of wgmma and tcgen05 would be no tile's."""
    instruction = next(row for id_, row in inventory.instructions().items() if name in (id_, row.name))
    tables, _ = emittable(list(instruction.fragments), None, published())
    choice = max((fragment.selectors for fragment in instruction.fragments), key=len)
    text, _ = emitted_layouts.module(emit.emit("ptx", selected(tables, choice[0] if len(choice) > 1 else None)))
    (found,) = checked([text], 90)
    assert warnings(found) <= KNOWN.keys(), found


@cache
def of_paths(numbers: tuple[int, ...]) -> dict[int, Counter[tuple[str, str]]]:
    """What is found in the programs of several cases."""
    library, options = nvrtc.library(), ("-arch=sm_90a", "-std=c++17", "-DTCPROBE_ANY_ARCH")
    texts = [nvrtc.ptx(library, path_cases.program(number), *options) for number in numbers]
    return dict(zip(numbers, checked(texts, 90), strict=True))


@pytest.mark.sampled(20)
@pytest.mark.parametrize("number", range(len(path_cases.CASES)))
def test_paths(number: int, together: tuple[int, ...]) -> None:
    """`path --code cuda`, in a kernel that fills, loads and writes out, or stores and drains."""
    found = of_paths(together)[number]
    assert warnings(found) <= KNOWN.keys(), (path_cases.CASES[number], found)


GEMMS = [(number, kind) for number in (75, 80, 86, 89, 90, 120) for kind in ("f16", "bf16", "s8", "e4m3")]


@pytest.mark.sampled(7)
@pytest.mark.parametrize(("number", "kind"), [(n, k) for n, k in GEMMS if not (n == 75 and k != "f16")])
def test_kernels(number: int, kind: str) -> None:
    library = nvrtc.library()
    if number not in nvrtc.archs(library):
        pytest.skip("no compiler for this arch")
    if kind == "e4m3" and number < 89:
        pytest.skip("no multiply of this type")
    made = gemm(GemmOptions(f"sm_{number}", kind))
    target = made.gemm.compiled_for
    (found,) = checked([nvrtc.ptx(library, made.source, f"-arch={target}", "-std=c++17")], number)
    assert warnings(found) <= KNOWN.keys()
