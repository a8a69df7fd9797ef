"""A table that is wrong as a whole is told in words: every diagnosis is that of the change that was made."""

import json
import random

import pytest
from command import tcprobe

from tcprobe.ask.diagnose import diagnose, holes, slot_contents
from tcprobe.isa.arch import arch
from tcprobe.isa.names import select
from tcprobe.isa.operand import WHOLE
from tcprobe.layout.table import slot_table
from tcprobe.store.cell import load

D, A = load("wmma.m16n16k16.d.f32", "sm_90"), load("mma.m16n8k16.row.col.f32.f16.f16.f32.a", "sm_90")


def changed(table, slot=lambda lane, i: (lane, i), cell=lambda row, col: (row, col)):
    """The table with each slot and each element renamed; None where that leaves a hole."""
    found = {slot(*at): cell(*what) for at, what in slot_contents(table, ("row", "col")).items()}
    threads = 1 << max(lane for lane, _ in found).bit_length()
    elements = 1 + max(i for _, i in found)
    cells = [found.get(divmod(s, elements), (None, None)) for s in range(threads * elements)]
    return slot_table(threads, elements, {"row": tuple(r for r, _ in cells), "col": tuple(c for _, c in cells)})


def lane_bits(first, second):
    def exchanged(lane, i):
        one, two = lane >> first & 1, lane >> second & 1
        return lane ^ ((one ^ two) << first | (one ^ two) << second), i

    return exchanged


CASES = [
    ({"cell": lambda r, c: (c, r)}, ["transposed: row and column are swapped"]),
    ({"cell": lambda r, c: (r + 1, c + 1)}, ["rows and columns counted from 1"]),
    ({"cell": lambda r, c: (r, c + 1)}, ["columns counted from 1"]),
    ({"slot": lambda lane, i: (lane + 1, i)}, ["lanes counted from 1"]),
    ({"slot": lambda lane, i: (lane + 1, i + 1)}, ["lanes and elements (i) counted from 1"]),
    ({"slot": lane_bits(0, 2)}, ["lane bits 0 and 2 exchanged"]),
    ({"slot": lane_bits(3, 4)}, ["lane bits 3 and 4 exchanged"]),
    ({"slot": lambda lane, i: (lane ^ 5, i)}, ["lanes XORed with 5"]),
    (
        {"cell": lambda r, c: (c + 1, r + 1)},
        ["transposed: row and column are swapped; rows and columns counted from 1"],
    ),
]


@pytest.mark.parametrize(("how", "words"), CASES, ids=lambda value: value[0] if isinstance(value, list) else "")
def test_the_change_that_was_made_is_named(how, words):
    assert diagnose(changed(D.table, **how), D.fragment, D.table) == words


