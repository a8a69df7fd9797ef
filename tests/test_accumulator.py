"""D of tcgen05.mma in tensor memory, and in the registers of a load: every element once, as references say."""

import json
from itertools import product

import pytest
from command import tcprobe

from tcprobe.isa import inventory
from tcprobe.references import cute
from tcprobe.references.cute import L, apply, modes
from tcprobe.references.tensor_memory import Landing, accumulator_layout, place_accumulator, slot_of_load

ROWS = {r.id: r for r in inventory.instructions().values() if r.id.startswith("tcgen05.mma")}
F16 = "tcgen05.mma.cta_group::1.kind::f16"
# CuTe's tmem_frg, (M, N) of a CTA -> lane + 128 column; E and G are those of B and of "1x4", which .ws has
ATOMS = {
    "A": lambda m, n: (m // 2, L((128, n), (1, 128))),
    "D": lambda m, n: (m, L((128, n), (1, 128))),
    "F": lambda m, n: (m, L(((16, 4), n), ((1, 32), 128))),
    "B": lambda m, n: (m // 2, L((64, (n // 2, 2)), (1, (128, 64)))),
    "C": lambda m, n: (m // 2, L(((16, 4), n), ((1, 32), 128))),  # TVM's; CuTe has it as B
    "E": lambda m, n: (m, L((64, (n // 2, 2)), (1, (128, 64)))),
    "G": lambda m, n: (m, L((32, (n // 4, 4)), (1, (128, 32)))),
}


def answered():
    """(letter, M, N) of every form whose layout is known."""
    for row in ROWS.values():
        for m, n in product(row.stated["m_values"], row.stated["n_values"]):
            yield accumulator_layout(row.id, m), m, n


@pytest.mark.parametrize("letter", ATOMS)
def test_every_element_has_a_cell_of_its_own_as_cute_has_it(letter):
    sizes = sorted({(m, n) for known, m, n in answered() if known == letter})
    assert sizes
    for m, n in {sizes[0], sizes[-1]}:
        rows, atom = ATOMS[letter](m, n)
        by_row, by_col = modes(atom)
        cells = set()
        for row, col in product(range(m), range(n)):
            cell = place_accumulator(letter, (m, n), row, col)
            column, lane = divmod(apply(by_row, row % rows) + apply(by_col, col), 128)
            assert cell == Landing(row // rows, lane, column)
            cells.add(cell)
        assert len(cells) == m * n


@pytest.mark.parametrize("shape", cute.MEMORY_ATOMS)
def test_every_cell_is_loaded_once(shape):
    """Loads of a shape at every repetition take a warp's lanes apart, each register once."""
    for number in inventory.instructions()[f"tcgen05.ld.{shape}"].stated["num"][:4]:
        table = cute.tensor_memory_table(shape, number)
        slots = set()
        for lane, column in product(range(32, 64), range(table.extent["col"], 2 * table.extent["col"])):
            slot = slot_of_load(Landing(0, lane, column), shape, number)
            assert slot.warp == 1
            assert slot.column_base == table.extent["col"]
            at = table.at(lane=slot.lane, i=slot.register)
            assert (slot.lane_base + at["row"], slot.column_base + at["col"]) == (lane, column)
            slots.add(slot)
        assert len(slots) == 32 * table.extent["col"]


def test_where():
    words = ("--m", "128", "--n", "256", "--row", "70", "--col", "200", "--ld", "32x32b.x32", "--json")
    found = json.loads(tcprobe("where", f"{F16}.d", *words).stdout)
    assert found["tmem"] == {"cta": 0, "lane": 70, "column": 200}
    assert (found["warp"], found["lane"], found["register"], found["column_base"]) == (2, 6, 8, 192)
    assert found["status"] == "documented"


@pytest.mark.parametrize(
    "words",
    [
        ["--row", "128", "--col", "0"],
        ["--row", "0"],
        ["--lane", "0"],
        ["--row", "0", "--col", "0", "--m", "96"],
        ["--row", "0", "--col", "0", "--ld", "32x32b.x3"],
        ["--row", "0", "--col", "0", "--arch", "sm_90"],
    ],
)
def test_mistakes_in_the_call(words):
    assert "Error: " in tcprobe("where", f"{F16}.d", *words, code=2).output
    assert "--ld needs" in tcprobe("where", "tcgen05.ld.32x32b.d", "--row", "0", "--ld", "x", code=2).output
