"""Tiles in shared memory: the worked figures, how accesses walk, and that no smaller swizzle or padding does."""

import itertools
import json

import bank_reference as reference
import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from tcprobe.ask.banks.accesses import Shared, Tile, Walk, addresses, parse_access, parse_tile, slots_of, walk
from tcprobe.ask.banks.patterns import rules_for
from tcprobe.ask.banks.tiles import cost, propose
from tcprobe.cli import main
from tcprobe.errors import UsageError
from tcprobe.isa import inventory
from tcprobe.isa.arch import arch
from tcprobe.isa.names import resolve
from tcprobe.isa.operand import WHOLE
from tcprobe.isa.shared_memory import MOST_SHARED
from tcprobe.store.cell import load
from tcprobe.store.results import published

MMA = "mma.m16n8k16.row.col.f32.f16.f16.f32"
RULES = rules_for(None, published())


def tile(*arguments):
    done = CliRunner().invoke(main, ["banks", *arguments, "--json"])
    assert done.exit_code == 0, (done.output, done.exception)
    return json.loads(done.stdout)


F16 = [MMA + ".a", "--with", "cp.async.16", "--with", "ldmatrix.x4"]
EPILOGUE = [MMA + ".d", "--with", "st.shared.v2", "--with", "ld.shared.v4@rows"]
TRANSPOSE = ["--type", "f32", "--with", "cp.async.4", "--with", "ld.shared.b32@cols"]
SQUARE = ["--tile", "32x32"]
WORKED = [
    (["--tile", "64x64", *F16], [64, 512], [3, 4, 3], [64, 64], "SWIZZLE_128B"),
    (["--tile", "64x32", *F16], [32, 128], [2, 4, 3], [32, 32], "SWIZZLE_64B"),
    (["--tile", "64x128", *F16], [128, 1024], [3, 4, 4], [128, 128], None),
    (["--tile", "64x32", *EPILOGUE], [256, 64], [2, 5, 2], [64, 64], None),
    ([*SQUARE, *TRANSPOSE], [32, 1024], [5, 2, 5], [32, 32], None),
]


@pytest.mark.parametrize(("arguments", "plain", "swizzle", "swizzled_to", "mode"), WORKED, ids=str)
def test_worked_figures(arguments, plain, swizzle, swizzled_to, mode):
    answer = tile(*arguments, "--global", "row", "--shared", "plain", "--propose")
    assert answer["wavefronts"] == plain
    assert answer["swizzle"]["swizzle"] == swizzle
    assert answer["swizzle"]["wavefronts"] == swizzled_to == answer["ideal"]
    assert answer["swizzle"]["others"] == []
    assert (answer["swizzle"]["tma"], answer["swizzle"]["extra_bytes"]) == (mode, 0)
    assert set(answer["swizzle"]["smaller"]) == {str(b) for b in range(swizzle[0])}
    assert min(answer["swizzle"]["smaller"].values()) > sum(swizzled_to)
    placed = "sw:" + ",".join(map(str, swizzle))
    assert tile(*arguments, "--global", "row", "--shared", placed)["wavefronts"] == swizzled_to
    padded = answer["padding"]
    assert tile(*arguments, "--shared", f"pad:{padded['bytes']}")["wavefronts"] == padded["wavefronts"]


def test_four_bytes_of_padding_transpose_as_well():
    padding = tile(*SQUARE, *TRANSPOSE, "--propose")["padding"]
    assert (padding["bytes"], padding["wavefronts"], padding["extra_bytes"]) == (4, [32, 32], 128)


def test_b_as_columns_is_as_a_as_rows():
    """B (k x n) with columns contiguous lies as A (m x k) does with rows contiguous; by rows it takes .trans."""
    by = ["--tile", "64x64", "--with", "cp.async.16", "--propose"]
    for extra in (["--global", "col", "--with", "ldmatrix.x4"], ["--global", "row", "--with", "ldmatrix.x4.trans"]):
        answer = tile(MMA + ".b", *by, *extra)
        assert answer["wavefronts"] == [64, 512]
        assert answer["swizzle"]["swizzle"] == [3, 4, 3]


