"""What is published of lowerings is what ptxas makes today, and no answer depends on what else is asked for.

The suite assembles a sample of each arch; `python tests/test_lowerings.py [--cuda FOLDER]` assembles everything.
"""

import sys
from pathlib import Path

import pytest
from machine_code import TOOLS, needs_tools

from tcprobe.isa import inventory
from tcprobe.isa.arch import ARCHS, arch
from tcprobe.sass import lowering, toolchain
from tcprobe.sass.lowering import lower
from tcprobe.store.results import published

ROWS = inventory.instructions()
FAMOUS = (
    "mma.m8n8k4.row.row.f32.f16.f16.f16",
    "mma.m8n8k4.col.col.f16.f16.f16.f16",
    "mma.m16n8k32.row.col.kind::f8f6f4.f16.e4m3.e4m3.f16",
    "mma.m16n8k32.row.col.s32.s4.s4.s32",
)
EVERY = 50


def differences(tools, row, names):
    """(name, published, made) of those that ptxas makes something else of."""
    known = published().lowering(row.name)["instructions"]
    made = lower(tools, row, [ROWS[name] for name in names])
    return [(name, known[name], low.to_json()) for name, low in made.items() if low.to_json() != known[name]]


def by_its_compiler(tools, row):
    """Whether what is published of an arch was made by these tools."""
    return row in tools.archs and published().lowering(row.name)["compiler"] == tools.name


@pytest.mark.full
@needs_tools
@pytest.mark.parametrize("row", ARCHS, ids=lambda row: row.name)
def test_published_lowerings_can_be_obtained_again(row):
    if not by_its_compiler(TOOLS, row):
        pytest.skip(f"made by {published().lowering(row.name)['compiler']}")
    sample = sorted(published().lowering(row.name)["instructions"])[ARCHS.index(row) :: EVERY]
    assert differences(TOOLS, row, [*FAMOUS, *sample]) == []


@pytest.mark.full
@needs_tools
@pytest.mark.parametrize(
    ("name", "device", "company"),
    [
        ("mma.m8n8k4.row.row.f32.f16.f16.f16", "sm_80", "mma.m8n8k4.row.col.f32.f16.f16.f16"),
        ("mma.m16n8k32.row.col.kind::f8f6f4.f16.e4m3.e4m3.f16", "sm_100", "ldmatrix.m16n16.x1.trans.shared.b8"),
    ],
)
def test_a_lowering_does_not_depend_on_what_else_is_asked_for(name, device, company):
    """In one module ptxas shares code between two emulations, and a header for one form lets another one pass."""
    alone, row = lower(TOOLS, arch(device), [ROWS[name]]), arch(device)
    for order in ((name, company), (company, name), (name, name, company)):
        assert lower(TOOLS, row, [ROWS[n] for n in order])[name] == alone[name]


def test_code_that_nvdisasm_does_not_print_is_said_to_be_so():
    """It leaves out what is newer than it, in silence; a lowering of the rest would be a guess."""
    form = inventory.instructions()["mma.m16n8k16.row.col.f32.f16.f16.f32"]
    assert lowering.count(["HMMA.16816.F32", "UNPRINTED"], form).refused == lowering.UNREADABLE
    assert lowering.count(["HMMA.16816.F32"], form).refused is None


def main():
    """Assemble every published form; 1 if something differs."""
    tools = toolchain.find(Path(sys.argv[-1]) if "--cuda" in sys.argv else None)
    found = {
        row.name: differences(tools, row, published().lowering(row.name)["instructions"])
        for row in ARCHS
        if by_its_compiler(tools, row)
    }
    for name, differing in found.items():
        print(f"{name} by {tools.name}: {len(differing)} differ", *differing, sep="\n  ", flush=True)
    return any(found.values())


if __name__ == "__main__":
    sys.exit(main())
