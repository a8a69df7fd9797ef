"""`show` brief: what it leaves out, how long and how wide it may be, and that what it says of the rest is so."""

import json
import re

import pytest
from click.testing import CliRunner

from tcprobe.cli import main
from tcprobe.isa import inventory
from tcprobe.isa.dtypes import dtype
from tcprobe.layout.grid import glance
from tcprobe.layout.table import slot_table
from tcprobe.store.cell import load, selections

A = "mma.m16n8k16.row.col.f32.f16.f16.f32.a"
D = "wgmma.mma_async.m64n256k16.f32.f16.f16.d"
CELL = re.compile(r"(\d+):([\d,-]+)")
ROUTE = re.compile(r"  (row|col|product) \+ (\d+): (.*)")


def said(*words, code=0, **env):
    done = CliRunner(env={"COLUMNS": "80"} | env).invoke(main, list(words))
    assert done.exit_code == code, (done.output, done.exception)
    return done.stdout


def every(step):
    """Ids of every so many fragments that have a table, and of a warpgroup's."""
    return [*list(inventory.fragments())[::step], A, D]


@pytest.mark.parametrize("name", every(251))
def test_at_most_60_lines_and_no_line_above_80(name):
    done = CliRunner(env={"COLUMNS": "80"}).invoke(main, ["show", name])
    if done.exit_code == 2:
        assert "no table" in done.stderr
        return
    lines = done.stdout.splitlines()
    assert len(lines) <= (70 if load(name).table.threads > 32 else 60)
    wide = [line for line in lines if len(line) > 80]
    assert [line for line in wide if " " in line.strip().rstrip(",")] == []


def numbers(text):
    """0-3 and 8-9 of "0-3,8-9"."""
    for part in text.split(","):
        first, _, last = part.partition("-")
        yield list(range(int(first), int(last or first) + 1))


def drawn(cell, columns=80):
    """Element -> holders, of what a picture draws and of what it says follows from that."""
    heads, *lines = [line for line in glance(cell.table, columns, cell.fragment.span) if line != "product 0"]
    cols = [next(numbers(head))[:: cell.fragment.span] for head in heads.split()]
    rest = (0,) * (len(cell.table.outputs) - 2)
    found, follows = {}, {}
    for line in lines:
        if step := ROUTE.match(line):
            moves = {name: int(by.replace(" ", "")) for name, by in re.findall(r"(lane|thread|i) ([+-] \d+)", step[3])}
            by = (moves.get("lane", moves.get("thread", 0)), moves.get("i", 0))
            follows[{"row": 0, "col": 1, "product": 2}[step[1]]] = (int(step[2]), by)
            continue
        assert not line.startswith("  rows"), line
        name, texts = line.split()[0], re.split(r"  +", line.strip())[1:]
        rows = next(numbers(name))
        for col, text in zip(cols, texts, strict=True):
            for thread, held in CELL.findall(text):
                for run in numbers(held):
                    for i, (r, c) in zip(run, [(r, c) for r in rows for c in col], strict=True):
                        found.setdefault((r, c, *rest), set()).add((int(thread), i))
    return followed(cell, found, follows)


