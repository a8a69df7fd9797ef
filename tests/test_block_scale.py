"""Block-scaled multiplies: random layouts and maps of scales on the emulator, references, faults, ptxas."""

import json
import random
from collections import Counter

import machine_code
import numpy as np
import pytest
from click.testing import CliRunner
from emulation import SM_90, shuffled, table_of
from hypothesis import Phase, example, given
from hypothesis import strategies as st
from sampling import examples

from tcprobe.cli import main
from tcprobe.errors import ProbeError
from tcprobe.isa import arch, inventory
from tcprobe.isa.operand import Role
from tcprobe.layout.table import Table, selected
from tcprobe.probes import experiments
from tcprobe.probes.block_scale import choices, launch
from tcprobe.probes.experiment import OWN_RULE, Context, kernels
from tcprobe.references import Claim, cute, ptx_isa
from tcprobe.run.emulator import Emulator
from tcprobe.run.runner import conclude
from tcprobe.sass.cubin import assemble
from tcprobe.store.acceptance import misfit
from tcprobe.store.results import Results

SCALED = {row.id: row for row in inventory.instructions().values() if row.scales}
START = {False: "mma", True: "mma.sp::ordered_metadata"}
KINDS = {
    (kind, sparse): f"{START[sparse]}.m16n8k{k << sparse}.row.col.kind::{kind}.block_scale.scale_vec::{tail}"
    for sparse in (False, True)
    for kind, k, tail in (
        ("mxf8f6f4", 32, "1X.f32.e4m3.e2m1.f32.ue8m0"),
        ("mxf4", 64, "2X.f32.e2m1.e2m1.f32.ue8m0"),
        ("mxf4nvf4", 64, "4X.f32.e2m1.e2m1.f32.ue4m3"),
    )
}
CONTEXT = Context(arch.arch("sm_120"), lambda _: None)


def selected_map(fragment, rng: random.Random) -> Table:
    """By selector any slot for each unit, at most one each."""
    starts = range(0, fragment.cols, fragment.span)
    units = [row * fragment.cols + col for row in range(fragment.rows) for col in starts]
    tables = []
    for _ in fragment.selectors:
        held = [*units, *[None] * (fragment.slots - len(units))]
        rng.shuffle(held)
        tables.append(table_of(fragment, held))
    return selected(tables)


def layouts(row, seed: int) -> dict[str, Table]:
    rng = random.Random(seed)
    return {f.id: selected_map(f, rng) if f.selectors else shuffled(f, rng) for f in row.fragments}


def documented(row) -> dict[str, Table]:
    """As PTX states it, or CuTe."""
    claims = {f.id: [m.claim(f, SM_90) for m in (ptx_isa, cute)] for f in row.fragments}
    return {id_: next(c for c in said if isinstance(c, Claim)).meant for id_, said in claims.items()}


def outputs(experiment, tables):
    launches = experiment.launches()
    return launches, Emulator(tables, name="sm_120").run(launches)


@pytest.mark.full
@examples(3, phases=[Phase.explicit, Phase.reuse, Phase.generate])
@example(("mxf8f6f4", True), 1)
@given(st.sampled_from([kind for kind in KINDS if not kind[1]]), st.integers(0, 1 << 30))
def test_any_layout_and_map_of_scales_is_found_up_to_numbering(kind, seed):
    """The tables that are concluded give the very answers that were measured."""
    row = SCALED[KINDS[kind]]
    experiment = experiments()[row.id]
    launches, raw = outputs(experiment, layouts(row, seed))
    found = experiment.conclude(experiment.decode(launches, raw), CONTEXT)
    assert found.numbering == OWN_RULE
    assert found.structure.triples == row.triples
    assert all(misfit(f, found.tables[f.operand]) is None for f in row.fragments)
    again = Emulator({f.id: found.tables[f.operand] for f in row.fragments}, name="sm_120").run(launches)
    assert all((one == other).all() for one, other in zip(raw, again, strict=True))


@pytest.mark.full
@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != ("mxf4", True)])
def test_documented_layouts_are_found_with_their_numbers(kind):
    row = SCALED[KINDS[kind]]
    tables, experiment = documented(row), experiments()[KINDS[kind]]
    found = experiment.conclude(experiment.decode(*outputs(experiment, tables)), CONTEXT)
    assert found.numbering == "PTX ISA"
    assert {f.operand: tables[f.id] for f in row.fragments} == dict(found.tables)


