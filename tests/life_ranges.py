"""Which registers each instruction reads and writes by nvdisasm's life ranges; `sass.decode` must agree."""

import re
import subprocess

from tcprobe.sass.registers import PREDICATE, UNIFORM, UNIFORM_PREDICATE

SECTIONS = {"GPR": 0, "PRED": PREDICATE, "UGPR": UNIFORM, "UPRED": UNIFORM_PREDICATE}
LISTED = re.compile(r"\s*/\*([0-9a-f]{4,})\*/\s+(.*?)\s*;\s*(?:\(\*.*?\*\))?\s*// \|(.*)$")


def life_ranges(nvdisasm, cubin):
    """(text, registers read, registers written, those of which nothing is said) of every instruction of a file."""
    command = [nvdisasm, "-c", "-plr", "-lrm", "narrow", str(cubin)]
    columns = []
    for line in subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines():
        if "// |" in line and re.search(r"\| +GPR ", line):
            titles = [part.strip() for part in line.partition("// |")[2].split("|")]
        elif "// |" in line and re.search(r"\| +# 0", line):
            columns = [part.partition("# ") for part in line.partition("// |")[2].split("|")]
        match = LISTED.match(line)
        if match and columns:
            yield match[2], *_sets(match[3].split("|"), titles, columns)


def _sets(parts, titles, columns):
    reads = writes = 0
    for title, (before, _, digits), part in zip(titles, columns, parts, strict=False):
        if title not in SECTIONS:
            continue
        for register, mark in enumerate(part[len(before) + 2 :][: len(digits.rstrip())]):
            bit = 1 << SECTIONS[title] + register
            reads |= bit if mark in "vx" else 0
            writes |= bit if mark in "^x" else 0
    return reads, writes