def followed(cell, found, follows):
    """What is drawn and what follows from it by steps of an axis."""
    for axis, (step, (threads, i)) in follows.items():
        size = cell.table.extent[("row", "col", "product")[axis]]
        for at, held in list(found.items()):
            for count in range(1, -(-size // step)):
                further = (*at[:axis], at[axis] + count * step, *at[axis + 1 :])
                if further[axis] < size:
                    found[further] = {(t + count * threads, n + count * i) for t, n in held}
    return found


PICTURES = [
    A,
    D,
    "mma.m16n8k16.row.col.f32.f16.f16.f32.b",
    "wmma.m8n8k128.b.col.b1",
    "wmma.m16n16k16.a.row.f16",
    "wmma.m32n8k16.a.row.f16",
    "mma.m8n8k4.row.col.f32.f16.f16.f32.d",
    "wgmma.mma_async.m64n24k16.f32.f16.f16.d",
    "mma.sp.m16n8k16.row.col.f32.f16.f16.f32.e",
    "mma.m16n8k256.row.col.s32.b1.b1.s32.xor.popc.b",
]


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", PICTURES)
@pytest.mark.parametrize("columns", [60, 80, 200])
def test_a_picture_and_what_it_says_of_the_rest_is_the_table(name, columns):
    """Every element of the fragment follows from at most 18 lines, whatever the width."""
    for cell in selections(load(name), None):
        held = {at: {divmod(slot, cell.table.elements) for slot in slots} for at, slots in cell.table.inverse.items()}
        assert drawn(cell, columns) == held
        lines = list(glance(cell.table, columns, cell.fragment.span))
        assert len(lines) <= 19
        assert max(map(len, lines)) <= columns


def test_what_does_not_follow_is_not_said_to():
    """A table whose last row is another way round: no step leads there."""
    rows = [row for row in range(31) for _ in range(32)]
    table = slot_table(32, 32, {"row": (*rows, *32 * [31]), "col": (*31 * [*range(32)], *reversed(range(32)))})
    lines = list(glance(table, 80))
    assert "  rows 16 to 31: `--full` draws them" in lines
    assert not [line for line in lines if line.startswith("  row +")]


def test_several_are_outlined():
    text = said("show", A.removesuffix(".a"))
    assert [line.split()[0] for line in text.splitlines() if " on sm_90" in line] == [
        f"{A.removesuffix('a')}{operand}" for operand in "abcd"
    ]
    assert "groupID = lane >> 2, threadID_in_group = lane & 3" in text
    assert "0:0" not in text
    many = said("show", "wmma.*.row.*")
    assert "more, which --full shows" in many
    assert len(many.splitlines()) <= 60


def test_full_has_everything_and_parts_have_their_part():
    full, lanes, elements = (said("show", D, option) for option in ("--full", "--lanes", "--elements"))
    assert full.count("thread 127 (warp 3, lane 31)") == lanes.count("thread 127 (warp 3, lane 31)") > 1
    assert "127:127" in full
    assert "127:127" in elements
    assert "127:127" not in lanes
    assert "(warp 3" not in elements
    assert "remove --full" in CliRunner().invoke(main, ["show", D, "--json", "--full"]).stderr


def test_bases_say_every_slot():
    for name in (A, D, "mma.m8n8k4.row.col.f32.f16.f16.f32.d"):
        shown = json.loads(said("show", name, "--json"))
        cell = load(name)
        for thread in range(cell.table.threads):
            for i in range(cell.table.elements):
                at = [0] * len(cell.table.outputs)
                for number, bits in ((thread, shown["bases"]["lane"]), (i, shown["bases"]["register"])):
                    for bit, image in enumerate(bits):
                        at = [a ^ b for a, b in zip(at, image, strict=True)] if number >> bit & 1 else at
                assert tuple(at) == cell.table.cells[thread * cell.table.elements + i]


E2M1 = "mma.m16n8k32.row.col.kind::f8f6f4.f32.e2m1.e2m1.f32.a"
LOADED = "ldmatrix.m8n16.x4.shared.b8x16.b4x16_p64.d"


def test_where_in_a_byte_four_bits_are_is_said():
    """As CUTLASS's fp4_shift_A has it: ldmatrix leaves them low, mma has e2m1 two higher; others stay."""
    place = ["--row", "3", "--col", "4"]
    for words in (["show", E2M1], ["where", E2M1, *place], ["load", E2M1], ["show", LOADED], ["where", LOADED, *place]):
        assert "shift left by 2" in " ".join(said(*words).split()), words
    for fragment in inventory.fragments().values():
        own = fragment.type == "e2m1" and fragment.slot_bits > dtype("e2m1").bits
        shifted = "shift left by 2" in (fragment.container or "")
        assert shifted == (own or ("b4x16_p64.d" in fragment.id)), fragment.id
    ones = {name: dtype(name).one_in(8) // dtype(name).one for name in ("e2m1", "e3m2", "e2m3")}
    assert ones == {"e2m1": 1 << 2, "e3m2": 1, "e2m3": 1}


@pytest.mark.parametrize("name", ["mma.sp m16n8k32 f16 metadata", "mma.sp m16n8k16 tf32 metadata", "nvfp4 scale_a"])
def test_every_selector_says_which_lanes_are_read(name):
    done = CliRunner().invoke(main, ["show", *name.split()])
    assert done.exit_code == 0, done.output
    blocks = re.findall(r"selector ([0-9]+): .*?read from (?:every lane|lanes [0-9, \n]+)", done.stdout)
    outlined = re.findall(r"selector ([0-9]+), ", done.stdout.partition("--elements and --lanes")[2])
    assert blocks == ["0", *outlined]
