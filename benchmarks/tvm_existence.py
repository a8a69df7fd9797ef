"""Forms of Apache TVM's `T.ptx` table, against rows and a compiler: python benchmarks/tvm_existence.py [FOLDER] [EVERY]

FOLDER has table.py of tvm.backend.cuda.ptx, which needs nothing of TVM: by default that of the installed apache-tvm. A
form is what makes rows differ: its name with shape, types and layouts; modifiers beside them (satfinite, rounding,
where shared memory is) are none, nor are collectors and decompression. Of what both have, the target for which TVM
certifies it is asked of the rows, and every EVERYth form (20) is assembled for it from its probe by the ptxas that is
found (CUDA_HOME). Prints counts by family and the differences; exit code 1 if a target or the compiler says otherwise.
"""

from __future__ import annotations

import importlib.util
import re
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from least_targets import forms

from tcprobe.isa import arch, inventory
from tcprobe.isa.instruction import Instruction
from tcprobe.probes import tensor_memory
from tcprobe.references.newer_forms import FORMS
from tcprobe.sass import toolchain
from tcprobe.system.children import Scratch

FAMILIES = ("mma", "ldmatrix", "stmatrix", "movmatrix", "wgmma", "tcgen05")
BESIDE = re.compile(
    r"\.(satfinite|rn|rz|rm|rp|shared::cta|shared|sync|aligned|ashift|pack::16b|unpack::16b|abs|NaN)(?=\.|$)"
)
LEFT_OUT = re.compile(r"alloc|relinquish|commit|wait|fence|collector|decompress|spcompress|^cvt")
BRACES = re.compile(r"\{([^{}]*)\}")
SCALES = (".block16", ".block32", ".scale_vec::1X", ".scale_vec::2X", ".scale_vec::4X")


def table(folder: Path):
    """TVM's table, as a module of its own."""
    spec = importlib.util.spec_from_file_location("tvm_table", folder / "table.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def plain(name: str) -> str:
    """A name without what stands beside a form."""
    while (shorter := BESIDE.sub("", name)) != name:
        name = shorter
    return name


def theirs(module) -> dict[str, str]:
    """Each form by plain name: the target that TVM certifies it for."""
    found: dict[str, str] = {}
    for entry in module.TABLE.values():
        if entry.family in FAMILIES:
            for tokens in module.variants(entry):
                words = [entry.mnemonic or entry.name, *(tokens.values() if isinstance(tokens, dict) else tokens)]
                name = plain(".".join(word.lstrip(".") for word in words if word))
                if not LEFT_OUT.search(name):
                    found.setdefault(name, entry.cert_arch or "")
    return found


def spellings(row: Instruction, name: str) -> Iterator[str]:
    """A name with its braces and alternatives written out."""
    if match := BRACES.search(name):
        inside = match[1]
        options = list(map(str, row.stated.get("num", ()))) if inside == "num" else inside.split("|")
        options = list(SCALES) if inside == ".scale_vectorsize" else options
        for option in ("", *options) if inside.startswith(".") else options:
            yield from spellings(row, name[: match.start()] + option + name[match.end() :])
    elif "|" in name:
        parts = name.split(".")
        at = next(n for n, part in enumerate(parts) if "|" in part)
        for option in parts[at].split("|"):
            yield from spellings(row, ".".join([*parts[:at], option, *parts[at + 1 :]]))
    else:
        yield name


def ours() -> dict[str, str]:
    """Each row by plain name: its id; newer forms by theirs."""
    rows = [row for row in inventory.instructions().values() if row.family.partition(".")[0] in FAMILIES]
    named: dict[str, str] = {}
    for row in rows:  # a form of K = 96 is spelled as the one before it
        for name in spellings(row, row.name):
            named.setdefault(plain(name), row.id)
    return {plain(form.name): form.name for form in FORMS} | named


def taken(id_: str, target: str) -> bool:
    """Whether the rows have a form on a target."""
    newer = {form.name: form.targets for form in FORMS}
    options = newer[id_] if id_ in newer else inventory.instructions()[id_].target.options
    return any(arch.covers(target, name) for name, _ in options)


def assembles(kernel, target: str) -> str:
    """What ptxas says against a probe for a target; "" where it takes it."""
    from tcprobe.probes.ptx import module

    row = next(one for one in arch.ARCHS if target.startswith(one.name))
    text = re.sub(r"\.version \S+\n\.target \S+", f".version 9.4\n.target {target}", module([kernel], row), count=1)
    with Scratch() as scratch:
        source = scratch.folder / "form.ptx"
        source.write_text(text)
        program = toolchain.compiler()
        done = toolchain.attempt(scratch, [program, "-arch", target, str(source), "-o", f"{source}.cubin"], 60.0)
    return "" if done.returncode == 0 else done.stderr.strip()[:160]


def main(folder: str = "", every: str = "20") -> int:
    """Compare, print; 1 if a target or the compiler says otherwise."""
    place = Path(folder) if folder else Path(importlib.util.find_spec("tvm").origin).parent / "backend/cuda/ptx"
    stated, known = theirs(table(place)), ours()
    print(f"{len(stated)} spellings of {', '.join(FAMILIES)} in TVM's table, {len(known)} here")
    both = sorted(set(stated) & set(known))
    for title, names in (("only TVM", set(stated) - set(known)), ("only here", set(known) - set(stated))):
        print(f"{title}: {len(names)}")
        for head, count in sorted(Counter(".".join(name.split(".")[:2]) for name in names).items()):
            print(f"    {count:4} {head}, such as {min(name for name in names if name.startswith(head))}")
    certified = [name for name in both if stated[name]]
    otherwise = [name for name in certified if not taken(known[name], stated[name])]
    print(
        f"{len(both)} in both; of {len(certified)} TVM names a target: the rows have {len(certified) - len(otherwise)}"
    )
    print(*(f"    {name}: {stated[name]}" for name in otherwise), sep="\n")
    probes = {form.name: form.kernel for form in forms()}
    rows = inventory.instructions()
    probes |= {id_: tensor_memory.kernel(row) for id_, row in rows.items() if row.family == "tcgen05"}
    asked = [name for name in certified if known[name] in probes][:: int(every)]
    refused = {name: words for name in asked if (words := assembles(probes[known[name]], stated[name]))}
    print(f"ptxas {toolchain.version(toolchain.compiler())} takes {len(asked) - len(refused)} of {len(asked)} there")
    print(*(f"    {name} on {stated[name]}: {words}" for name, words in refused.items()), sep="\n")
    return int(bool(otherwise or refused))


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
