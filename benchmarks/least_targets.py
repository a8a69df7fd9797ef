"""Does ptxas take every form at its least target and PTX version, and refuse it below? A table by family.

    python benchmarks/least_targets.py [CUDA_FOLDER]

Each form is assembled alone, from its probe: at the least target and PTX version that its row states; for the arch
before that one; and with the PTX version before. What ptxas is too old for is counted apart. Where K alone sets a form
of tcgen05 apart (k96), its text is another form's, which the arch before takes: K is in a descriptor.
"""

from __future__ import annotations

import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import NamedTuple

from tcprobe.isa import arch, inventory
from tcprobe.isa.arch import version
from tcprobe.isa.instruction import Instruction
from tcprobe.probes import experiments, sparse, tensor_memory, wgmma
from tcprobe.probes.experiment import kernels
from tcprobe.probes.ptx import Kernel
from tcprobe.sass import toolchain
from tcprobe.sass.toolchain import Toolchain, attempt
from tcprobe.system.children import Scratch, one_line

VERSIONS = (
    [f"6.{n}" for n in range(6)]
    + [f"7.{n}" for n in range(9)]
    + [f"8.{n}" for n in range(9)]
    + ["9.0", "9.1", "9.2", "9.3", "9.4"]
)
TOO_OLD = ("Unsupported .version", "is not defined for option 'gpu-name'", "Unrecognized target")


class Form(NamedTuple):
    """A form in a kernel, as its least target and PTX version spell it."""

    name: str
    family: str
    kernel: Kernel


def forms() -> list[Form]:
    """Every instruction, and the loads and stores of wmma."""
    rows = [Form(row.id, row.family, probe(row)) for row in inventory.instructions().values()]
    moved = [e for e in experiments().values() if e.id not in inventory.instructions()]
    return rows + [Form(k.name, "wmma load, store", k) for e in moved for k in kernels(e)]


def probe(row: Instruction) -> Kernel:
    """The kernel of an instruction."""
    if row.described:
        return wgmma.kernel(row, "raw")
    if row.family == "tcgen05":
        return tensor_memory.kernel(row, least=True)
    return sparse.product_kernel(row, 0) if row.metadata else kernels(experiments()[row.id])[0]


def refused(tools: Toolchain, kernel: Kernel, target: str, ptx: str) -> str | None:
    """Why ptxas does not take a kernel for a target by a PTX version; None if it does.

    What a target is for that ptxas does not know any more, it is asked for the least that it knows.
    """
    gpu = target if target.rstrip("af") in {row.name for row in tools.archs} else tools.archs[0].name
    with Scratch() as scratch:
        source = scratch.folder / "form.ptx"
        source.write_text(f".version {ptx}\n.target {target}\n.address_size 64\n{kernel.text}")
        done = attempt(scratch, [tools.ptxas, "-arch", gpu, str(source), "-o", str(source) + ".cubin"], tools.limit)
    return None if done.returncode == 0 else one_line(done.stderr) or f"code {done.returncode}"


def below(target: str) -> str | None:
    """The same target of the arch before; None where no earlier arch has tensor cores."""
    number, names = target.rstrip("af"), [row.name for row in arch.ARCHS]
    place = names.index(number)
    earlier = names[place - 1] if place else None
    return earlier + (target[len(number) :] if earlier and arch.arch(earlier).number >= 90 else "") if earlier else None


def before(target: str, ptx: str) -> str | None:
    """The PTX version before; None where it does not know the target."""
    earlier = VERSIONS[VERSIONS.index(ptx) - 1]
    known = arch.arch(target.rstrip("af")).ptx if target[-1] != "f" else "8.8"
    return earlier if version(earlier) >= version(known) else None


def judged(tools: Toolchain, form: Form) -> dict[str, str | None]:
    """By question (taken, below, before) "yes", "no" or "too old"; None where it does not arise."""
    kernel = form.kernel
    target, ptx = kernel.target.name, kernel.target.ptx
    lower, earlier = below(target), before(target, ptx)
    least = refused(tools, kernel, target, ptx)
    found: dict[str, str | None] = {"taken": "yes" if least is None else "no"}
    if least and any(words in least for words in TOO_OLD):
        return {"taken": "too old"}
    found["refused below"] = _answer(refused(tools, kernel, lower, ptx)) if lower else None
    found["refused before"] = _answer(refused(tools, kernel, target, earlier)) if earlier else None
    return found


def _answer(words: str | None) -> str:
    if words is None:
        return "no"
    return "too old" if any(known in words for known in TOO_OLD) else "yes"


def main() -> None:
    """Print a line by family, and each form with an answer that is no."""
    tools = toolchain.find(Path(sys.argv[1]) if len(sys.argv) > 1 else None)
    asked = forms()
    with ThreadPoolExecutor(2) as pool:
        found = list(pool.map(partial(judged, tools), asked))
    counts: dict[str, Counter[tuple[str, str]]] = {}
    for form, answers in zip(asked, found, strict=True):
        counts.setdefault(form.family, Counter()).update((q, a) for q, a in answers.items() if a)
        for question, answer in answers.items():
            if answer == "no":
                print(f"not {question}: {form.name} ({form.kernel.target.name}, PTX {form.kernel.target.ptx})")
    print(tools.name)
    for family, count in [*counts.items(), ("all", sum(counts.values(), Counter()))]:
        print(f"{family:20}" + "; ".join(f"{q} {a}: {n}" for (q, a), n in sorted(count.items(), reverse=True)))


if __name__ == "__main__":
    main()
