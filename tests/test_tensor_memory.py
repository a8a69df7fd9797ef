"""tcgen05: registers and lanes as references state them, and every form's least target, sampled, by ptxas."""

import importlib.util
import json
from pathlib import Path

import machine_code
import pytest
from click.testing import CliRunner

from tcprobe.cli import main
from tcprobe.errors import ProbeError
from tcprobe.isa import arch, inventory
from tcprobe.isa.operand import Place
from tcprobe.probes.ptx import Launch
from tcprobe.probes.tensor_memory import instruction_name, kernel
from tcprobe.references import cute, ptx_isa, tensor_memory
from tcprobe.sass.lowering import lower
from tcprobe.store.acceptance import misfit

ROWS = {row.id: row for row in inventory.instructions().values() if row.family == "tcgen05"}
# Apache TVM, documentation of tirx, tcgen05.ld / tcgen05.st: (row, col) of register r of lane l
TVM = {
    "32x32b": lambda lane, r: (lane, r),
    "16x64b": lambda lane, r: (lane // 4 + 8 * (lane % 2), lane // 2 % 2 + 2 * r),
    "16x128b": lambda lane, r: (lane // 4 + 8 * (r % 2), lane % 4 + 4 * (r // 2)),
    "16x256b": lambda lane, r: (lane // 4 + 8 * (r // 2 % 2), r % 2 + 2 * (lane % 4) + 8 * (r // 4)),
}


@pytest.mark.parametrize("shape", cute.MEMORY_ATOMS)
def test_registers_of_loads_and_stores(shape):
    """Every cell once, for every number of repetitions; as CuTe's traits say and, but for 16x32bx2, TVM's document."""
    for number in ROWS[f"tcgen05.ld.{shape}"].stated["num"]:
        table = cute.tensor_memory_table(shape, number)
        assert table.copies == {1}
        assert table.points == len(table.inverse) == table.extent["row"] * table.extent["col"]
        if shape in TVM:
            assert list(table.cells) == [
                TVM[shape](n // table.elements, n % table.elements) for n in range(table.points)
            ]
        else:
            assert list(table.cells) == [
                (n // number % 16, n // number // 16 * number + n % number) for n in range(table.points)
            ]
    for op in ("ld", "st"):
        (fragment,) = ROWS[f"tcgen05.{op}.{shape}"].fragments
        claim = cute.claim(fragment, arch.arch("sm_100"))
        assert claim.meant == cute.tensor_memory_table(shape, 1)
        assert misfit(fragment, claim.meant) is None
        assert "figures only" in ptx_isa.claim(fragment, arch.arch("sm_100"))


@pytest.mark.parametrize("shape", ["32x32b", "16x32bx2"])
def test_reductions_load_what_loads_do_and_a_value_a_lane(shape):
    """By CuTe DSL's atoms (compared with them in test_tensor_memory_consumers.py) and the words of PTX ISA."""
    device = arch.arch("sm_103")
    for number in ROWS[f"tcgen05.ld.red.{shape}"].stated["num"]:
        row = inventory.instructions()[f"tcgen05.ld.red.{shape}.x{number}"]
        registers, value = row.fragment("d"), row.fragment("redval")
        assert cute.claim(registers, device).meant == cute.tensor_memory_table(shape, number)
        assert isinstance(ptx_isa.claim(registers, device), str)
        assert isinstance(cute.claim(value, device), str)
        reduced, loaded = ptx_isa.claim(value, device).meant, cute.tensor_memory_table(shape, number)
        for lane in range(32):
            held = {loaded.at(lane=lane, i=i)["row"] for i in range(number)}
            assert held == {reduced.at(lane=lane, i=0)["row"]}


def test_a_number_of_repetitions_is_part_of_a_name():
    """Each of PTX's table 49, no other; the name without one stays that of the least."""
    forms = inventory.instructions()
    for row in [row for row in ROWS.values() if "num" in row.stated]:
        numbers = [n for n in range(1, 300) if f"{row.id}.x{n}" in forms]
        assert numbers == list(row.stated["num"])
        for number in numbers:
            one = forms[f"{row.id}.x{number}"]
            assert one.fragments[0].registers == row.fragments[0].registers * number // numbers[0]
            assert instruction_name(one).count(f".x{number}.") == 1
            assert one.id not in set(forms)  # not listed: it would be 88 forms more
    assert "tcgen05.ld.32x32b.x0128" not in forms
    assert "tcgen05.cp.32x128b.x2" not in forms


def test_lanes_of_copies():
    """Each lane that is written gets one row; a warp of lanes gets as many rows as the shape gives it."""
    for shape, multicast in (("4x256b", ""), *tensor_memory.COPY_RUNS):
        row = ROWS[f"tcgen05.cp.{shape}"]
        lanes, table = tensor_memory.copy_lanes(shape, multicast), tensor_memory.copy_table(shape, multicast)
        written = [lane for found in lanes for lane in found]
        assert len(set(written)) == len(written) <= 128
        assert len(lanes) == row.shape.m == int(shape.split("x")[0])
        assert table.extent == {"row": row.shape.m, "col": row.shape.n}
        assert multicast in row.stated.get("multicast", ("",))
        assert all(table.at(lane=lane, column=0)["row"] == r for r, found in enumerate(lanes) for lane in found)
    assert [tensor_memory.copy_lanes("64x128b", f"warpx2::{pair}")[40] for pair in ("02_13", "01_23")] == [
        (40, 104),
        (72, 104),
    ]
    with pytest.raises(KeyError):
        tensor_memory.copy_lanes("64x128b", "")


def test_names_are_spelled_in_full():
    spelt = {row.id: instruction_name(row) for row in ROWS.values()}
    assert spelt["tcgen05.ld.16x64b"] == "tcgen05.ld.sync.aligned.16x64b.x1.b32"
    assert spelt["tcgen05.ld.red.32x32b"] == "tcgen05.ld.red.sync.aligned.32x32b.x2.min.f32"
    assert spelt["tcgen05.cp.64x128b"] == "tcgen05.cp.cta_group::1.64x128b.warpx2::02_13"
    assert spelt["tcgen05.shift.down"] == "tcgen05.shift.cta_group::1.down"
    assert not [name for name in spelt.values() if set(name) & set("{}|")]
    assert {o.place for row in ROWS.values() for o in row.operands} == {
        Place.REGISTERS,
        Place.SHARED,
        Place.TENSOR_MEMORY,
    }


def test_what_is_only_assembled_is_never_run():
    made = kernel(ROWS["tcgen05.ld.16x64b"])
    with pytest.raises(ProbeError, match="not to be run"):
        made.op.emulate(Launch(made, (1, 1, 1), (), 0, 0), None)


def least_targets():
    path = Path(__file__).parent.parent / "benchmarks" / "least_targets.py"
    spec = importlib.util.spec_from_file_location("least_targets", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.full
@machine_code.needs_tools
def test_least_targets_of_a_sample():
    """One form of each family and target; `python benchmarks/least_targets.py` asks for all of them."""
    asking = least_targets()
    sample = {}
    for row in inventory.instructions().values():
        sample.setdefault((row.family, row.target), row)
    for row in sample.values():
        found = asking.judged(machine_code.TOOLS, asking.Form(row.id, row.family, asking.probe(row)))
        if found["taken"] == "too old":
            assert row.target.ptx in ("9.1", "9.4"), row.id
            continue
        assert found["taken"] == "yes", row.id
        assert found["refused before"] in ("yes", None), row.id
        assert found["refused below"] in ("yes", None) or row.id.endswith(".k96"), row.id


@pytest.mark.full
@machine_code.needs_tools
def test_the_opcodes_of_an_arch():
    sample = [
        "mma.cta_group::2.kind::f16",
        "mma.ws.cta_group::1.kind::i8",
        "mma.cta_group::1.kind::mxf8f6f4",
        "mma.sp.cta_group::1.kind::mxf4",
        "ld.16x256b",
        "st.32x32b",
        "cp.32x128b",
        "shift.down",
    ]
    rows = [ROWS[f"tcgen05.{name}"] for name in sample]
    found = lower(machine_code.TOOLS, arch.arch("sm_100"), rows)
    assert [next(iter(found[row.id].opcodes)) for row in rows] == [
        "UTCHMMA.2CTA",
        "UTCIMMA.WS",
        "UTCQMMA",
        "UTCOMMA",
        "LDTM.16dp256bit",
        "STTM",
        "UTCCP.T.S.4x32dp128bit",
        "UTCSHIFT.DOWN",
    ]
    assert all(found[row.id].native(row) for row in rows)


@pytest.mark.parametrize(("row", "differs"), [(3, False), (40, True)])
def test_a_of_m_64_names_every_source_that_has_it_elsewhere(row, differs):
    """Apache TVM has A in lanes 0 to 63, PTX in 16 lanes of each warp; of .ws its two banks are all that is stated."""
    asked = ["where", "tcgen05.mma.cta_group::1.kind::f16.a", "--m", "64", "--row", str(row), "--col", "5", "--json"]
    found = json.loads(CliRunner().invoke(main, asked).stdout)
    others = [place for other in found.get("differs", ()) for place in other["tmem"] if "Apache TVM" in other["source"]]
    assert others == ([{"cta": 0, "lane": row, "column": 2, "bit": 16}] if differs else [])
    banks = json.loads(
        CliRunner().invoke(main, [asked[0], "tcgen05.mma.ws.cta_group::1.kind::f16.a", *asked[2:]]).stdout
    )
    assert "Apache TVM" in banks["source"]
    assert [banks["tmem"]["lane"], *(copy["lane"] for copy in banks["copies"])] == [row, row + 64]
    for form, m in (
        ("tcgen05.mma.ws.sp.cta_group::1.kind::f16.a", "64"),
        ("tcgen05.mma.ws.cta_group::1.kind::f16.a", "32"),
    ):
        refused = CliRunner().invoke(main, ["where", form, "--m", m, *asked[4:]])
        assert refused.exit_code == 2
        assert "source" in refused.output
