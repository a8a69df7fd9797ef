"""ldmatrix and movmatrix from machine code: what follows is what PTX states, and any change is noticed."""

import dataclasses
import random
from collections import Counter

import numpy as np
import pytest
from machine_code import TOOLS, needs_tools
from mutants import mutants

from tcprobe.isa import inventory
from tcprobe.isa.arch import WARP, arch
from tcprobe.layout.table import slot_table
from tcprobe.references import ptx_isa
from tcprobe.sass import moves
from tcprobe.sass.cubin import assemble
from tcprobe.sass.decode import UnreadError, exact
from tcprobe.store.results import published

pytestmark = needs_tools
FORMS = [row for row in inventory.executed_by(32) if not row.multiplies]
PLAIN = (
    "ldmatrix.m8n8.x1.shared.b16",
    "ldmatrix.m8n8.x2.shared.b16",
    "ldmatrix.m8n8.x2.trans.shared.b16",
    "movmatrix.m8n8.trans.b16",
)
WIDE = ("ldmatrix.m8n8.x4.shared.b16", "ldmatrix.m8n8.x4.trans.shared.b16")
EXPECTED = {"sm_70": (), "sm_75": PLAIN, "sm_80": PLAIN + WIDE, "sm_90": PLAIN + WIDE, "sm_121": PLAIN + WIDE}


def known(name):
    return lambda fragment: published().table(name, "sass", fragment)


@pytest.mark.full
@pytest.mark.parametrize("name", EXPECTED)
def test_what_follows_is_what_ptx_states(name):
    row = arch(name)
    found = {m.experiment: m for m in moves.derive_moves(TOOLS, row, FORMS, known(name))}
    assert set(found) == set(EXPECTED[name])
    for id_, m in found.items():
        form = inventory.instructions()[id_]
        # lanes beyond the rows repeat addresses: then it does not follow which of them count
        assert set(m.tables) == {f.operand for f in form.fragments} - (set() if id_ in WIDE else {"address"})
        for operand, table in m.tables.items():
            assert table == ptx_isa.claim(form.fragment(operand), row).meant, (id_, operand)
        assert m.method == "derived"
        assert ", through " in m.numbering
        assert ".shared." in m.numbering


class Witnesses:
    """The loads of an arch with their code, and what follows from them."""

    def __init__(self, name):
        self.row, self.known = arch(name), known(name)
        self.loads = moves._loads(self.row)
        kernels = {load: moves.load_kernel(load) for load in self.loads}
        found, refused = assemble(TOOLS, list(kernels.values()), self.row)
        assert not refused
        self.codes = {load: found[kernel.name] for load, kernel in kernels.items()}
        self.solved = self.solve()

    def solve(self, codes=None, known=None):
        return moves.solve((codes or self.codes).items(), known or self.known, self.row)


@pytest.fixture(scope="module")
def sm_80():
    return Witnesses("sm_80")


OPCODES = {"LDSM.16.M88", "LDSM.16.M88.2", "LDSM.16.M88.4", "LDSM.16.MT88.2", "LDSM.16.MT88.4", "MOVM.16.MT88"}


@pytest.mark.full
def test_every_opcode_that_the_loads_take_is_solved(sm_80):
    met = {o for code in sm_80.codes.values() for o in code.opcodes if o.startswith(("LDSM", "MOVM"))}
    assert met == OPCODES == set(sm_80.solved)


def spoilt(table):
    """The table with an element of lane 0 and one of lane 1 exchanged."""
    values = {n: list(column) for n, column in table.values.items()}
    for column in values.values():
        column[0], column[table.elements] = column[table.elements], column[0]
    return slot_table(WARP, table.elements, {n: tuple(column) for n, column in values.items()})


@pytest.mark.sampled(3)
@pytest.mark.parametrize("opcode", sorted(OPCODES))
def test_two_exchanged_elements_contradict(sm_80, opcode):
    """Of LDSM one spoilt fragment among those that it loads; of MOVM all of them, since a spoilt one is left out."""
    ids = list(dict.fromkeys(load.fragment.id for load, code in sm_80.codes.items() if opcode in code.opcodes))
    for number, name in enumerate(ids, 1):
        chosen = ids[:number] if opcode.startswith("MOVM") else [name]
        found = sm_80.solve(known=lambda f, chosen=chosen: (spoilt if f.id in chosen else lambda t: t)(sm_80.known(f)))
        assert all(found[o] == sm_80.solved[o] for o in found if o != opcode)
        assert (opcode in found) == (opcode.startswith("MOVM") and number < len(ids))
        assert opcode not in found or found[opcode].tables == sm_80.solved[opcode].tables


