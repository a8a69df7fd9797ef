"""Opcodes and lowerings: what is damaged or impossible is named by what reads it, and replaced by what writes it."""

import crafted
import machine_code
import pytest
from click.testing import CliRunner
from crafted import MULTIPLY, rewrite

from tcprobe.cli import main
from tcprobe.errors import DataError, NewerSchemaError
from tcprobe.store import acceptance
from tcprobe.store.kinds import encodings
from tcprobe.store.results import Results, published

needs_tools = pytest.mark.skipif(machine_code.TOOLS is None, reason=machine_code.REASON)


@pytest.fixture
def root(tmp_path):
    return crafted.filled(tmp_path)


def opcode(content):
    return content["opcodes"]["HMMA.16816.F32"]


OPCODES = [
    lambda c: c["opcodes"].update({"hmma": opcode(c)}),
    lambda c: c["opcodes"].update({"HMMA|`x`": opcode(c)}),
    lambda c: c["opcodes"].update({"": opcode(c)}),
    lambda c: c["opcodes"].update({"HMMA.1": []}),
    lambda c: c.update(opcodes=[]),
    lambda c: c.update(more={}),
    lambda c: opcode(c).update(compiler=None),
    lambda c: opcode(c).update(compiler="\x07"),
    lambda c: opcode(c).update(source="mma.m16n8k16.row.col.f32.f16.f16.f32"),
    lambda c: opcode(c).update(source="`x`"),
    lambda c: opcode(c).update(source=["x"]),
    lambda c: opcode(c).pop("source"),
    lambda c: opcode(c).update(layouts="abd"),
    lambda c: opcode(c)["layouts"].pop("d"),
    lambda c: opcode(c)["layouts"].update(e="0" * 12),
    lambda c: opcode(c)["layouts"].update(a="../../../x"),
    lambda c: opcode(c)["layouts"].update(a="0" * 12),
    lambda c: opcode(c)["layouts"].update(a=opcode(c)["layouts"]["b"]),
    lambda c: opcode(c)["layouts"].update(c=opcode(c)["layouts"]["a"]),
]


@pytest.mark.parametrize("change", [*OPCODES, None])
@pytest.mark.sampled(11)
def test_damaged_opcodes_are_named_by_readers_and_healed_by_writers(root, change):
    path = Results(root).opcodes_path("sm_90")
    if change:
        rewrite(path, change)
    else:
        path.write_text(path.read_text()[:1000])
    assert_refused_by_pages(root, "opcodes.json")
    good = published().opcodes("sm_90")["DMMA.8x8x4"]
    tables = {operand: published().layout(layout) for operand, layout in good["layouts"].items()}
    complaints = Results(root).write_opcodes("sm_90", "d", {"DMMA.8x8x4": (tables, good["source"])})
    assert len(complaints) == 1
    assert str(root) in complaints[0]
    assert Results(root).opcodes("sm_90") == {"DMMA.8x8x4": {**good, "compiler": "d"}}
    assert Results(root).write_opcodes("sm_90", "d", {}) == []


def assert_refused_by_pages(root, name, arch="sm_90"):
    done = CliRunner().invoke(main, ["pages", "--results", str(root)])
    assert done.exit_code == 4, done.output
    assert "Traceback" not in done.stderr
    assert str(root / arch / name) in done.stderr or "missing" in done.stderr


def test_opcodes_of_another_arch_are_refused(root):
    row = published().opcodes("sm_80")
    first = Results(root)
    (root / "sm_75").mkdir()
    with pytest.raises(DataError, match=r"not a wmma\.mma of sm_75"):
        acceptance.opcodes({"opcodes": row}, "sm_75")
    first.opcodes_path("sm_75").write_text(first.opcodes_path("sm_90").read_text())
    with pytest.raises(DataError, match=str(root)):
        first.opcodes("sm_75")


