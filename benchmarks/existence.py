"""Does a compiler take exactly the forms that the rows say, on every target? Pairs of form and target, and differences.

    python benchmarks/existence.py [--pairs 3000] [CUDA_FOLDER]...

Each form is assembled alone, from its probe, for targets that the rows know, plain, `f` and `a`, by the newest PTX
version that the compiler has; the pairs are spread over all forms and targets. Expected is what rows say: taken where
one of the form's options covers the target at a PTX version not above that one. Forms of tcgen05 that only a descriptor
sets apart (K = 96) are left out: their text is another form's.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import product
from pathlib import Path
from typing import NamedTuple

from least_targets import Form, forms

from tcprobe.isa import arch, inventory
from tcprobe.isa.arch import version
from tcprobe.probes import tensor_memory
from tcprobe.sass import toolchain
from tcprobe.sass.toolchain import attempt, known_targets
from tcprobe.system.children import Scratch, one_line

# the newest PTX version of a compiler's release
PTX = {"12.9": "8.8", "13.0": "9.0", "13.1": "9.1", "13.2": "9.2", "13.3": "9.3", "13.4": "9.4", "13.5": "9.5"}
LIMIT = 60.0


class Pair(NamedTuple):
    """A form on a target, and whether the rows have it there."""

    form: Form
    target: str
    expected: bool


def pairs(program: str, count: int) -> Iterator[Pair]:
    """`count` of them, evenly over forms and targets; those of one form are not all next to each other."""
    known, newest = known_targets(program, LIMIT), version(PTX[release(program)])
    targets = [name for row in arch.ARCHS if row.name in known for name in row.targets if _named(name, newest)]
    every = list(product(_apart(), targets))
    step = max(1, len(every) // count)
    for form, target in every[::step][:count]:
        options = (
            inventory.instructions()[form.name].target.options
            if form.name in inventory.instructions()
            else (form.kernel.target.options)
        )
        yield Pair(form, target, any(arch.covers(target, name) and version(ptx) <= newest for name, ptx in options))


def _apart() -> list[Form]:
    """The forms whose names tell them apart; scales of tcgen05 spelled as all of its targets know them."""
    rows = inventory.instructions()
    kept = [form for form in forms() if form.name not in rows or rows[form.name].named_apart]
    return [
        form._replace(kernel=tensor_memory.kernel(rows[form.name])) if form.family == "tcgen05" else form
        for form in kept
    ]


def _named(target: str, newest: tuple[int, int]) -> bool:
    return version(arch.least_ptx(target)) <= newest


def release(program: str) -> str:
    """12.9 of 12.9.86."""
    return ".".join(toolchain.version(program).split(".")[:2])


def refusal(program: str, pair: Pair) -> str | None:
    """What the compiler says against a pair; None where it takes it."""
    with Scratch() as scratch:
        source = scratch.folder / "form.ptx"
        head = f".version {PTX[release(program)]}\n.target {pair.target}\n.address_size 64\n"
        source.write_text(head + pair.form.kernel.text)
        done = attempt(scratch, [program, "-arch", pair.target, str(source), "-o", f"{source}.cubin"], LIMIT)
    return None if done.returncode == 0 else one_line(done.stderr) or f"code {done.returncode}"


def survey(program: str, count: int) -> None:
    """A line for a compiler, and one for each difference."""
    asked = list(pairs(program, count))
    with ThreadPoolExecutor(2) as pool:
        said = list(pool.map(partial(refusal, program), asked))
    wrong = [(pair, words) for pair, words in zip(asked, said, strict=True) if (words is None) != pair.expected]
    taken = sum(words is None for words in said)
    print(f"ptxas {toolchain.version(program)}: {len(asked)} pairs, {taken} taken, {len(wrong)} differences")
    for pair, words in wrong:
        print(f"  {pair.form.name} on {pair.target}: {words or 'taken'}")


def main() -> None:
    """A line for each compiler, and each difference with the compiler's words."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--pairs", type=int, default=3000)
    parser.add_argument("folders", nargs="*", type=Path)
    asked = parser.parse_args()
    for folder in asked.folders or [None]:
        survey(toolchain.compiler(folder), asked.pairs)


if __name__ == "__main__":
    main()
