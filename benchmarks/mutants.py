"""How many mutants of right kernels the rules of `tcprobe check` find: python benchmarks/mutants.py FOLDER... [--page]

FOLDER has cubins of right kernels, for example what benchmarks/triton_kernels.py writes; those of `kernel gemm`, of the
examples and the loops of wgmma are made here, by NVRTC and ptxas. Kinds are those of tests/check_mutants.py; of a kind
at most --most mutants of a kernel are tried, evenly spread. Two kinds are made of texts: a form of mma for an arch that
emulates it, though another one has it, and a GEMM of mma.sync for an arch with wgmma or tcgen05.mma.

Writes docs/check_mutants.json: by kind how many were tried, found, left out as harmless by each reason, and which were
missed; --page writes the table of docs/check.md from it.
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

ROOT = Path(__file__).parent.parent
sys.path += [str(ROOT / "tests"), str(ROOT / "examples")]

import nvrtc
from check_mutants import KINDS, harmless

from tcprobe.check.program import Kernel, programs
from tcprobe.check.rule import rules
from tcprobe.errors import UsageError
from tcprobe.isa import inventory
from tcprobe.isa.arch import arch
from tcprobe.isa.instruction import TENSOR_OPCODES
from tcprobe.kernel.gemm import GemmOptions, gemm
from tcprobe.sass import lowering, toolchain
from tcprobe.sass.cubin import assemble
from tcprobe.sass.image import cubin

PAGE, SAVED = ROOT / "docs" / "check.md", ROOT / "docs" / "check_mutants.json"
HEAD = "| kind | rule | found | break nothing |"
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
    """Count a mutant: found, missed, or why it breaks nothing."""
    of = tally.setdefault(kind, {"rule": rule, "tried": 0, "found": 0, "harmless": Counter(), "missed": []})
    if outcome not in ("found", "missed"):
        of["harmless"][outcome] += 1
        return
    of["tried"] += 1
    of["found"] += outcome == "found"
    if outcome == "missed":
        of["missed"].append(what)


def try_mutants(tally: Tally, kernel: Kernel, most: int) -> None:
    """Mutants of a kernel by all kinds of changed instructions."""
    for kind, (about, make) in KINDS.items():
        mutants = list(make(kernel))
        step = max(1, -(-len(mutants) // most))
        for mutant in mutants[::step]:
            found = [f for rule in about for f in rules()[rule].check(mutant.kernel)]
            hit = any(f.severity == rules()[f.rule].SEVERITY and f.address not in known(kernel, f.rule) for f in found)
            why = "" if hit else harmless(kernel, kind, mutant)
            noted = ", a note" if any(f.severity == "note" for f in found) else ""
            what = f"{kernel.file}, {kernel.arch}, {16 * mutant.number:#x}: {mutant.was} -> {mutant.now}{noted}"
            note(tally, kind, " or ".join(about), "found" if hit else why or "missed", what)


KNOWN: dict[tuple[int, str], frozenset[int]] = {}


def known(kernel: Kernel, rule: str) -> frozenset[int]:
    """Where a rule warns of the right kernel itself: a warning that was there does not count."""
    key = id(kernel), rule
    if key not in KNOWN:
        found = rules()[rule].check(kernel)
        KNOWN[key] = frozenset(f.address for f in found if f.severity == rules()[rule].SEVERITY)
    return KNOWN[key]


def try_emulated(tally: Tally) -> None:
    """Forms whose opcodes on one arch are not those on another: whether the rule says so of the other."""
    tools = toolchain.find(None)
    rows = {i: row for i, row in inventory.instructions().items() if row.family in ("mma", "mma.sp")}
    probes = {i: lowering.probe(row) for i, row in rows.items()}
    opcodes: dict[tuple[str, str], frozenset[str]] = {}
    for name in ("sm_80", "sm_89", "sm_90", "sm_120"):
        able = {i: probe for i, probe in probes.items() if rows[i].target.on(arch(name))}
        codes, _ = assemble(tools, list(able.values()), arch(name), apart=True)
        for i, probe in able.items():
            if probe.name in codes:
                found = codes[probe.name].opcodes
                opcodes[i, name] = frozenset(o for o in found if o.split(".")[0] in TENSOR_OPCODES)
    for (i, name), own in opcodes.items():
        others = {other: found for (j, other), found in opcodes.items() if j == i and other != name}
        elsewhere = [found for found in others.values() if found and not found & own]
        if elsewhere and name in ("sm_90", "sm_120"):  # native somewhere, and something else here
            text = probes[i].text
            hit = emulated_by_rule(text, name)
            note(tally, EMULATED, "emulated", "found" if hit else "missed", f"{rows[i].name} on {name}: {sorted(own)}")


def emulated_by_rule(text: str, name: str) -> bool:
    """Whether the rule warns of a text, assembled for an arch."""
    tools = toolchain.find(None)
    image = assembled_for(tools.ptxas, text, name)
    code = cubin(image)
    for kernel in programs(tools, code.arch, code.functions):
        assert isinstance(kernel, Kernel)
        kernel.ptx = text
        if any(f.severity == "warning" for f in rules()["emulated"].check(kernel)):
            return True
    return False


def assembled_for(ptxas: str, text: str, name: str) -> bytes:
    """The cubin of a PTX text whose target is another arch."""
    with tempfile.TemporaryDirectory() as folder:
        source, made = Path(folder, "text.ptx"), Path(folder, "text.cubin")
        lines = [f".target {name}" if line.startswith(".target") else line for line in text.splitlines()]
        source.write_text("\n".join(lines) + "\n")
        subprocess.run([ptxas, "-arch", name, str(source), "-o", str(made)], check=True, capture_output=True)
        return made.read_bytes()


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
    lines = [HEAD, "| --- | --- | --- | --- |"]
    for kind, of in saved["kinds"].items():
        lines.append(
            f"| {kind} | `{of['rule'].replace(' or ', '`, `')}` | {of['found']} of {of['tried']} | {sum(of['harmless'].values())} |"
        )
    sums = [sum(of[key] for of in saved["kinds"].values()) for key in ("found", "tried")]
    left_out = sum(sum(of["harmless"].values()) for of in saved["kinds"].values())
    return [*lines, f"| all | | {sums[0]} of {sums[1]} | {left_out} |"]


def write_page(saved: dict[str, Any]) -> None:
    """The table of docs/check.md anew."""
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