def test_ideal_is_before_joining():
    """Pairs of lanes that read one address make one phase of two, which `ideal` still counts as two."""
    lanes = np.arange(32)[None]
    by, read = parse_tile("1x128", "b8", "row"), parse_access("ld.shared.b64")
    for byte, wavefronts in ((8 * (lanes // 2), 1), (8 * (lanes % 16), 2)):
        found = cost(Walk(read, np.zeros_like(lanes), byte), by, Shared(), RULES)
        assert (found.wavefronts, found.ideal, found.instructions) == (wavefronts, 2, 1)


def test_sweeps():
    by = parse_tile("4x40", "b8", "row")
    rows = walk(parse_access("ld.shared.b64@rows"), by, None)
    assert [(int(a), int(b)) for a, b in zip(rows.line[0], rows.byte[0], strict=True)] == [
        *((i // 5, 8 * (i % 5)) for i in range(20)),
        *[(-1, -1)] * 12,
    ]
    cols = walk(parse_access("ld.shared.b64@cols"), by, None)
    assert [(int(a), int(b)) for a, b in zip(cols.line[0, :20], cols.byte[0, :20], strict=True)] == [
        (i % 4, 8 * (i // 4)) for i in range(20)
    ]
    matrix = walk(parse_access("ldmatrix.x1@cols"), parse_tile("8x16", "f16", "row"), None)
    assert matrix.line[:, :8].tolist() == [list(range(8))] * 2
    assert matrix.byte[:, :8].tolist() == [[0] * 8, [16] * 8]
    assert (matrix.line[:, 8:] == -1).all()


FRAGMENTS = [
    f
    for f in inventory.of_a_warp().values()
    if f.role in WHOLE and f.products == 1 and f.slot_bits >= 8 and "m16n8k" in f.id
][::9]


@pytest.mark.parametrize(
    "fragment", [*FRAGMENTS, resolve(MMA + ".b").fragment, resolve(MMA + ".a").fragment], ids=lambda f: f.id
)
@pytest.mark.parametrize("contiguous", ["row", "col"])
@pytest.mark.sampled(5)
def test_a_walk_moves_each_slot_once_from_where_its_element_lies(fragment, contiguous):
    """Single elements: 2 x 3 copies of the fragment, every slot of each, at its own element."""
    cell = load(fragment.id, "sm_90" if fragment.target.on(arch("sm_90")) else "sm_120")
    table = cell.table
    by = Tile(2 * fragment.rows, 3 * fragment.cols, fragment.type, fragment.slot_bits, contiguous)
    walked = walk(parse_access(f"ld.shared.b{fragment.slot_bits}"), by, slots_of(cell))
    found = addresses(walked, by, Shared())
    size = fragment.slot_bits // 8
    expected = []
    for down, right in itertools.product(range(2), range(3)):
        for i in range(table.elements):
            cells = [table.at(lane=lane, i=i) for lane in range(32)]
            at = [(c["row"] + down * fragment.rows, c["col"] + right * fragment.cols) for c in cells]
            lines = at if contiguous == "row" else [(col, row) for row, col in at]
            expected.append([line * by.line_bytes + place * size for line, place in lines])
    assert found.tolist() == expected


@pytest.mark.parametrize(
    ("name", "contiguous", "matrices"),
    [
        (MMA + ".a", "row", 4),
        (MMA + ".a", "col", 4),
        (MMA + ".b", "col", 2),
        (MMA + ".b", "row", 2),
        ("mma.m16n8k8.row.col.f32.tf32.tf32.f32.a", "row", 4),
        ("mma.m16n8k8.row.col.f32.tf32.tf32.f32.a", "col", None),
        ("mma.m16n8k32.row.col.s32.s8.s8.s32.a", "row", 4),
        ("mma.m16n8k32.row.col.s32.s8.s8.s32.a", "col", None),
        ("mma.m16n8k64.row.col.s32.s4.s4.s32.b", "col", 2),
        (MMA + ".d", "row", None),
        (MMA + ".d", "col", None),
        ("mma.m16n8k256.row.col.s32.b1.b1.s32.and.popc.a", "row", 4),
        ("mma.m16n8k16.row.col.f16.f16.f16.f16.d", "row", 2),
        ("wmma.m16n16k16.a.row.f16", "row", 8),
    ],
)
def test_matrices_are_found_where_ldmatrix_can_bring_them(name, contiguous, matrices):
    """Each register's eight rows of 16 bytes are exactly the bytes of the elements that the register holds."""
    cell = load(name, "sm_90")
    fragment, table = cell.fragment, cell.table
    by = Tile(fragment.rows, fragment.cols, fragment.type, fragment.slot_bits, contiguous)
    if matrices is None:
        with pytest.raises(UsageError, match="not an 8 x 8 matrix"):
            walk(parse_access("ldmatrix.x1"), by, slots_of(cell))
        return
    walked = walk(parse_access("ldmatrix.x1"), by, slots_of(cell))
    assert len(walked.line) == matrices
    count = 32 // fragment.slot_bits
    for number, instruction in enumerate(addresses(walked, by, Shared())[:, :8].tolist()):
        held = set()
        for lane, j in itertools.product(range(32), range(count)):
            cell = table.at(lane=lane, i=number * count + j)
            line, place = (cell["row"], cell["col"]) if contiguous == "row" else (cell["col"], cell["row"])
            held.add(line * by.line_bytes * 8 + place * fragment.slot_bits)
        assert held == {8 * a + bit for a in instruction for bit in range(0, 128, fragment.slot_bits)}


def brute(by, walks, shared):
    """Wavefronts with their beats of each access by the tests' own rule, instruction by instruction."""
    return [sum(brute_of(w.access.row.name, row) for row in addresses(w, by, shared).tolist()) for w in walks]


def brute_of(op, row):
    phases = reference.phases(op, [None if a == -1 else a for a in row])
    return max(sum(phases), reference.beats(op, phases))


@st.composite
def tiles(draw):
    rows, cols = draw(st.sampled_from([4, 8, 16, 24, 32])), draw(st.sampled_from([8, 16, 24, 32, 48, 64]))
    by = Tile(rows, cols, "f32", 32, draw(st.sampled_from(["row", "col"])))
    ops = [
        "ld.shared.b32@cols",
        "ld.shared.b64@cols",
        "ld.shared.b128@cols",
        "st.shared.v2@rows",
        "st.shared.b32@cols",
        "cp.async.16",
        "cp.async.4",
        "st.shared.b16@cols",
        "ld.shared.b8@rows",
    ]
    names = draw(st.lists(st.sampled_from(ops), min_size=1, max_size=2, unique=True))
    return by, [walk(parse_access(name), by, None) for name in names]


@given(tiles(), st.data())
def test_kinds_of_instructions_stand_for_all(given_tile, data):
    """What a proposal counts on one instruction of each kind is what all instructions cost, counted one by one."""
    by, walks = given_tile
    for proposal in propose(by, walks, RULES):
        assert proposal.wavefronts == brute(by, walks, proposal.best)
        assert proposal.wavefronts == [cost(w, by, proposal.best, RULES).wavefronts for w in walks]
        for other in proposal.others[:2]:
            assert sum(brute(by, walks, other)) == sum(proposal.wavefronts)


SMALL = [
    ("16x16", "f32", ["st.shared.b32@rows", "ld.shared.b32@cols"]),
    ("16x24", "f32", ["cp.async.8", "ld.shared.b64@cols"]),
    ("8x64", "f16", ["cp.async.16", "ldmatrix.x4@cols"]),
    ("32x8", "f32", ["st.shared.v2@cols", "ld.shared.v4@rows"]),
    ("16x32", "b8", ["ld.shared.b8@cols"]),
]


@pytest.mark.sampled(5)
@pytest.mark.parametrize(("size", "type_", "names"), SMALL, ids=str)
def test_no_smaller_swizzle_or_padding_does(size, type_, names):
    """Against all B, M and S (negative ones, and larger than any that could matter), and twice the paddings."""
    by = parse_tile(size, type_, "row")
    walks = [walk(parse_access(name), by, None) for name in names]
    widest = max(w.access.row.bytes for w in walks)
    swizzle, padding = propose(by, walks, RULES)
    every = [
        (b, m, s)
        for b in range(1, 6)
        for m in range(widest.bit_length() - 1, 10)
        for s in (*range(-6, -b + 1), *range(b, 11))
        if Shared(swizzle=(b, m, s)).bytes(by) <= MOST_SHARED
    ]
    totals = {(0, 4, 3): sum(brute(by, walks, Shared()))}
    totals |= {s: sum(brute(by, walks, Shared(swizzle=s))) for s in every}
    least = min((total, s[0]) for s, total in totals.items())
    assert (sum(swizzle.wavefronts), swizzle.best.swizzle[0]) == least
    assert all(total >= least[0] for total in swizzle.smaller.values())
    for b, total in swizzle.smaller.items():
        assert total == min(t for s, t in totals.items() if s[0] == b)
    paddings = {p: sum(brute(by, walks, Shared(p))) for p in range(0, 256, widest)}
    assert (sum(padding.wavefronts), padding.best.padding) == min((t, p) for p, t in paddings.items())
    assert padding.smaller == {p: t for p, t in paddings.items() if p < padding.best.padding}