def test_a_damaged_layout_of_an_opcode_is_written_anew(root):
    data = published().opcodes("sm_90")["DMMA.8x8x4"]
    tables = {operand: published().layout(layout) for operand, layout in data["layouts"].items()}
    path = Results(root).layout_path(data["layouts"]["a"])
    path.write_text("{")
    (complaint,) = Results(root).write_opcodes("sm_90", "d", {"DMMA.8x8x4": (tables, data["source"])})
    assert str(path) in complaint
    assert "DMMA.8x8x4" in Results(root).opcodes("sm_90")


def lowered(content):
    return content["instructions"][MULTIPLY]


LOWERINGS = [
    lambda c: c.update(compiler=1),
    lambda c: c.update(instructions=[1]),
    lambda c: c.pop("instructions"),
    lambda c: c["instructions"].update({"`x`": lowered(c)}),
    lambda c: lowered(c).update(opcodes={"hmma": 1}),
    lambda c: lowered(c).update(opcodes={"HMMA.16816.F32": 0}),
    lambda c: lowered(c).update(opcodes={"HMMA.16816.F32": True}),
    lambda c: lowered(c).update(opcodes={"HMMA.16816.F32": "2"}),
    lambda c: lowered(c).update(opcodes=["HMMA"]),
    lambda c: lowered(c).update(others=-1),
    lambda c: lowered(c).update(others=None),
    lambda c: lowered(c).update(refused="x\x9b31m"),
    lambda c: lowered(c).update(refused="no"),
    lambda c: lowered(c).update(refused=1),
    lambda c: lowered(c).update(more=1),
    lambda c: c["instructions"].update({MULTIPLY: None}),
]


@pytest.mark.parametrize("change", [*LOWERINGS, None])
@pytest.mark.sampled(5)
def test_damaged_lowerings_are_named_by_readers_and_healed_by_writers(root, change):
    path = Results(root).lowering_path("sm_90")
    if change:
        rewrite(path, change)
    else:
        path.write_bytes(b"\xff")
    assert_refused_by_pages(root, "lowering.json")
    (complaint,) = Results(root).write_lowering("sm_90", "d", published().lowering("sm_90")["instructions"])
    assert str(path) in complaint
    assert Results(root).lowering("sm_90")["compiler"] == "d"


def test_a_lowering_keeps_what_the_same_compiler_made_of_others(root):
    results, other = Results(root), next(iter(published().lowering("sm_90")["instructions"]))
    one = {MULTIPLY: published().lowering("sm_90")["instructions"][MULTIPLY]}
    results.write_lowering("sm_90", "c", one)
    assert other in results.lowering("sm_90")["instructions"]
    results.write_lowering("sm_90", "another", one)
    assert results.lowering("sm_90") == {"compiler": "another", "instructions": one}


def test_a_later_lowering_or_later_opcodes_are_not_written_over(root):
    results = Results(root)
    for path in (results.lowering_path("sm_90"), results.opcodes_path("sm_90")):
        path.write_text(path.read_text().replace('"schema": 1', '"schema": 2'))
        before = path.read_text()
        with pytest.raises(NewerSchemaError):
            results.write_lowering("sm_90", "d", {}) if "lowering" in path.name else results.write_opcodes(
                "sm_90", "d", {}
            )
        assert path.read_text() == before


def test_instructions_that_are_not_known_yet_may_have_a_lowering(root):
    later = "mma.sp.m16n8k32.row.col.f32.f16.f16.f32"
    rewrite(Results(root).lowering_path("sm_90"), lambda c: c["instructions"].update({later: lowered(c)}))
    assert later in Results(root).lowering("sm_90")["instructions"]
    assert CliRunner().invoke(main, ["pages", "--results", str(root)]).exit_code == 0


@pytest.mark.full
@needs_tools
def test_a_run_replaces_damaged_opcodes_and_says_so(tmp_path):
    command = ["run", "--arch", "sm_75", "--method", "sass", "--results", str(tmp_path)]
    assert CliRunner().invoke(main, command).exit_code == 0
    path = Results(tmp_path).opcodes_path("sm_75")
    whole = path.read_text()
    path.write_text(whole.replace("a", "b", 1))
    assert_refused_by_pages(tmp_path, "opcodes.json", "sm_75")
    done = CliRunner().invoke(main, command)
    assert (done.exit_code, str(path) in done.stderr, "trusted" in done.stderr) == (0, True, True)
    assert path.read_text() == whole


