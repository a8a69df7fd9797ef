"""The target and version that an emitted PTX text states: ptxas takes the text with just these."""

import re
import subprocess

import pytest
from machine_code import TOOLS, needs_tools

from tcprobe import emit
from tcprobe.isa import inventory
from tcprobe.isa.arch import ARCHS
from tcprobe.store.cell import find_operands
from tcprobe.store.results import published

STATED = re.compile(r"\.target (\w+), \.version (\d+)\.(\d+) or later")
ADDRESSES = "".join(f".reg .b64 %p{o};.reg .u32 %ld{o};" for o in "abcd")


def _kinds():
    """An instruction for every family, type of A, least target and PTX version."""
    kinds = {}
    for row in inventory.instructions().values():
        if row.fragments and row.family != "tcgen05" and not any(f.selectors for f in row.fragments):
            kinds.setdefault((row.family, row.fragments[0].type, row.target.name, row.target.ptx), row)
    return kinds


def _tables(row):
    return next(filter(None, (find_operands(row, name.name, published()) for name in reversed(ARCHS))), None)


@needs_tools
@pytest.mark.parametrize("family", sorted({family for family, *_ in _kinds()}))
def test_ptxas_takes_what_is_stated(tmp_path, family):
    tried = 0
    for row in (row for (of, *_), row in _kinds().items() if of == family):
        tables = _tables(row)
        assert tables, row.id
        text = emit.emit("ptx", list(tables.values()))
        stated = [(target, (int(major), int(minor))) for target, major, minor in STATED.findall(text)]
        target, least = max(stated, key=lambda one: (int(re.sub(r"\D", "", one[0])), one[1]))
        major, minor = max(least, *(of for _, of in stated))
        source = tmp_path / "stated.ptx"
        source.write_text(
            f".version {major}.{minor}\n.target {target}\n.address_size 64\n"
            f".visible .entry f() {{\n{ADDRESSES}\n{text}\nret;\n}}\n"
        )
        made = subprocess.run(
            [TOOLS.ptxas, "-O0", "-arch", target, source, "-o", tmp_path / "x.cubin"],
            capture_output=True,
            text=True,
            check=False,
        )
        if "Unsupported .version" in made.stderr or "not defined for option 'gpu-name'" in made.stderr:
            continue  # of another ptxas
        assert made.returncode == 0, (row.id, target, major, minor, made.stderr)
        tried += 1
    assert tried
