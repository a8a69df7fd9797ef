"""`tcprobe load`: a fragment straight from global memory, checked from its JSON alone."""

import itertools
import json

import path_products
import pytest
from click.testing import CliRunner

from tcprobe.ask.load import straight_load as load
from tcprobe.cli import main
from tcprobe.errors import UsageError
from tcprobe.isa import inventory
from tcprobe.isa.operand import WHOLE
from tcprobe.store.cell import load as table

F16 = "mma.m16n8k16.row.col.f32.f16.f16.f32"


def answered(*arguments):
    done = CliRunner().invoke(main, ["load", *arguments, "--json"])
    assert done.exit_code == 0, (done.output, done.exception)
    return json.loads(done.stdout)


def check(answer, cell):
    """Every slot gets the element that the table says, and every load is aligned."""
    bits, found = cell.fragment.slot_bits, {}
    for step in answer["steps"]:
        for issue in step["issues"]:
            run = 8 * issue["bytes"] // bits // len(issue["slots"])
            for lane, address in enumerate(issue["global"]):
                assert address % issue["bytes"] == 0
                for number, ((row, col, i), j) in enumerate(itertools.product(issue["slots"], range(run))):
                    assert row == col == 0
                    line, place = divmod(8 * address + number * bits, answer["ld"] * bits)
                    at = (line, place // bits) if answer["global"] == "row" else (place // bits, line)
                    assert (lane, i + j) not in found
                    found[lane, i + j] = at
    expected = {
        (lane, i): tuple(cell.table.at(lane=lane, i=i).values())
        for lane in range(32)
        for i in range(cell.table.elements)
    }
    assert found == expected


FRAGMENTS = [f for f in inventory.fragments().values() if f.role in WHOLE and f.products == 1 and f.threads == 32][::9]


@pytest.mark.full
@pytest.mark.parametrize("fragment", FRAGMENTS, ids=lambda f: f.id)
@pytest.mark.parametrize("major", ["row", "col"])
def test_every_slot_gets_its_element(fragment, major):
    try:
        cell = table(fragment.id)
    except UsageError:
        pytest.skip("no table")
    for ld in (None, 256, 258):
        if fragment.slot_bits >= 8 or loads(cell, major, ld):
            check(load(cell, major, ld).to_json(), cell)


def loads(cell, major, ld):
    """Whether the elements of fewer than 8 bits fill bytes in this order."""
    try:
        return load(cell, major, ld)
    except UsageError:
        return None


@pytest.mark.parametrize(
    ("name", "arch", "major", "ld", "instructions"),
    [
        (F16 + ".a", "sm_90", "row", 64, ["ld.global.b32"] * 4),
        (F16 + ".a", "sm_90", "row", 65, ["ld.global.u16"] * 8),
        (F16 + ".a", "sm_90", "col", 64, ["ld.global.u16"] * 8),
        (F16 + ".d", "sm_90", "row", 64, ["ld.global.v2.b32"] * 2),
        ("wmma.m16n16k16.a.row.f16", "sm_70", "row", 64, ["ld.global.v4.b32"] * 2),
        ("wmma.m16n16k16.a.row.f16", "sm_70", "row", 68, ["ld.global.v2.b32"] * 4),
        ("mma.m16n8k16.row.col.f64.f64.f64.f64.d", "sm_90", "row", 64, ["ld.global.v2.b64"] * 2),
    ],
)
def test_the_widest_loads(name, arch, major, ld, instructions):
    assert [move.instruction for move in load(table(name, arch), major, ld).moves] == instructions


def test_no_wider_load_exists():
    """Of any two neighbours of a width below 16 bytes, some lane's are apart or not aligned to twice the width."""
    for name, major, ld in path_products.STRAIGHT:
        cell = table(name, "sm_90")
        if len({move.order for move in load(cell, major, ld).moves}) < 2 or cell.fragment.copies > 1:
            continue
        found = load(cell, major, ld)
        for one, other in itertools.pairwise(found.moves):
            if one.width == other.width < 16:
                first, second = found.addresses(one), found.addresses(other)
                assert (second != first + one.width).any() or (first % (2 * one.width)).any(), (name, major, ld)


def test_sectors():
    """A row of 8 f16 pairs is 16 bytes: 8 rows take 8 sectors; columns of 4-byte pieces likewise."""
    answer = answered(F16 + ".a", "--from", "global", "--ld", "128")
    assert [(s["instruction"], s["sectors"], len(s["issues"])) for s in answer["steps"]] == [("ld.global.b32", 32, 4)]


def test_a_warpgroup_s_sectors_are_those_of_its_four_warps():
    """wgmma's D of f32: 8 bytes a lane, four lanes to a sector of a line."""
    answer = answered("wgmma.m64n8k16.f32.f16.f16.d", "--arch", "sm_90", "--ld", "64")
    assert [(s["instruction"], s["sectors"], s["least"]) for s in answer["steps"]] == [("ld.global.v2.b32", 64, 64)]
    assert [len(issue["global"]) for step in answer["steps"] for issue in step["issues"]] == [128, 128]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([F16 + ".a", "--ld", "8"], "at least 16 elements"),
        (["mma.m16n8k64.row.col.s32.s4.s4.s32.b", "--global", "row"], "do not fill whole bytes"),
        (["ldmatrix.m8n8.x1.shared.b16.address"], "address, not a matrix"),
        ([F16 + ".a", "--code", "--json"], "cannot be combined with"),
    ],
)
def test_refusals(arguments, words):
    done = CliRunner().invoke(main, ["load", *arguments])
    assert done.exit_code == 2
    assert words in " ".join(done.stderr.split())
