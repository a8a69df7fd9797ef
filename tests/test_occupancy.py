"""Blocks of an SM are those that CUDA's cuda_occupancy.h counts: tests/data/occupancy.csv has its answers, whole.

benchmarks/occupancy.cpp makes that table from the header.
"""

import csv
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest
from machine_code import TOOLS, needs_tools
from test_check_rules import graphs

from tcprobe.check.rules import registers
from tcprobe.isa.arch import ARCHS, WARP
from tcprobe.isa.occupancy import Block, held, least, limits
from tcprobe.kernel.plan import Request, budget

TABLE = Path(__file__).parent / "data/occupancy.csv"
LIMITED = [row for row in ARCHS if limits(row.number).threads]


@cache
def answers():
    """The header's numbers by arch and limit."""
    with TABLE.open() as file:
        return {
            (arch, row["limit"]): [int(number) for number in row["numbers"].split()]
            for row in csv.DictReader(file)
            for arch in row["archs"].split()
        }


@pytest.mark.parametrize("arch", ARCHS, ids=str)
def test_blocks_by_registers_threads_and_barriers_are_the_headers(arch):
    """All counts of warps, registers and barriers that a block can have."""
    for warps in range(1, 33):
        for count in range(1, 256):
            found = held(arch.number, Block(WARP * warps, count, 0))
            assert found["registers"] == answers()[arch.name, f"registers {-(-count // 8) * 8}"][warps - 1]
            stated = answers().get((arch.name, "threads"))
            assert found["threads"] == (stated and stated[warps - 1])
            assert [found["resident blocks"]] == answers()[arch.name, "resident blocks"]
    for used in range(1, 17):
        stated = answers().get((arch.name, "barriers"))
        assert held(arch.number, Block(WARP, 8, 0, used)).get("barriers") == (stated and stated[used - 1])


@pytest.mark.parametrize("arch", ARCHS, ids=str)
def test_blocks_by_shared_memory_are_the_headers(arch):
    """At every number of bytes where the header's answer changes, and one more."""
    most = answers()[arch.name, "shared memory"]
    for bytes_ in {near for edge in most for near in (edge, edge + 1)} | {0, 1}:
        found = held(arch.number, Block(WARP, 8, bytes_)).get("shared memory", len(most))
        assert min(found, len(most)) == sum(edge >= bytes_ for edge in most)


@pytest.mark.sampled(7)
@pytest.mark.parametrize("warps", [(1, 1), (2, 1), (1, 3), (2, 2), (3, 2), (4, 2)])
@pytest.mark.parametrize("arch", LIMITED, ids=str)
def test_plans_have_the_headers_blocks(arch, warps):
    """Of tiles of a warp of 16 x 16 to 64 x 64."""
    for down, across in ((1, 1), (2, 1), (4, 2), (3, 3), (4, 4)):
        tile = (16 * down * warps[0], 16 * across * warps[1], 64)
        found = budget(Request(arch.name, "f16", tile, 1, warps=warps, multiply="mma"))
        block = Block(found.threads, sum(found.registers.values()), found.shared_bytes)
        stated = answers()[arch.name, f"registers {-(-block.registers // 8) * 8}"]
        assert found.fits["registers"] == stated[warps[0] * warps[1] - 1] > 0
        assert found.blocks == least(held(arch.number, block))


KERNEL = """
.version 8.7
.target sm_120
.address_size 64
.visible .entry kernel(.param .u32 number) .reqntid 128 {
.reg .b32 r;
ld.param.u32 r, [number];
BARRIERS
ret;
}
"""


def graph(text):
    """The one kernel of a PTX text."""
    (kernel,) = graphs([(text, TOOLS.ptxas)]).values()
    return kernel


@pytest.mark.sampled(4)
@needs_tools
@pytest.mark.parametrize(
    ("text", "used", "found"),
    [("", 0, (2, 3)), ("bar.sync 0;", 1, (2, 3)), ("bar.sync 9, 64;", 10, None), ("bar.sync r, 64;", 16, None)],
)
def test_a_register_less_frees_no_block_where_barriers_are_the_limit(text, used, found):
    """Of 176 registers two blocks of four warps fit, of 168 three; of ten barriers two, as ptxas states them."""
    kernel = graph(KERNEL.replace("BARRIERS", text))
    assert kernel.code.barriers == used
    wide = replace(kernel, code=replace(kernel.code, registers=176))
    numbers = [finding.numbers for finding in registers.check(wide)]
    assert [(each["blocks"], each["then"]) for each in numbers] == ([found] if found else [])


@needs_tools
@pytest.mark.parametrize(("count", "found"), [(144, None), (176, (1, 2))])
def test_registers_of_a_sub_partition_are_its_own(count, found):
    """Five warps: the SM's registers would do for three blocks with 136, two with 176; its quarters hold two, one."""
    kernel = graph(KERNEL.replace("BARRIERS", "").replace("128", "160"))
    wide = replace(kernel, code=replace(kernel.code, registers=count))
    numbers = [finding.numbers for finding in registers.check(wide)]
    assert [(each["blocks"], each["then"]) for each in numbers] == ([found] if found else [])