def encoded(content):
    return content["opcodes"]["HMMA.16816.F32"]


ENCODINGS = [
    lambda c: c["opcodes"].update({"hmma": encoded(c)}),
    lambda c: c["opcodes"].update({"HMMA.1": []}),
    lambda c: c["opcodes"].update({"HMMA.1": None}),
    lambda c: c.update(opcodes=[]),
    lambda c: c.update(more={}),
    lambda c: c.update(compiler=None),
    lambda c: encoded(c).pop("bits"),
    lambda c: encoded(c).update(bits=[]),
    lambda c: encoded(c).update(bits=[1]),
    lambda c: encoded(c).update(bits=["0x1"]),
    lambda c: encoded(c).update(bits="12"),
    lambda c: encoded(c).update(forms=["wmma.m16n16k16.d.f32"]),
    lambda c: encoded(c).update(forms=[["x"]]),
    lambda c: encoded(c).update(forms=None),
    lambda c: encoded(c).update(forms=["mma.m16n8k32.row.col.kind::f8f6f4.f16.e2m1.e2m1.f16"]),
    lambda c: encoded(c).update(more=1),
]


@pytest.mark.parametrize("change", ENCODINGS)
@pytest.mark.sampled(5)
def test_damaged_encodings_are_named_by_readers_and_healed_by_writers(tmp_path, change):
    theirs, results = encodings.path_of(published(), "sm_90"), Results(tmp_path)
    ours = encodings.path_of(results, "sm_90")
    ours.parent.mkdir()
    ours.write_bytes(theirs.read_bytes())
    assert encodings.read_document(results, "sm_90") == encodings.read_document(published(), "sm_90")
    rewrite(ours, change)
    with pytest.raises(DataError, match=r"encodings\.json"):
        encodings.read_document(results, "sm_90")
    (complaint,) = encodings.write_document(results, "sm_90", "d", {"DMMA.884": (("23f",), ())})
    assert "encodings.json" in complaint
    assert list(encodings.read_document(results, "sm_90")["opcodes"]) == ["DMMA.884"]


def test_encodings_of_other_opcodes_by_the_same_compiler_stay(tmp_path):
    results, form = Results(tmp_path), "mma.m8n8k4.row.col.f64.f64.f64.f64"
    assert encodings.write_document(results, "sm_90", "d", {"DMMA.884": (("23f",), (form,))}) == []
    encodings.write_document(results, "sm_90", "d", {"HMMA.1": (("1",), ()), "DMMA.884": (("23f",), ())})
    assert encodings.read_document(results, "sm_90")["opcodes"] == {
        "DMMA.884": {"bits": ["23f"], "forms": [form]},
        "HMMA.1": {"bits": ["1"], "forms": []},
    }
    encodings.write_document(results, "sm_90", "d", {"DMMA.884": (("23e",), ())})
    assert encodings.read_document(results, "sm_90")["opcodes"]["DMMA.884"] == {"bits": ["23e"], "forms": []}
    encodings.write_document(results, "sm_90", "another", {"HMMA.2": (("2",), ())})
    assert list(encodings.read_document(results, "sm_90")["opcodes"]) == ["HMMA.2"]
    path = encodings.path_of(results, "sm_90")
    path.write_text(path.read_text().replace('"schema": 1', '"schema": 2'))
    with pytest.raises(NewerSchemaError):
        encodings.write_document(results, "sm_90", "d", {})


def test_routines_of_a_lowering_are_names(root):
    path = Results(root).lowering_path("sm_90")
    for routines in ("__cuda_x", ["a b"], [1], None, {}):
        rewrite(path, lambda c, r=routines: c["instructions"][MULTIPLY].update(routines=r))
        with pytest.raises(DataError, match="routines are names"):
            Results(root).lowering("sm_90")
    rewrite(path, lambda c: c["instructions"][MULTIPLY].update(routines=["__cuda_sm_9x_mma"]))
    assert Results(root).lowering("sm_90")["instructions"][MULTIPLY]["routines"] == ["__cuda_sm_9x_mma"]
