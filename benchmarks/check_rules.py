"""How many mutants of right kernels `tcprobe check` finds: python benchmarks/check_rules.py FOLDER... [--page]

FOLDER has cubins of right kernels, for example what benchmarks/triton_kernels.py writes; those of `kernel gemm`, of the
examples and the loops of wgmma are made here, by NVRTC and ptxas. Kinds are those of tests/check_mutants.py; of a kind
at most --most mutants of a kernel are tried, evenly spread. Two kinds are made of texts: a form of mma for an arch that
emulates it, though another one has it, and a GEMM of mma.sync for an arch with wgmma or tcgen05.mma.

Writes results/check_mutants.json: by kind how many were tried, found, left out as harmless by each reason, and which
were missed; undecided are those where the rule has a note, with its reason, of the right kernel too. --page writes the
table of benchmarks/notes/check.md from it.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import check_kernels
import wgmma_loops

sys.path.append(str(Path(__file__).parent.parent / "tests"))

import nvrtc
from check_mutants import KINDS, Mutant, harmless

from tcprobe.check.code_check import Checker
from tcprobe.check.rule import Finding, rules
from tcprobe.errors import UsageError
from tcprobe.isa import inventory
from tcprobe.isa.arch import arch
from tcprobe.kernel.gemm import GemmOptions, gemm
from tcprobe.probes import ptx
from tcprobe.sass import lowering, toolchain
from tcprobe.sass.code_files import CodeFiles
from tcprobe.sass.cubin import assemble
from tcprobe.sass.disassemble import programs
from tcprobe.sass.elf import cubin
from tcprobe.sass.kernel import Kernel

ROOT = Path(__file__).parent.parent
PAGE, SAVED = ROOT / "benchmarks" / "notes" / "check.md", ROOT / "results" / "check_mutants.json"
HEAD = "| kind | rule | found | undecided, as in the right kernel | break nothing |"
UNDECIDED = "undecided"
GEMMS = [(number, kind) for number in (75, 80, 86, 89, 90, 120) for kind in ("f16", "bf16", "tf32", "s8", "e4m3")]
EMULATED = "a multiply for an arch that emulates it"
SLOW = "a loop of mma.sync for an arch that has wgmma or tcgen05.mma"
Tally = dict[str, dict[str, Any]]


def right_kernels(folders: Sequence[Path]) -> Iterator[Kernel]:
    """Kernels that are right, as graphs."""
    tools, library = toolchain.find(None), nvrtc.library()
    images: list[tuple[str, bytes]] = []
    for number, kind in GEMMS:
        source = gemm_source(number, kind)
        target = f"sm_{number}a" if number == 90 else f"sm_{number}"
        made = nvrtc.made(library, source, f"-arch={target}", "-std=c++17") if source else b""
        images += [(f"gemm sm_{number} {kind}", made)] if made else []
    texts = {f"loop {n} {each}": wgmma_loops.loop(n, each, early=False) for n, each in ((64, 2), (128, 1), (256, 4))}
    texts |= {
        f"{fill} {n}": check_kernels.multiply("kernel", n, fill, True, descriptor)
        for fill in ("st", "cp.async")
        for n, descriptor in ((64, check_kernels.SWIZZLED), (128, check_kernels.PLAIN))
    }
    texts |= {"out": check_kernels.copy_out("kernel", True), "in": check_kernels.copy_in("kernel", True)}
    images += [(name, assembled(tools.ptxas, text)) for name, text in texts.items()]
    files = sorted(file for folder in folders for file in folder.rglob("*.cubin"))
    images += [(f"{file.parent.name}/{file.stem}", file.read_bytes()) for file in files]
    for name, image in images:
        code = cubin(image)
        for kernel in programs(tools, code.arch, code.functions):
            assert isinstance(kernel, Kernel), kernel
            kernel.file = name
            yield kernel


def gemm_source(number: int, kind: str) -> str:
    """What `kernel gemm` prints; empty where the arch does not multiply the type."""
    try:
        return gemm(GemmOptions(f"sm_{number}", kind)).source
    except UsageError:
        return ""


def assembled(ptxas: str, text: str) -> bytes:
    """The cubin of a PTX text for sm_90a."""
    with tempfile.TemporaryDirectory() as folder:
        source, made = Path(folder, "text.ptx"), Path(folder, "text.cubin")
        source.write_text(text)
        subprocess.run([ptxas, "-arch", "sm_90a", str(source), "-o", str(made)], check=True, capture_output=True)
        return made.read_bytes()


def note(tally: Tally, kind: str, rule: str, outcome: str, what: str) -> None:
    """Count a mutant: found, missed, undecided, or why it breaks nothing."""
    of = tally.setdefault(
        kind, {"rule": rule, "tried": 0, "found": 0, "undecided": 0, "harmless": Counter(), "missed": []}
    )
    if outcome == UNDECIDED:
        of["undecided"] += 1
    elif outcome not in ("found", "missed"):
        of["harmless"][outcome] += 1
    else:
        of["tried"] += 1
        of["found"] += outcome == "found"
        of["missed"] += [what] if outcome == "missed" else []


def try_mutants(tally: Tally, kernel: Kernel, most: int) -> None:
    """Mutants of a kernel by all kinds of changed instructions."""
    for kind, (about, make) in KINDS.items():
        every = list(make(kernel))
        for mutant in every[:: max(1, -(-len(every) // most))]:
            what = f"{kernel.file}, {kernel.arch}, {16 * mutant.number:#x}: {mutant.was} -> {mutant.now}"
            note(tally, kind, " or ".join(about), outcome(kernel, kind, mutant), what)


def outcome(kernel: Kernel, kind: str, mutant: Mutant) -> str:
    """Of a mutant: found, missed, undecided, or why it breaks nothing."""
    about, _ = KINDS[kind]
    found = [f for rule in about for f in rules()[rule].check(mutant.kernel)]
    if any(f.severity == rules()[f.rule].SEVERITY and (f.address, f.text) not in known(kernel, f.rule) for f in found):
        return "found"
    if why := harmless(kernel, kind, mutant):
        return why
    here = {f.rule for f in found if f.undecided and f.address == 16 * mutant.number}
    return UNDECIDED if any(16 * mutant.number in doubted(kernel, rule) for rule in here) else "missed"


KNOWN: dict[tuple[Kernel, str], list[Finding]] = {}


def of_right(kernel: Kernel, rule: str) -> list[Finding]:
    """What a rule says of the right kernel itself."""
    if (kernel, rule) not in KNOWN:
        KNOWN[kernel, rule] = list(rules()[rule].check(kernel))
    return KNOWN[kernel, rule]


def known(kernel: Kernel, rule: str) -> frozenset[tuple[int, str]]:
    """Where and how it warns of it: a warning that was there does not count."""
    return frozenset((f.address, f.text) for f in of_right(kernel, rule) if f.severity == rules()[rule].SEVERITY)


def doubted(kernel: Kernel, rule: str) -> frozenset[int]:
    """Where it cannot decide."""
    return frozenset(f.address for f in of_right(kernel, rule) if f.undecided)


def try_emulated(tally: Tally) -> None:
    """Forms that one arch multiplies in their own type, and another one does not: whether the rule says so there."""
    tools = toolchain.find(None)
    rows = {i: row for i, row in inventory.instructions().items() if row.family in ("mma", "mma.sp")}
    probes = {i: lowering.probe(row) for i, row in rows.items()}
    native: dict[tuple[str, str], bool] = {}
    for name in ("sm_80", "sm_89", "sm_90", "sm_120"):
        able = {i: probe for i, probe in probes.items() if rows[i].target.on(arch(name))}
        codes, _ = assemble(tools, list(able.values()), arch(name), apart=True)
        for i, probe in able.items():
            if probe.name in codes:
                native[i, name] = lowering.count(codes[probe.name].opcodes, rows[i]).native(rows[i])
    for (i, name), own in native.items():
        if name in ("sm_90", "sm_120") and not own and any(there for (j, _), there in native.items() if i == j):
            hit = emulated_by_rule(ptx.module([probes[i]], arch(name)), name)
            note(tally, EMULATED, "emulated", "found" if hit else "missed", f"{rows[i].name} on {name}")


def emulated_by_rule(text: str, name: str) -> bool:
    """Whether the rule warns of a text that is assembled for an arch."""
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder, "text.ptx")
        source.write_text(text)
        tools = toolchain.find(None)
        checker = Checker(tools, ["emulated"], CodeFiles(tools, [name]))
        found = [each.finding.severity for kernel in checker.check([source]) for each in kernel.findings]
        assert not checker.complaints, checker.complaints
        return "warning" in found


def try_slow(tally: Tally) -> None:
    """GEMMs of mma.sync that are compiled for archs with faster multiplies."""
    tools, library = toolchain.find(None), nvrtc.library()
    for number, kind in GEMMS:
        source = gemm_source(number, kind) if number in (80, 86, 89) else ""
        for target in ("sm_90", "sm_100", "sm_103") if source else ():
            made = nvrtc.made(library, source, f"-arch={target}", "-std=c++17")
            if not made:
                continue
            code = cubin(made)
            (kernel,) = programs(tools, code.arch, code.functions)
            assert isinstance(kernel, Kernel)
            hit = any(f.severity == "warning" for f in rules()["slow-path"].check(kernel))
            note(tally, SLOW, "slow-path", "found" if hit else "missed", f"gemm sm_{number} {kind} for {target}")


def table(saved: dict[str, Any]) -> list[str]:
    """The page's table."""
    lines = [HEAD, "| --- | --- | --- | --- | --- |"]
    for kind, of in saved["kinds"].items():
        rule, left_out = of["rule"].replace(" or ", "`, `"), sum(of["harmless"].values())
        lines.append(f"| {kind} | `{rule}` | {of['found']} of {of['tried']} | {of['undecided']} | {left_out} |")
    sums = [sum(of[key] for of in saved["kinds"].values()) for key in ("found", "tried", "undecided")]
    left_out = sum(sum(of["harmless"].values()) for of in saved["kinds"].values())
    return [*lines, f"| all | | {sums[0]} of {sums[1]} | {sums[2]} | {left_out} |"]


