"""Findings of tensor memory: files of their schema; what is measured counts in answers before what is documented."""

import json
import sys
from dataclasses import replace
from pathlib import Path

import jsonschema
import pytest
from bench import found, run
from command import tcprobe
from tensor_cores import ALL, EVERY_KIND, KIND, Core, D, Scattered, machine

from tcprobe.ask.tensor_memory import OperandVariant, operand, placement
from tcprobe.errors import DataError
from tcprobe.isa.arch import arch
from tcprobe.run.campaign import select
from tcprobe.run.doctor import new_words
from tcprobe.store import findings, kinds
from tcprobe.store.choose import layers
from tcprobe.store.kinds.tensor_memory import subject
from tcprobe.store.results import Results

HERE = Path(__file__).parent


class Measured(Core):
    """D's columns are reversed, so an answer that is measured is none that is documented."""

    def in_tensor_memory(self, instruction, operand, said):
        there = super().in_tensor_memory(instruction, operand, said)
        return there[:, ::-1] if operand == "d" else there


MEASURED = (
    "tcgen05.mma.cta_group::1.kind::f16.d.m128n128.f32",
    "tcgen05.mma.cta_group::1.kind::f16.a.m128n64",
    "tcgen05.mma.cta_group::2.kind::f16.d.m128n128.f32",
    "tcgen05.cp.128x128b.memory",
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Some findings on sm_103."""
    made = tmp_path_factory.mktemp("measured")
    run(KIND, Measured({}, name="sm_103"), made, MEASURED)
    return made


def told(*arguments, code=0):
    return tcprobe(*arguments, code=code).output


def test_findings_are_files_of_their_schema(folder, sample):
    every = list(findings.every(Results(folder), KIND, "sm_103"))
    assert {one.subject for one in every} == set(MEASURED)
    checks = jsonschema.Draft202012Validator(kinds.schema(KIND))
    for one in sample(every, 4):
        checks.validate(one.plain)
    assert kinds.kind(KIND).words(every).endswith("places of 4 operands of 3 forms in tensor memory")


def test_what_is_measured_counts_first(folder):
    """D is where it was measured, A where both say so; of other sizes and archs documents answer."""
    name, size = "tcgen05.mma.cta_group::1.kind::f16", ("--n", "128")
    where = ("where", f"{name}.d", "--row", "5", "--col", "7", "--json", "--results", folder)
    found = json.loads(told(*where, *size))
    assert (found["status"], found["arch"], found["tmem"]["column"]) == ("measured", "sm_103", 127 - 7)
    assert found["agrees"] == []
    assert found["differs"][0]["tmem"][0]["column"] == 7
    assert found["source"].startswith("measured on sm_103: live on emulated tensor core")
    of_a = json.loads(told("where", f"{name}.a", "--row", "5", "--col", "7", "--json", "--results", folder))
    assert (of_a["status"], len(of_a["agrees"]), "differs" in of_a) == ("measured", 1, False)
    for other in ((*where, "--n", "256"), (*where, *size, "--arch", "sm_100"), where[:-2] + size):
        assert json.loads(told(*other))["status"] == "documented"
    assert "on sm_103" in told(*where[:6], "--results", folder, *size)
    cell = told("where", f"{name}.d", "--lane", 5, "--column", 120, *size, "--results", folder, "--json")
    assert (json.loads(cell)["row"], json.loads(cell)["col"]) == (5, 7)


def test_show_and_trace_say_it(folder):
    name = "tcgen05.mma.cta_group::1.kind::f16"
    words = " ".join(told("show", f"{name}.d", "--n", "128", "--results", folder).split())
    assert "measured on sm_103: live on emulated tensor core" in words
    assert "differs in PTX ISA 9.1" in words
    assert "col = 127 - column" in words or "col = " in words
    plain = json.loads(told("show", f"{name}.d", "--n", "128", "--results", folder, "--json"))
    assert (plain["status"], plain["arch"]) == ("measured", "sm_103")
    traced = ("trace", name, "--n", "128", "--row", "5", "--col", "7", "--ld", "32x32b.x32", "--results", folder)
    found = json.loads(told(*traced, "--json"))
    assert (found["status"], found["d"][0]["column"], found["loaded"]["column_base"]) == ("measured", 120, 96)
    both = json.loads(told(*traced, "--a-in", "tensor", "--json"))
    assert both["status"] == "measured"
    assert "on sm_103" in " ".join(told(*traced).split())
    paired = json.loads(told("where", "tcgen05.mma.cta_group::2.kind::f16.d", "--m", 128, "--n", 128, "--row", 70,
                             "--col", 100, "--results", folder, "--json"))  # fmt: skip
    assert paired["tmem"] == {"cta": 1, "lane": 6, "column": 27}
    copied = told("show", "tcgen05.cp.128x128b.memory", "--results", folder)
    assert "also documented by PTX ISA" in " ".join(copied.split())


def test_a_layout_that_nobody_states_is_answered_once_it_is_measured(tmp_path):
    id_ = "tcgen05.mma.ws.cta_group::1.kind::tf32.a.m32n64"
    core = Scattered({}, name="sm_103", seed=1)
    asked = OperandVariant(m=32, layers=layers(tmp_path))
    with pytest.raises(Exception, match="no source states a layout of A"):
        placement(operand(id_.removesuffix(".m32n64")), asked)
    run(KIND, core, tmp_path, [id_])
    answer = placement(operand(id_.removesuffix(".m32n64")), OperandVariant(m=32, layers=layers(tmp_path)))
    assert answer.status == "measured"
    first = core.in_tensor_memory(ALL[id_].sized.row, "a", replace(ALL[id_].sized, a_in_tensor=False))[4, 3]
    assert {(c.cta, c.lane, 32 * c.column + c.bit) for c in answer.places(4, 3)} == set(map(tuple, first.tolist()))


@pytest.mark.full
def test_scales_are_copied_to_where_the_multiply_was_measured_to_read_them(tmp_path):
    """Measured as documented, that is what the code rests on; measured elsewhere, it is refused."""
    name = "tcgen05.mma.cta_group::1.kind::mxf4.scale_a"
    (id_,) = (id_ for id_ in ALL if id_.startswith(f"{name}.m128n256.") and id_.endswith(".selector0"))
    asked = ("scales", name, "--m", 128, "--n", 256, "--line", 3, "--json", "--results")
    assert json.loads(told(*asked, tmp_path))["evidence"].startswith("documented only, by PTX ISA")
    run(KIND, machine(ALL[id_]), tmp_path / "as documented", [id_])
    assert "emulated tensor core" in json.loads(told(*asked, tmp_path / "as documented"))["evidence"]
    run(KIND, machine(ALL[id_], Scattered, seed=4), tmp_path / "elsewhere", [id_])
    assert "atom" in " ".join(told(*asked, tmp_path / "elsewhere", code=2).split())


@pytest.fixture
def gpu(monkeypatch, tmp_path):
    """`tcprobe run` on a GPU with tensor memory."""
    worker = (sys.executable, str(HERE / "emulated_worker.py"), "fine", "", "", "TensorMemoryCore")
    monkeypatch.setattr("tcprobe.run.backend.COMMAND", worker)
    return lambda *arguments, code=0: told("run", *arguments, "--results", tmp_path, code=code)


@pytest.mark.full
def test_one_run_makes_tables_and_places(gpu, tmp_path):
    """Of what it is asked for; again it keeps them, and answers, pages and merging take them."""
    asked = ("tcgen05.ld.16x64b", "tcgen05.cp.32x128b", "tcgen05.st.32x32b.x4.a")
    tables, found = map(json.loads, gpu(*asked, "--json").splitlines())
    ids = {f"tcgen05.ld.16x64b{repeated}" for repeated in ("", *(f".x{1 << j}" for j in range(8)))}
    assert {one["id"] for one in tables["experiments"]} == ids | {"tcgen05.st.32x32b.x4"}
    assert (found["kind"], list(found["findings"])) == (KIND, ["tcgen05.cp.32x128b.memory.warpx4"])
    schema = json.loads((HERE.parent / "docs" / "schema.json").read_text())
    for printed in (tables, found):
        assert {one["status"] for one in printed["experiments"]} == {"measured"}
        jsonschema.Draft202012Validator(schema | {"$ref": "#/$defs/run"}).validate(printed)
    assert [json.loads(line)["kept"] for line in gpu(*asked, "--json").splitlines()] == [10, 1]
    shown = told("show", "tcgen05.ld.16x64b.x8.d", "--why", "--results", tmp_path)
    assert "tcgen05.ld.16x64b.x8.d on sm_103" in shown
    assert json.loads(told("show", "tcgen05.ld.16x64b.x8.d", "--json", "--results", tmp_path))["references"]
    assert "confirmed" in told("compare", "tcgen05.ld.16x64b.d", "--results", tmp_path)
    told("pages", "--results", tmp_path)
    page = (tmp_path / "tensor_memory.md").read_text()
    assert "| sm_103 | 1 | 1 | - |" in page
    assert "None of this is measured" not in page
    merged = told("merge", tmp_path, "--contributor", "me", "--results", tmp_path / "merged")
    assert "11 measurements added" in merged
    assert "on sm_103" in told("show", "tcgen05.cp.32x128b.memory", "--results", tmp_path / "merged")


def test_a_family_is_a_kind_of_finding_too(gpu):
    words = gpu("--family", KIND, "tcgen05.cp.4*", "tcgen05.cp.64*")
    assert "measured    3  (3 tensor_memory)" in words
    assert "places of 3 operands of 2 forms in tensor memory; saved in" in words
    assert "tensor_memory" in gpu("--family", KIND, "wgmma*", code=2)


def test_what_k_96_leaves_open_is_said():
    """Three scales from ID 1 are in figures, and not in the descriptor; six are refused until they are measured."""
    name = "tcgen05.mma.cta_group::2.kind::mxf4nvf4.k96.scale_a"
    asked = ("where", name, "--row", "3", "--col", "1", "--scale-vec")
    one, other = (json.loads(told(*asked, "3", "--selector", str(n), "--json")) for n in (0, 1))
    assert "IDs 0 and 2 only" in other["source"]
    assert "IDs" not in one["source"]
    assert other["bit"] == one["bit"] + 8
    assert "rest" in " ".join(told(*asked, "6", code=2).split())
    subjects = {subject(id_) for id_ in ALL if id_.startswith(name)}
    assert {(said.vector, said.selector) for said in subjects} == {*((3, s) for s in range(4)), (6, 0), (6, 2)}


def test_doctor_says_how_many_would_be_new():
    count = sum(one.target.on(arch("sm_103")) is not None for one in ALL.values())
    assert f"and {count} places of operands in tensor memory that nobody measured live" in new_words(arch("sm_103"))
    assert "tensor memory" not in new_words(arch("sm_90"))


def test_a_run_without_a_family_makes_them_too():
    every = {one.id for one in select(())}
    assert set(ALL) < every
    forms = [one.id for one in select(("tcgen05.mma.cta_group::1.kind::tf32",))]
    assert forms
    assert {subject(id_).form for id_ in forms} == {"tcgen05.mma.cta_group::1.kind::tf32"}
    assert {one.id for one in select((), "tcgen05")} > set(ALL)
    assert not set(ALL) & {one.id for one in select((), "wgmma")}
    copies = {id_ for id_ in ALL if id_.startswith("tcgen05.cp.")}
    assert {one.id for one in select(("tcgen05.cp*",))} == copies
    loads = {one.id for one in select(("tcgen05.*",))}
    assert loads > {*ALL, "tcgen05.ld.32x32b", "tcgen05.st.16x256b.x32", "tcgen05.ld.red.16x32bx2.x8"}


WRONG = {
    "another size": lambda body: setattr(body, "rows", 32),
    "a place missing": lambda body: body.runs.pop(),
    "a place too much": lambda body: body.runs.append((64, 0, 1, 0, 0, 0, 0)),
    "another CTA": lambda body: body.runs.append((0, 0, 1, 1, 0, 0, 0)),
    "beyond the last column": lambda body: body.runs.append((0, 0, 1, 0, 0, 512 * 32, 0)),
    "beyond the last lane": lambda body: body.runs.append((0, 0, 1, 0, 128, 0, 0)),
    "two in one": lambda body: body.runs.__setitem__(1, (1, 0, 64, 0, 0, 0, 32)),
    "endless": lambda body: body.runs.extend([(0, 0, 16000, 0, 0, 0, 0)] * 60),
}


@pytest.mark.parametrize("how", WRONG)
def test_what_cannot_be_is_not_taken(how):
    experiment = ALL[D]
    one = found(experiment, machine(experiment))
    body = kinds.to_body(KIND, one.plain)
    WRONG[how](body)
    with pytest.raises(DataError):
        kinds.check(replace(one, body=body))


EVERYWHERE = {
    "elements of another width": lambda body: setattr(body, "bits", body.bits // 2),
    "inside another": lambda body: body.runs.__setitem__(0, (*body.runs[0][:5], body.runs[0][5] + 1, body.runs[0][6])),
    "all in one": lambda body: setattr(body, "runs", [(r, 0, body.cols, 0, 0, 0, 0) for r in range(body.rows)]),
}


@pytest.mark.parametrize("id_", EVERY_KIND)
@pytest.mark.sampled(5)
def test_what_cannot_be_of_any_operand_is_not_taken(id_):
    one = found(ALL[id_], machine(ALL[id_]))
    kinds.check(one)
    for change in EVERYWHERE.values():
        body = kinds.to_body(KIND, one.plain)
        change(body)
        with pytest.raises(DataError):
            kinds.check(replace(one, body=body))


@pytest.mark.parametrize(
    "text",
    [
        D.replace("m64", "m96"),
        D.replace("kind::f16", "kind::f17"),
        D.replace("m64", "m064"),
        "tcgen05.cp.64x128b.memory.warpx4",
        "tcgen05.ld.32x32b.d.m64n64",
        "mma.m16n8k16.d.m64n64",
        D.replace(".f32", ".s32"),
    ],
)
def test_subjects_that_are_none(text):
    experiment = ALL[D]
    one = found(experiment, machine(experiment))
    with pytest.raises(DataError):
        kinds.check(replace(one, subject=text))


def test_an_arch_without_tensor_memory_has_none():
    one = found(ALL[D], machine(ALL[D]))
    with pytest.raises(DataError, match=r"sm_90 has no .* in tensor memory"):
        kinds.check(replace(one, arch="sm_90"))
