"""Memory layouts with gaps, repeated over a larger tile: where CUTLASS's tile_to_shape puts the copies."""

import csv
import json
import re
from math import prod
from pathlib import Path

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st
from sampling import examples

from tcprobe.cli import main
from tcprobe.errors import UsageError
from tcprobe.store.choose import layers
from tcprobe.store.written import find_cell

# layout, tile and what CUTLASS 4.7.0 (7107b055) says of them by `print(tile_to_shape(...))`; "": it does not compile
STATED = list(csv.DictReader((Path(__file__).parent / "data" / "tile_to_shape.csv").open(encoding="utf-8")))


def offsets(text, tile):
    """By element (row, col): its offset, of the layout over a tile as tcprobe has it."""
    table = find_cell(f"{text} over {tile[0]}x{tile[1]}", None, layers(None)).cell.table
    at = zip(table.values["row"], table.values["col"], strict=True)
    return {element: offset for offset, element in enumerate(at) if element[0] is not None}


def leaves(nested):
    """((8,2),3) as [8, 2, 3]."""
    return [int(number) for number in re.findall(r"\d+", nested)]


def modes(text):
    """The outer modes of the pairs of a layout's text: [[(8, 64)], [(32, 1)]] of (8,32):(64,1)."""

    def parts(nested):
        depth, found = 0, [""]
        for letter in nested[1:-1]:
            depth += (letter == "(") - (letter == ")")
            found = [*found, ""] if letter == "," and not depth else [*found[:-1], found[-1] + letter]
        return found

    shape, stride = text.split(":")
    return [list(zip(leaves(a), leaves(b), strict=True)) for a, b in zip(parts(shape), parts(stride), strict=True)]


def value(mode, index):
    """A mode at an index, whose leftmost digit varies fastest."""
    total = 0
    for extent, stride in mode:
        total, index = total + index % extent * stride, index // extent
    return total


def swizzled(offset, bits, base, shift):
    """CuTe's Swizzle: bits base + shift and up of an offset, exclusive-or'ed onto those at base."""
    return offset ^ ((offset >> shift) & (((1 << bits) - 1) << base))


@pytest.mark.parametrize("row", STATED, ids=lambda row: f"{row['layout']} {row['tile']}")
def test_every_element_is_where_cutlass_has_it(row):
    tile = tuple(map(int, row["tile"].split("x")))
    if not row["cutlass"]:
        with pytest.raises(UsageError, match="tile_to_shape refuses it"):
            offsets(row["layout"], tile)
        return
    swizzle = leaves(row["layout"].partition(" o ")[0])
    down, across = modes(row["cutlass"].rpartition(" o ")[2])
    assert offsets(row["layout"], tile) == {
        (r, c): swizzled(value(down, r) + value(across, c), *swizzle) for r in range(tile[0]) for c in range(tile[1])
    }


@st.composite
def gapped(draw):
    """A layout whose gaps are whole copies, as shape and stride of two modes, and how often it is repeated each way."""
    two = draw(st.booleans())
    sides = draw(st.lists(st.sampled_from([2, 4] if two else [1, 2, 3, 5]), min_size=2, max_size=4))
    strides, reach = [0] * len(sides), 1
    for mode in draw(st.permutations(range(len(sides)))):
        strides[mode] = reach * draw(st.sampled_from([1, 2, 4] if two else [1, 2, 3]))
        reach = strides[mode] * sides[mode]
    cut = draw(st.integers(1, len(sides) - 1))
    pairs = list(zip(sides, strides, strict=True))
    counts = [draw(st.sampled_from([1, 2, 4] if two else [1, 2, 3, 6])) for _ in "rc"]
    return (pairs[:cut], pairs[cut:]), counts, draw(st.sampled_from([(0, 3, 3), (1, 0, 1), (2, 3, 2), (3, 3, 3)])), two


@examples(100)
@given(gapped())
def test_copies_fill_the_gaps_one_after_the_other(case):
    """The complement of a layout is the ascending numbers at which copies start that cover everything, none twice."""
    (down, across), (rows, cols), swizzle, two = case
    own = [prod(extent for extent, _ in mode) for mode in (down, across)]
    places = [value(down, r) + value(across, c) for c in range(own[1]) for r in range(own[0])]
    starts, covered = [], set()
    while len(starts) < rows * cols:
        start = next(n for n in range(len(covered) + 1) if n not in covered)
        assert not covered & {start + place for place in places}
        covered |= {start + place for place in places}
        starts.append(start)
    tile = (own[0] * rows, own[1] * cols)
    shape, stride = (
        ",".join(f"({','.join(str(pair[which]) for pair in mode)})" for mode in (down, across)) for which in (0, 1)
    )
    try:
        found = offsets(f"Sw<{','.join(map(str, swizzle))}> o 0 o ({shape}):({stride})", tile)
    except UsageError:
        if two:  # powers of two always divide
            raise
        return
    assert found == {
        (r, c): swizzled(
            starts[r // own[0] + rows * (c // own[1])] + value(down, r % own[0]) + value(across, c % own[1]), *swizzle
        )
        for r in range(tile[0])
        for c in range(tile[1])
    }


@pytest.mark.parametrize(
    ("text", "tile", "row", "col", "offset"),
    [
        ("Sw<3,3,3> o 0 o (8,32):(64,1)", "8x64", 0, 32, 32),
        ("Sw<0,3,3> o 0 o (8,64):(72,1)", "16x64", 8, 0, 576),
    ],
)
def test_where_says_the_same(text, tile, row, col, offset):
    done = CliRunner().invoke(main, ["where", text, "--tile", tile, "--row", str(row), "--col", str(col), "--json"])
    assert [holder["i"] for holder in json.loads(done.stdout)["holders"]] == [offset]


def test_a_layout_that_interlaces_is_read_once_and_not_repeated():
    assert offsets("Sw<0,3,3> o 0 o (2,2):(2,3)", (2, 2)) == {(0, 0): 0, (1, 0): 2, (0, 1): 3, (1, 1): 5}
    with pytest.raises(UsageError, match="Give the layout of the whole tile"):
        offsets("Sw<0,3,3> o 0 o (2,2):(2,3)", (4, 2))
