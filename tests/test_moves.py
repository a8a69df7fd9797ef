"""ldmatrix, stmatrix and movmatrix against an emulated GPU of any layout, against references, and as commands."""

import random

import emulation
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sampling import examples

from tcprobe.ask.compare import CONFIRMED, DIFFERS, NOT_COVERED, verdicts
from tcprobe.errors import ProbeError
from tcprobe.isa import inventory
from tcprobe.isa.arch import WARP, arch
from tcprobe.isa.operand import Role
from tcprobe.isa.rows.moves import ROW_BYTES
from tcprobe.layout.table import slot_table
from tcprobe.probes import experiments, moves
from tcprobe.probes.experiment import OWN_RULE, Context
from tcprobe.probes.moves import FAMILIES, MemoryMove, RegisterMove
from tcprobe.references import Claim, cute, ptx_isa
from tcprobe.run.emulator import Emulator
from tcprobe.run.runner import conclude
from tcprobe.store.finding import MEMORY, Measurement

SEEDS = st.integers(0, 2**32)
MEMORY_MOVES = [e for e in experiments().values() if isinstance(e, MemoryMove)]
(MOVMATRIX,) = (e for e in experiments().values() if isinstance(e, RegisterMove))
MOVES = [*MEMORY_MOVES, MOVMATRIX]
SM_90, SM_100 = arch("sm_90"), arch("sm_100")
by_id = pytest.mark.parametrize("experiment", MOVES, ids=lambda e: e.id)


def layouts(experiment, rng):
    """Any map of the registers, and as many lanes as there are rows, any of them, that give addresses."""
    make = {True: emulation.pointed, False: emulation.shuffled}
    return {f.id: make[f.role is Role.ADDRESS](f, rng) for f in experiment.fragments}


def documented(experiment):
    """The tables that PTX means, or where it is silent CuTe."""
    claims = {f.id: (ptx_isa.claim(f, SM_100), cute.claim(f, SM_100)) for f in experiment.fragments}
    return {id_: next(c.meant for c in both if isinstance(c, Claim)) for id_, both in claims.items()}


def read(experiment, tables):
    launches = experiment.launches()
    return experiment.decode(launches, Emulator(tables).run(launches))


def concluded(experiment, reading):
    return conclude(experiment, reading, Context(SM_90, lambda _: None), "emulated", {})


def test_every_form_has_an_experiment():
    assert {e.id for e in MOVES} == {i.id for i in inventory.instructions().values() if i.family in FAMILIES}
    assert len(MOVES) == 31
    assert sum(all(f.target.on(SM_90) for f in e.fragments) for e in MOVES) == 16


@examples(60)
@given(st.sampled_from(MEMORY_MOVES), SEEDS)
def test_any_layout_and_any_lanes_are_recovered(experiment, seed):
    tables = layouts(experiment, random.Random(seed))
    found = concluded(experiment, read(experiment, tables))
    assert found.tables == {f.operand: tables[f.id] for f in experiment.fragments}
    kept = moves.in_memory(experiment.instruction).slot_bits
    narrow = f"{MEMORY}; an element is in bits 0 to {kept - 1} of its byte"
    narrow += ", its highest bit in those above too" if ".s8.s4" in experiment.id else ""
    assert found.numbering == (narrow if kept < 8 else MEMORY)


@examples(30)
@given(SEEDS)
def test_any_exchange_is_recovered_and_numbered_by_rule(seed):
    """The rule's tables need not be the emulator's, but D must hold of A what it holds there."""
    tables = layouts(MOVMATRIX, random.Random(seed))
    found = concluded(MOVMATRIX, read(MOVMATRIX, tables))
    assert found.numbering == OWN_RULE
    theirs, ours = ({o: tables[f"{MOVMATRIX.id}.{o}"] for o in "ad"}, found.tables)
    pairs = [[side["a"].inverse[cell] for cell in side["d"].cells] for side in (theirs, ours)]
    assert pairs[0] == pairs[1]
    assert ours["a"].cells[:3] == ((0, 0), (0, 1), (0, 2))


@by_id
def test_documented_layouts_are_found(experiment):
    tables = documented(experiment)
    found = concluded(experiment, read(experiment, tables))
    assert found.tables == {f.operand: tables[f.id] for f in experiment.fragments}
    assert experiment is not MOVMATRIX or found.numbering == "PTX ISA"