@pytest.mark.parametrize(
    ("order", "words"),
    [
        ((0, 2, 1, 3), "registers 1 and 2 exchanged"),
        ((1, 2, 3, 0), "registers in another order: stated 0 is 3, 1 is 0, 2 is 1, 3 is 2"),
    ],
)
def test_registers(order, words):
    """Of A, two elements a register."""
    stated = changed(A.table, slot=lambda lane, i: (lane, order[i // 2] * 2 + i % 2))
    assert diagnose(stated, A.fragment, A.table) == [words]


def test_halves_of_registers_and_both_at_once():
    stated = changed(A.table, slot=lambda lane, i: (lane, i ^ 1))
    assert "reverse" in diagnose(stated, A.fragment, A.table)[0]
    both = changed(A.table, slot=lambda lane, i: lane_bits(0, 1)(lane, i ^ 4))
    assert diagnose(both, A.fragment, A.table) == [
        "lane bits 0 and 1 exchanged",
        "registers in another order: stated 0 is 2, 1 is 3, 2 is 0, 3 is 1",
    ]


def test_what_agrees_and_what_nothing_explains_has_no_diagnosis():
    for cell in (D, A):
        assert diagnose(cell.table, cell.fragment, cell.table) == []
    columns = [list(column) for column in D.table.values.values()]
    random.Random(1).shuffle(columns[0])
    nonsense = slot_table(32, 8, dict(zip(("row", "col"), map(tuple, columns), strict=True)))
    assert diagnose(nonsense, D.fragment, D.table) == []


@pytest.mark.full
@pytest.mark.parametrize("name", ["sm_70", "sm_90"])
def test_every_fragment_reordered_at_random_is_explained(name):
    """There is a diagnosis for every order of lanes and of elements: every layout of a warp, a few of a warpgroup."""
    shuffled, seen = random.Random(7), set()
    some = [f for f in select(device=arch(name)) if f.role in WHOLE and f.products == 1]
    for fragment in [*(f for f in some if f.threads == 32), *[f for f in some if f.threads != 32][::150]]:
        table = load(fragment.id, name).table
        if table.id not in seen:
            seen.add(table.id)
            elements, lanes = (shuffled.sample(range(n), n) for n in (table.elements, table.threads))
            stated = changed(table, slot=lambda lane, i, e=elements: (lane, e[i]))
            assert stated == table or diagnose(stated, fragment, table), fragment.id
            stated = changed(table, slot=lambda lane, i, o=lanes: (o[lane], i))
            assert stated == table or diagnose(stated, fragment, table), fragment.id


def text_of(table, head="lane,i,row,col", mark=","):
    lines = [
        head,
        *(f"{lane},{i},{row},{col}" for (lane, i), (row, col) in slot_contents(table, ("row", "col")).items()),
    ]
    return "\n".join(lines).replace(",", mark) + "\n"


def test_another_archs_table_is_named():
    volta = load("wmma.m16n16k16.d.f32", "sm_70")
    done = tcprobe("compare", "-", "wmma.m16n16k16.d.f32", "--arch", "sm_90", text=text_of(volta.table), code=1)
    assert "wmma.m16n16k16.d.f32 on sm_70" in done.stdout
    asked = ("compare", "-", "wmma.m16n16k16.d.f32", "--arch", "sm_90", "--json")
    found = json.loads(tcprobe(*asked, text=text_of(volta.table), code=1).stdout)
    assert found["elsewhere"][0] == "wmma.m16n16k16.d.f32 on sm_70"
    assert (found["given"], found["not_stated"]) == (256, 0)


@pytest.mark.parametrize("mark", [",", ";", "\t"])
@pytest.mark.parametrize("head", ["lane,i,row,col", "# made by hand\nthread,i,row,column", "Thread,Register,row,col"])
def test_files_as_people_write_them(mark, head):
    for cell in (D, A):
        if "Register" in head and cell is A:  # two lines a register
            lines = [f"{lane},{i // 2},{r},{c}" for (lane, i), (r, c) in slot_contents(A.table, ("row", "col")).items()]
            text = "\n".join([head, *lines]).replace(",", mark)
        else:
            text = text_of(cell.table, head, mark)
        done = tcprobe("compare", "-", cell.fragment.id, "--arch", "sm_90", text=text)
        assert "slots agree" in done.stdout
        assert "diagnosis" not in done.stdout


def test_holes_count_only_where_the_table_must_be_complete():
    text = "".join(line + "\n" for line in text_of(D.table).splitlines() if not line.startswith(("4,", "7,")))
    asked = ("compare", "-", D.fragment.id, "--arch", "sm_90")
    assert "lanes 4, 7" in tcprobe(*asked, text=text).stdout
    tcprobe(*asked, "--complete", text=text, code=1)
    tcprobe(*asked, "--complete", text=text_of(D.table))
    some = changed(D.table, slot=lambda lane, i: (lane, i) if lane != 3 else (lane, i % 4))
    assert holes(some, D.table) == ["lanes 3, i = 4..7"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("thread,register,row,col\n0,0,0,0\n0,0,0,1\n0,1,0,2\n", "register '1' has 1 lines, another has 2"),
        ("lane;i;row;col\n0;0;0;\uff10\n", "not all whole numbers"),
        ("", "empty"),
        ("# nothing\n", "empty"),
        ("lane,i,register,row,col\n0,0,0,0,0\n", "5 columns"),
        (f"lane,i,row,col\n{'9' * 5000000}\n", "standard input has more than"),
    ],
)
def test_what_is_no_table_is_refused(text, words):
    assert words in tcprobe("compare", "-", D.fragment.id, text=text, code=4).stderr


@pytest.mark.parametrize(
    ("text", "id_", "words"),
    [
        ("lane,i,row,col\n0,0,0,0\n", "ldmatrix.m8n8.x2.shared.b16.address", "has row, col; the fragment has row."),
        ("lane,i,row,col,product\n0,0,0,0,0\n", D.fragment.id, "has row, col, product; the fragment has row, col."),
    ],
)
def test_what_a_fragment_does_not_have_is_named(text, id_, words):
    assert words in tcprobe("compare", "-", id_, text=text, code=4).stderr