def write_page(saved: dict[str, Any]) -> None:
    """The table of the notes anew."""
    before, _, rest = PAGE.read_text().partition(HEAD)
    behind = rest[rest.index("\n\n") :]
    PAGE.write_text(before + "\n".join(table(saved)) + behind)


def main(words: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folders", type=Path, nargs="*")
    parser.add_argument("--most", type=int, default=8)
    parser.add_argument("--page", action="store_true")
    parser.add_argument("-o", "--output", type=Path, default=SAVED)
    given = parser.parse_args(words)
    if given.page:
        write_page(json.loads(given.output.read_text()))
        return
    tally: Tally = {}
    kernels = 0
    for kernel in right_kernels(given.folders):
        kernels += 1
        try_mutants(tally, kernel, given.most)
        KNOWN.clear()
        print(f"{kernel.file}: {sum(of['found'] for of in tally.values())} found", file=sys.stderr, flush=True)
    try_emulated(tally)
    try_slow(tally)
    ordered = {kind: tally[kind] for kind in (*KINDS, EMULATED, SLOW) if kind in tally}
    given.output.write_text(json.dumps({"kernels": kernels, "most": given.most, "kinds": ordered}, indent=1) + "\n")
    print("\n".join(table({"kinds": ordered})))


if __name__ == "__main__":
    main()