@pytest.mark.parametrize("size", [8, ROW_BYTES])
def test_every_lane_points_to_a_row_of_its_own(size):
    patterns = moves.patterns(size)
    assert patterns.shape == (4, WARP)
    for pattern in patterns:
        assert len(set(pattern.tolist())) == WARP
        assert not (pattern % size).any()
        assert pattern.max() + size <= moves.SIZE
    assert len({tuple(pattern.tolist()) for pattern in patterns}) == 4


# what is not a layout


@examples(60)
@given(st.sampled_from(MOVES), SEEDS, st.data())
def test_one_wrong_bit_that_comes_back_is_noticed(experiment, seed, data):
    launches = experiment.launches()
    raw = Emulator(layouts(experiment, random.Random(seed))).run(launches)[0].copy()
    raw[data.draw(st.integers(0, len(raw) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    with pytest.raises(ProbeError):
        concluded(experiment, experiment.decode(launches, [raw]))


@examples(60)
@given(st.sampled_from(MOVES), SEEDS, st.data())
def test_one_bit_from_elsewhere_is_noticed(experiment, seed, data):
    """In all patterns alike: then an element is torn."""
    reading = read(experiment, layouts(experiment, random.Random(seed)))
    name = data.draw(st.sampled_from(sorted(reading)))
    values = reading[name].copy()
    (moved,) = np.nonzero(values >= 0)
    at = data.draw(st.sampled_from(moved.tolist()))
    most = {"lane": WARP, "offset": 8 * ROW_BYTES}.get(name, len(values))
    values[at] = data.draw(st.integers(-1, most - 1).filter(lambda value: value != values[at]))
    with pytest.raises(ProbeError):
        concluded(experiment, reading | {name: values})


@examples(30)
@given(st.sampled_from(MEMORY_MOVES), SEEDS, st.data())
def test_an_element_that_is_missing_or_twice_is_noticed(experiment, seed, data):
    reading = read(experiment, layouts(experiment, random.Random(seed)))
    held = moves.in_registers(experiment.instruction)
    one, other = data.draw(st.permutations(range(held.slots)))[:2]
    changed = {name: values.reshape(held.slots, -1).copy() for name, values in reading.items()}
    for values in changed.values():
        values[one] = values[other]
    with pytest.raises(ProbeError, match=r"elements are moved, where there are|does not hold one element"):
        concluded(experiment, {name: values.reshape(-1) for name, values in changed.items()})


@examples(30)
@given(st.sampled_from(MEMORY_MOVES), SEEDS, st.data())
def test_two_exchanged_slots_show_in_the_table(experiment, seed, data):
    reading = read(experiment, layouts(experiment, random.Random(seed)))
    held = moves.in_registers(experiment.instruction)
    one, other = data.draw(st.permutations(range(held.slots)))[:2]
    order = list(range(held.slots))
    order[one], order[other] = other, one
    changed = {name: values.reshape(held.slots, -1)[order].reshape(-1) for name, values in reading.items()}
    before, after = (concluded(experiment, r).tables[held.operand].cells for r in (reading, changed))
    assert before[one] != before[other]
    assert after == tuple(before[slot] for slot in order)


def store(change):
    """The output of stmatrix with the bits of memory, (patterns, images, bits), changed."""
    experiment = experiments()["stmatrix.m8n8.x1.shared.b16"]
    (launch,) = experiment.launches()
    raw = Emulator(documented(experiment)).run([launch])[0]
    bits = moves.unpack_bits(raw.reshape(launch.grid[1], launch.grid[0], -1))
    change(bits)
    return experiment.decode([launch], [moves.pack_bits(bits)])


def stray(bits):
    bits[2, :, -1] ^= 1


def twice(bits):
    bits[1, :, -1] = bits[1, :, 0]


def elsewhere(bits):
    """Under one pattern everything goes 16 bytes further, also out of the last row."""
    bits[3] = np.roll(bits[3], 128, axis=1)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (stray, "20 bits of memory hold something that is in no register"),
        (twice, "a bit of a register is in memory twice"),
        (elsewhere, "which is in no row that a lane points to|disagree"),
    ],
)
def test_what_stmatrix_must_not_do_is_noticed(change, words):
    with pytest.raises(ProbeError, match=words):
        store(change)


# references


def test_ptx_and_cute_agree_wherever_both_speak():
    both, silent = 0, []
    for experiment in MOVES:
        for f in experiment.fragments:
            ptx, traits = ptx_isa.claim(f, SM_100), cute.claim(f, SM_100)
            if ".s8.s4." in f.id:
                assert isinstance(ptx, Claim), f.id
                assert "no atom" in traits
                continue
            assert isinstance(traits, Claim), f.id
            if isinstance(ptx, Claim):
                both += 1
                assert ptx.meant == traits.meant, f.id
            else:
                silent.append(f.id)
    assert both == 41
    assert {id_.split(".")[1] for id_ in silent} == {"m16n16", "m16n8"}
    assert "figure 105" in ptx_isa.claim(inventory.fragment("ldmatrix.m16n16.x1.trans.shared.b8.d"), SM_100)


@by_id
def test_every_claim_holds_every_element_once(experiment):
    for f in experiment.fragments:
        for reference in (ptx_isa, cute):
            claim = reference.claim(f, SM_100)
            if isinstance(claim, Claim):
                assert sorted(claim.meant.inverse) == sorted(
                    (row,) if f.role is Role.ADDRESS else (row, col) for row in range(f.rows) for col in range(f.cols)
                )
                assert {len(slots) for slots in claim.meant.inverse.values()} == {1}


def test_movmatrix_read_literally_does_nothing():
    a, d = MOVMATRIX.fragments
    for reference in (ptx_isa, cute):
        given, made = reference.claim(a, SM_90), reference.claim(d, SM_90)
        assert made.printed == given.meant
        assert "identity" in made.erratum
        assert made.meant.values == {"row": given.meant.values["col"], "col": given.meant.values["row"]}


def test_sixteen_rows_a_matrix_and_four_bytes_a_register():
    """CuTe's m16n16 with its exchange of bytes undone, written out: rows 4 (lane % 4) and on, two columns 8 apart."""
    table = cute.claim(inventory.fragment("ldmatrix.m16n16.x2.trans.shared.b8.d"), SM_100).meant
    for lane in range(WARP):
        for i in range(16):
            row, col = 16 * (i // 8) + 4 * (lane % 4) + i % 4, lane // 4 + 8 * (i % 8 // 4)
            assert table.at(lane=lane, i=i) == {"row": row, "col": col}


# comparing


def measured(experiment, tables):
    return Measurement(experiment.id, "sm_90", "live", "measured", {}, tables, MEMORY)


def exchanged(table, first, second):
    values = {name: list(column) for name, column in table.values.items()}
    for column in values.values():
        column[first], column[second] = column[second], column[first]
    return slot_table(table.threads, table.elements, {name: tuple(column) for name, column in values.items()})


@by_id
def test_references_are_confirmed_by_their_layouts_alone(experiment):
    tables = {f.operand: documented(experiment)[f.id] for f in experiment.fragments}
    for f in experiment.fragments:
        for verdict in verdicts(f, measured(experiment, tables)):
            wanted = {CONFIRMED, NOT_COVERED} if (experiment, f.operand) != (MOVMATRIX, "d") else {DIFFERS, NOT_COVERED}
            assert verdict.verdict in wanted, (f.id, verdict)
            assert not verdict.unexplained
        wrong = measured(experiment, tables | {f.operand: exchanged(tables[f.operand], 0, 5)})
        assert any(v.verdict == DIFFERS for v in verdicts(f, wrong)), f.id


def test_a_lane_that_counts_though_nobody_says_so_is_a_difference():
    ldmatrix = MEMORY_MOVES[0]
    tables = {f.operand: documented(ldmatrix)[f.id] for f in ldmatrix.fragments}
    more = tables["address"].with_values({"row": (*range(8), 0, *(None,) * 23)})
    found = verdicts(ldmatrix.instruction.fragment("address"), measured(ldmatrix, tables | {"address": more}))
    assert [v.verdict for v in found[:2]] == [DIFFERS, DIFFERS]
    assert "lane 8 i 0: stated unused, measured [0]" in found[0].detail


def test_a_renumbered_movmatrix_is_still_confirmed():
    """Rows and columns of a register-only move are a convention."""
    tables = {f.operand: documented(MOVMATRIX)[f.id] for f in MOVMATRIX.fragments}
    turned = {
        o: t.with_values({"row": tuple(7 - r for r in t.values["row"]), "col": t.values["col"]})
        for o, t in tables.items()
    }
    a = MOVMATRIX.fragments[0]
    assert [v.verdict for v in verdicts(a, measured(MOVMATRIX, turned))][:2] == [CONFIRMED, CONFIRMED]
    ldmatrix = MEMORY_MOVES[0]
    tables = {f.operand: documented(ldmatrix)[f.id] for f in ldmatrix.fragments}
    d = tables["d"].with_values({**tables["d"].values, "row": tuple(7 - r for r in tables["d"].values["row"])})
    found = verdicts(ldmatrix.instruction.fragment("d"), measured(ldmatrix, tables | {"d": d}))
    assert found[0].unexplained  # there an address says which row is which