@pytest.mark.full
def test_scales_are_those_of_the_documentation():
    """PTX ISA 9.7.14.3: lane % 4 // 2 is thread-id for A, lane % 4 for B; bytes from byte-id on, one for each block."""
    picks = Counter()
    for row in SCALED.values():
        tables = documented(row)
        for fragment in row.fragments:
            assert misfit(fragment, tables[fragment.id]) is None, fragment.id
            if fragment.role is not Role.SCALE:
                continue
            of_a, table = fragment.operand == "scale_a", tables[fragment.id]
            blocks = fragment.cols if of_a else fragment.rows
            for selector in fragment.selectors:
                at = fragment.picked(selector)
                read = {lane for lane in range(32) for i in range(4) if table.at(selector=selector, lane=lane, i=i)}
                assert read == {n for n in range(32) if n % 4 // (2 if of_a else 1) == at["thread_id"]}
                line, block = ("row", "col") if of_a else ("col", "row")
                for lane in read:
                    cells = [table.at(selector=selector, lane=lane, i=i) for i in range(4)]
                    held = {i: c[block] for i, c in enumerate(cells) if c}
                    assert held == {at["byte_id"] + b: b for b in range(blocks)}
                    lines = {c[line] for c in cells if c}
                    assert lines == {lane // 4 + (8 * (lane % 2) if of_a else 0)}
            picks[fragment.operand, blocks, len(fragment.selectors)] += 1
    assert picks == {
        ("scale_a", 1, 8): 50,
        ("scale_b", 1, 16): 50,
        ("scale_a", 2, 4): 4,
        ("scale_b", 2, 8): 4,
        ("scale_a", 4, 2): 4,
        ("scale_b", 4, 4): 4,
    }


@pytest.fixture(scope="module")
def small():
    row = SCALED[KINDS["mxf4nvf4", False]]
    experiment = experiments()[row.id]
    return experiment, *outputs(experiment, documented(row))


@examples(60)
@given(st.data())
def test_an_answer_that_is_another_is_refused(small, data):
    """Every bit that the kernels of scales write is looked at: none can be changed unnoticed."""
    experiment, launches, raw = small
    byte, bit = data.draw(st.integers(0, len(raw[-1]) - 1)), data.draw(st.integers(0, 7))
    changed = [*raw[:-1], raw[-1].copy()]
    changed[-1][byte] ^= 1 << bit
    with pytest.raises(ProbeError):
        experiment.conclude(experiment.decode(launches, changed), CONTEXT)


def test_a_byte_that_scales_too_much_is_refused(small):
    """Bytes of two rows exchanged are another map, which is found; but not under one selector of B's scales only."""
    experiment, launches, raw = small
    row = experiment.instruction
    tables = documented(row)
    a = tables[row.fragment("scale_a").id]
    rows, cols = list(a.values["row"]), list(a.values["col"])
    used = [point for point, cell in enumerate(a.cells) if cell]
    rows[used[0]], rows[used[4]] = rows[used[4]], rows[used[0]]
    swapped = tables | {row.fragment("scale_a").id: a.with_values({"row": tuple(rows), "col": tuple(cols)})}
    found = experiment.conclude(experiment.decode(*outputs(experiment, swapped)), CONTEXT)
    assert found.tables["scale_a"] == swapped[row.fragment("scale_a").id]
    assert found.tables["scale_a"] != a
    other = Emulator(swapped, name="sm_120").run([launches[-1]])[0].reshape(len(choices(row)), -1)
    mixed = raw[-1].copy().reshape(len(choices(row)), -1)
    mixed[2] = other[2]  # the first choice has A's selector 0 too
    with pytest.raises(ProbeError, match="changes scale_a"):
        experiment.conclude(experiment.decode(launches, [*raw[:-1], mixed.reshape(-1)]), CONTEXT)


@pytest.mark.full
def test_blocks_that_are_no_runs_of_columns_are_numbered_anew():
    """Where A and B are as documented but columns 0 and 63 change places for both, blocks are still found."""
    row = SCALED[KINDS["mxf4", False]]
    tables, experiment = documented(row), experiments()[KINDS["mxf4", False]]
    exchange = {0: 63, 63: 0}
    spoiled = dict(tables)
    for operand, name in (("a", "col"), ("b", "row")):
        table = tables[id_ := row.fragment(operand).id]
        values = tuple(exchange.get(v, v) for v in table.values[name])
        spoiled[id_] = table.with_values({**table.values, name: values})
    launches, raw = outputs(experiment, spoiled)
    found = experiment.conclude(experiment.decode(launches, raw), CONTEXT)
    assert found.numbering == OWN_RULE
    again = Emulator({f.id: found.tables[f.operand] for f in row.fragments}, name="sm_120").run(launches)
    assert all((one == other).all() for one, other in zip(raw, again, strict=True))


@pytest.mark.full
@pytest.mark.parametrize("kind", [("mxf4nvf4", False), ("mxf8f6f4", True)])
def test_a_measurement_is_stored_and_read_again(kind, tmp_path):
    row = SCALED[KINDS[kind]]
    experiment = experiments()[row.id]
    reading = experiment.decode(*outputs(experiment, documented(row)))
    origin = dict.fromkeys(("device", "driver", "cuda", "compiler", "ptx", "tcprobe"), "x")
    found = conclude(experiment, reading, CONTEXT, "emulated", origin)
    Results(tmp_path).write(found)
    assert Results(tmp_path).measurement("sm_120", "emulated", row.id) == found
    assert set(found.tables) == {f.operand for f in row.fragments}


def test_a_measured_form_is_answered_from_its_measurement(tmp_path):
    """As a GPU would have measured it, by other scales than documented: shown, compared, merged."""
    row = SCALED[KINDS["mxf4nvf4", False]]
    tables = documented(row)
    a = row.fragment("scale_a")
    rows = tuple(None if v is None else (v + 8) % 16 for v in tables[a.id].values["row"])
    tables[a.id] = tables[a.id].with_values({**tables[a.id].values, "row": rows})
    experiment = experiments()[row.id]
    reading = experiment.decode(*outputs(experiment, tables))
    origin = dict.fromkeys(("device", "driver", "cuda", "compiler", "ptx", "tcprobe"), "x")
    Results(tmp_path / "one").write(conclude(experiment, reading, CONTEXT, "live", origin))

    def said(*words, code=0):
        done = CliRunner().invoke(main, [*words, "--results", str(tmp_path / "one")])
        assert done.exit_code == code, done.output
        return done.stdout

    shown = json.loads(said("show", a.id, "--selector", "1", "--json"))
    assert (shown["provenance"]["method"], shown["arch"], shown["selector"]) == ("live", "sm_120", 1)
    assert (shown["byte_id"], shown["thread_id"], shown["table"][2][3]) == (0, 1, [8, 3])
    judged = {
        (x["id"], x["name"]): x["verdict"]
        for x in map(json.loads, said("compare", "--arch", "sm_120", row.id, "--json", "--only", code=1).splitlines())
    }
    assert judged[a.id, "CuTe"] == "differs"
    assert judged[row.fragment("scale_b").id, "CuTe"] == "confirmed"
    assert judged[row.fragment("a").id, "PTX ISA"] == "confirmed"
    assert judged[a.id, "PTX ISA"] == "not covered"
    merged = CliRunner().invoke(main, ["merge", str(tmp_path / "one"), "--results", str(tmp_path / "all")])
    assert merged.exit_code == 0, merged.output


def test_images_of_scales_spell_every_byte():
    for row in (SCALED[KINDS["mxf4nvf4", False]], SCALED[KINDS["mxf8f6f4", False]]):
        images = launch(row).inputs[-2:]
        assert all((x[0] == f.one).all() for x, f in zip(images, row.scales, strict=True))
        assert all(x.max() - f.one <= 7 * (f.one & -f.one) for x, f in zip(images, row.scales, strict=True))
        columns = np.concatenate(images).T
        assert len({tuple(c) for c in columns.tolist()}) == 128


@pytest.mark.full
@machine_code.needs_tools
def test_ptxas_takes_every_probe_at_its_least_target_and_not_below():
    known = [SCALED[id_] for id_ in KINDS.values() if SCALED[id_].target.ptx == "8.7"]
    probes = [k for row in known for k in kernels(experiments()[row.id])]
    assert not assemble(machine_code.TOOLS, probes, arch.arch("sm_120"))[1]
    refused = assemble(machine_code.TOOLS, probes, arch.arch("sm_103"))[1]
    assert set(refused) == {k.name for k in probes}