def test_with_all_lanes_exchanged_everything_follows_otherwise(sm_80):
    """The result rests on the tables of wmma alone: other tables, another LDSM."""
    order = [lane ^ 9 for lane in range(WARP)]

    def other(fragment):
        table = sm_80.known(fragment)
        slots = [lane * table.elements + i for lane in order for i in range(table.elements)]
        return table.with_values({n: tuple(column[s] for s in slots) for n, column in table.values.items()})

    found = sm_80.solve(known=other)
    for opcode in OPCODES - {"MOVM.16.MT88"}:
        before, after = (s[opcode].tables["d"] for s in (sm_80.solved, found))
        assert after != before
        assert all(after.at(lane=lane, i=i) == before.at(lane=order[lane], i=i) for lane in (0, 17) for i in (0, 1))
    assert "MOVM.16.MT88" not in found  # accumulators by row are loaded without it, and contradict


def test_transposed_tables_give_no_layout(sm_80):
    def turned(fragment):
        table = sm_80.known(fragment)
        return table.with_values({"row": table.values["col"], "col": table.values["row"]})

    assert not set(sm_80.solve(known=turned)) - {"LDSM.16.M88"}


@pytest.mark.full
def test_changed_code_gives_no_other_layout(sm_80, whole):
    """One instruction of one load changed, a sample: its opcodes follow as before, or not at all."""
    rng, counts, number = random.Random(3), Counter(), 0
    for load, code in sm_80.codes.items():
        for at, step in code.instructions.items():
            for text in mutants(step, rng) if step.opcode != "NOP" else ():
                number += 1
                if number % (43 if whole else 97) == 0:
                    counts[outcome(sm_80, load, at, text)] += 1
    assert counts["wrong"] == 0, counts
    assert counts["refused"] > 2
    assert counts["unchanged"] > 0
    assert sum(counts.values()) > (30 if whole else 10)


def outcome(witnesses, load, at, text):
    """How one changed instruction of a load is taken."""
    code = witnesses.codes[load]
    try:
        changed = dict(code.instructions) | {at: exact(text)}
    except UnreadError:
        return "refused"
    opcodes = tuple(step.opcode for step in changed.values())
    found = witnesses.solve(witnesses.codes | {load: dataclasses.replace(code, instructions=changed, opcodes=opcodes)})
    if any(found[o].tables != witnesses.solved[o].tables for o in found if o in witnesses.solved):
        return "wrong"
    return "unchanged" if set(found) >= set(witnesses.solved) else "refused"


@pytest.mark.full
@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("", ""),
        ("{%d0, %d1, %d2, %d3}, [%g0]", "{%d0, %d2, %d1, %d3}, [%g0]"),  # registers out of order
        ("[%g0]", "[%g0+16]"),  # another address
        ("%d1, %d2, %d3};", "%d1, %d2, %g0};"),  # another word stored
    ],
)
def test_a_form_is_an_opcode_only_with_everything_in_order(before, after):
    form = inventory.instructions()["ldmatrix.m8n8.x4.shared.b16"]
    kernel = moves.form_kernel(form)
    assert kernel.text.count(before) == 1 or not before
    text = kernel.text.replace(before, after) if before else kernel.text
    codes, _ = assemble(TOOLS, [dataclasses.replace(kernel, text=text)], arch("sm_80"))
    assert moves.single_opcode(form, codes[kernel.name]) == (None if before else "LDSM.16.M88.4")


def test_halves_of_a_table():
    """Four 4-bit elements side by side are a half word; where a half holds elements from apart it is none."""
    s4 = next(load for load in moves._loads(arch("sm_80")) if load.fragment.id == "wmma.m8n8k32.a.row.s4")
    table = known("sm_80")(s4.fragment)
    assert moves.halves_of(s4, table, 32)[5].tolist() == [8 * 1 + 2, 8 * 1 + 3]
    torn = {n: (column[1], column[0], *column[2:]) for n, column in table.values.items()}
    halves = moves.halves_of(s4, table.with_values(torn), 32)
    assert np.argwhere(halves == -1).tolist() == [[0, 0]]
