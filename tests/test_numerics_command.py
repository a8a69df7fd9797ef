"""`tcprobe numerics`: its answers, words, steps and mistakes, and the page, from what an emulated core leaves."""

import json

import numeric_core as core
import pytest
from click.testing import CliRunner
from json_samples import SCHEMA

from tcprobe import numerics
from tcprobe.arithmetic.parameters import (
    IN_GROUP,
)
from tcprobe.ask.numerics import find
from tcprobe.cli import main
from tcprobe.errors import UsageError
from tcprobe.isa import names
from tcprobe.isa.arch import arch as arch_row
from tcprobe.pages import numbers
from tcprobe.store import findings
from tcprobe.store.choose import default
from tcprobe.store.results import Results


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Results of some forms, as a GPU would leave them."""
    place = tmp_path_factory.mktemp("numerics")
    for id_ in (core.MMA, core.MMA_FP8, core.TF32, core.WGMMA_FP8, core.F64, core.S8):
        findings.write(Results(place), core.finding(id_, core.RULES[id_]))
    return place


def call(folder, *arguments):
    return CliRunner().invoke(main, ["numerics", *arguments, "--results", str(folder)])


@pytest.mark.full
def test_what_other_programs_rely_on(folder):
    found = json.loads(call(folder, "wgmma.mma_async.m64n128k32.f32.e4m3.e4m3", "--json").output)
    assert {k: found[k] for k in ("group", "fraction_bits", "alignment", "c", "exponent_floor", "nan", "emulated")} == {
        "group": 32,
        "fraction_bits": 13,
        "alignment": "truncate",
        "c": IN_GROUP,
        "exponent_floor": None,
        "nan": "0x7fffffff",
        "emulated": False,
    }
    assert found["result"] == {"bits": 13, "rounding": "toward zero"}
    assert found["subnormals"] == {"a": True, "b": True, "c": True, "d": True}
    assert "0 wrong" in found["evidence"]
    fp8 = json.loads(call(folder, core.MMA_FP8, "--json").output)
    assert (fp8["emulated"], fp8["group"], fp8["c"]) == (True, 16, "after")
    double, whole = (json.loads(call(folder, id_, "--json").output) for id_ in (core.F64, core.S8))
    assert (double["group"], double["fraction_bits"], double["result"]["bits"]) == (None, None, 52)
    assert (whole["group"], whole["result"], whole["overflow"], whole["satfinite"]) == (None, None, "wraps", "clamps")


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("numerics", (core.MMA,)),
        ("numerics", (core.MMA_FP8,)),
        ("numerics", (core.F64,)),
        ("numerics", (core.S8,)),
        ("numerics --a", (core.F64, "--a", "1,2,3,4", "--b", "1,1,1,0x1", "--c", "0.1")),
        ("numerics --bound", (core.MMA, "--bound", "1024", "--split", "2")),
    ],
)
def test_lines_follow_the_schema(folder, name, arguments):
    jsonschema = pytest.importorskip("jsonschema")
    checker = jsonschema.Draft202012Validator(json.loads(SCHEMA.read_text())["$defs"][name])
    done = call(folder, *arguments, "--json")
    assert done.exit_code == 0, done.output
    assert [error.message for error in checker.iter_errors(json.loads(done.output))] == []


def test_an_arch_without_a_measurement_is_answered_from_what_is_published(folder):
    done = call(folder, core.MMA, "--arch", "sm_80", "--json")
    found = json.loads(done.output)
    assert done.exit_code == 0
    assert (found["status"], found["group"], found["fraction_bits"], found["exponent_floor"]) == (
        "published",
        8,
        24,
        -132,
    )
    assert found["nan"] is None
    sparse = json.loads(call(folder, "mma.sp.m16n8k32.row.col.f32.f16.f16.f32", "--arch", "sm_80", "--json").output)
    assert "of dense forms" in sparse["evidence"]


@pytest.mark.sampled(4)
@pytest.mark.parametrize("arch", ["sm_70", "sm_75", "sm_80", "sm_86", "sm_87", "sm_100", "sm_110", "sm_121"])
def test_what_is_stated_of_every_arch_is_said_of_each(folder, arch):
    """Integers wrap or are clamped, f64 is a chain, and PTX promises a precision; all marked as not measured."""
    for name, words, overflow in (
        (core.S8, "beyond that they wrap, with .satfinite they are clamped", "wraps"),
        (core.F64, "a chain of fused multiply-adds", None),
        (core.MMA, "", None),
    ):
        row = names.resolve(name).instruction
        done = call(folder, name, "--arch", arch)
        if not row.target.on(arch_row(arch)):
            assert done.exit_code == 2
            continue
        assert done.exit_code == 0, done.output
        said = " ".join(done.output.split())
        assert words in said
        assert "not measured" in said
        found = json.loads(call(folder, name, "--arch", arch, "--json").output)
        assert (found["status"], found["overflow"]) == ("published", overflow)
        assert found["confidence"]["word"] == "documented only"
        assert call(folder, name, "--arch", arch, "--bound", "64").exit_code == 2  # which needs every parameter


TCGEN05 = "tcgen05.mma.cta_group::1.kind::"


@pytest.mark.parametrize(
    ("form", "arch", "group", "fraction_bits", "floor", "sources"),
    [
        (core.MMA, "a40", 8, 24, -132, ["MATLAB-tensor-core"]),
        (core.MMA, "sm_120", 16, 25, -133, ["MMA-Sim", "MATLAB-tensor-core"]),
        (core.MMA_FP8, "sm_120", 32, 25, -133, ["MMA-Sim", "MATLAB-tensor-core"]),
        (core.TF32, "a100", 4, 24, -132, ["MMA-Sim", "MATLAB-tensor-core"]),
        (core.TF32, "l40s", 4, 24, -132, ["MMA-Sim", "MATLAB-tensor-core"]),
        (core.TF32, "b200", 8, 25, -133, ["MMA-Sim", "MATLAB-tensor-core"]),
        (f"{TCGEN05}f16", "b200", 16, 25, -133, ["MMA-Sim", "MATLAB-tensor-core"]),
        (f"{TCGEN05}tf32", "b200", 8, 25, -133, ["MMA-Sim", "MATLAB-tensor-core"]),
        (f"{TCGEN05}f8f6f4", "b200", 32, 25, -133, ["MMA-Sim", "MATLAB-tensor-core"]),
        (f"{TCGEN05}mxf8f6f4", "b200", 32, 25, None, ["MMA-Sim"]),
        (f"{TCGEN05}mxf4nvf4", "b200", 64, 35, None, ["MMA-Sim"]),
        ("mma.m8n8k4.row.col.f32.f16.f16.f32", "t4", 4, 24, None, ["MMA-Sim"]),
        ("mma.m16n8k16.row.col.f16.f16.f16.f16", "a100", 8, 24, None, ["MMA-Sim", "MATLAB-tensor-core"]),
    ],
)
def test_what_sources_state_is_answered_and_credited_to_those_that_state_it(
    folder, form, arch, group, fraction_bits, floor, sources
):
    """Read in MMA-Sim's `nv_mma.py`, `nv_tcgen05mma.py` and `sim.py`, and in MATLAB-tensor-core's `models`."""
    done = call(folder, form, "--arch", arch, "--json")
    assert done.exit_code == 0, done.output
    found = json.loads(done.output)
    assert (found["status"], found["group"], found["fraction_bits"]) == ("published", group, fraction_bits)
    assert found["exponent_floor"] == floor
    assert [name for name in ("MMA-Sim (", "MATLAB-tensor-core v0.5") if name in found["evidence"]] == [
        {"MMA-Sim": "MMA-Sim ("}.get(name, f"{name} v0.5") for name in sources
    ]
    alone = "the least exponent is MATLAB-tensor-core's alone" in found["evidence"]
    assert alone == (floor is not None and len(sources) == 2)


@pytest.mark.parametrize("arch", ["sm_80", "sm_86", "sm_89", "sm_100", "sm_120"])
@pytest.mark.parametrize("form", ["mma.m8n8k4.row.col.f32.f16.f16.f32", core.MMA_FP8])
def test_what_a_source_does_not_list_is_not_credited_to_it(folder, form, arch):
    """m8n8k4 after Turing and fp8 of mma.sync on sm_100 are emulated: another family's number is not theirs."""
    listed = form == core.MMA_FP8 and arch in ("sm_89", "sm_120")
    exists = form != core.MMA_FP8 or arch not in ("sm_80", "sm_86")
    done = call(folder, form, "--arch", arch)
    assert done.exit_code == (0 if exists else 2), done.output
    assert ("nobody has published more" in " ".join(done.output.split())) == (exists and not listed)


def test_words_and_steps(folder):
    text = call(folder, core.MMA_FP8).output
    assert "k 0 1 4 5" in text
    assert "emulated: HMMA.16816.F32 x 2" in text
    ones, big = ",".join(["1"] * 16), ",".join(["1024", "-1024", "0x0001", *["0"] * 13])
    shown = call(folder, core.MMA, "--a", big, "--b", ",".join(["1024", "1024", *["1"] * 14]), "--c", "0.5")
    assert shown.exit_code == 0, shown.output
    assert "top 2^20" in shown.output
    assert "low bits cut" in shown.output
    assert shown.output.splitlines()[-1] == "D = 0x3f000000 = 0.5"
    assert "D = 0x41800000 = 16.0" in call(folder, core.MMA, "--a", ones, "--b", ones).output
    assert "exact" in call(folder, core.MMA, "--bound", "4096").output
    assert "results that differ" in call(folder, core.MMA, "--bound", "1024", "--split", "4").output


@pytest.mark.parametrize(
    ("a", "b", "c", "said"),
    [
        ("inf,2", "0,1", "0", "k 0: nan"),
        ("inf,-inf", "1,1", "0", "k 0: inf, k 1: -inf"),
        ("0,-inf", "1,2", "-inf", "k 1: -inf, C: -inf"),
        ("1,1", "1,1", "inf", "C: inf"),
    ],
)
def test_steps_with_infinite_terms_say_which(folder, a, b, c, said):
    """And nothing of cut bits, or of terms that are zero."""
    rest = "," + ",".join(["1"] * 14)
    lines = call(folder, core.MMA, "--a", a + rest, "--b", b + rest, "--c", c).output.splitlines()
    assert lines[0] == f"sum 1: {said}; no other term counts"
    assert [line.partition("0x")[2] for line in lines[1:]] == [lines[-1].partition("0x")[2]] * 2


def test_the_command_prints_the_header(folder):
    done = call(folder, core.MMA, "--header")
    assert "struct mma_m16n8k16_row_col_f32_f16_f16_f32 {" in done.output
    assert "fraction_bits = 25" in done.output
    assert call(folder, core.S8, "--header").exit_code == 2


def test_cases_of_a_file(folder, tmp_path):
    file = tmp_path / "cases.jsonl"
    line = {"a": ["0x3c00"] * 16, "b": ["0x3c00"] * 16, "c": "0x3f800000"}
    file.write_text(json.dumps(line) + "\n\n" + json.dumps(line | {"c": "0x0"}) + "\n")
    done = call(folder, core.MMA, "--cases", str(file))
    assert [json.loads(text) for text in done.output.splitlines()] == [{"d": "0x41880000"}, {"d": "0x41800000"}]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--a", "1", "--b", "1"), "takes 16 values"),
        (("--bound", "160000000000000000"), "at most 262144"),
        (("--a", ",".join(["0.1"] * 16), "--b", ",".join(["1"] * 16)), "Error: 0.1 is not a number of type f16"),
        (("--a", ",".join(["0x7e00"] * 16), "--b", ",".join(["1"] * 16)), "is NaN"),
        (("--a", ",".join(["0x12345"] * 16), "--b", ",".join(["1"] * 16)), "16 bits"),
        (("--a", ",".join(["x"] * 16), "--b", ",".join(["1"] * 16)), "neither a number"),
        (("--a", ",".join(["0x_1"] * 16), "--b", ",".join(["1"] * 16)), "neither a number"),
        (("--a", ",".join(["1e999"] * 16), "--b", ",".join(["1"] * 16)), "larger than every number"),
        (("--a", "1"), "needs --a and --b"),
        (("--bound", "24"), "multiple of 16"),
        (("--split", "2"), "--bound"),
        (("--bound", "16", "--a", "1"), "cannot be combined"),
    ],
)
def test_a_mistake_in_the_call(folder, arguments, words):
    done = call(folder, core.MMA, *arguments)
    assert done.exit_code == 2
    assert words in done.output


@pytest.mark.parametrize(
    "line", ["[]", "{", '{"a": 1, "b": [], "c": ""}', '{"a": ["0x0"], "b": ["0x0"], "c": "0x0"}', "x" * 99999]
)
def test_a_line_that_is_no_case(folder, tmp_path, line):
    file = tmp_path / "cases.jsonl"
    file.write_text(line + "\n")
    done = call(folder, core.MMA, "--cases", str(file))
    assert done.exit_code == 2
    assert "line 1" in done.output


def test_a_form_without_a_model(folder):
    done = call(folder, core.MMA_BF16, "--bound", "16", "--only")
    assert done.exit_code == 2
    assert "was not measured" in done.output
    with pytest.raises(UsageError, match="no model"):
        numerics.model(names.resolve("ldmatrix.m8n8.x1.shared.b16").instruction)


def test_two_archs(folder):
    done = CliRunner().invoke(main, ["diff", "--numerics", "sm_80", "sm_90", "--results", str(folder)])
    assert done.exit_code == 1
    assert f"{core.MMA} (sm_80 published, sm_90 measured): group 8 -> 16; fraction_bits 24 -> 25" in done.output


def test_the_page_has_every_arithmetic(folder):
    text = "\n".join(numbers.numerics_page(Results(folder)))
    assert f"| `{core.MMA_FP8}` | 16 + 16 | 25 | 23 bits, toward zero | after |" in text
    assert f"| `{core.WGMMA_FP8}` | 32 | 13 | 13 bits, toward zero | in the group | 0 of 1024 | K 32 F 13 |" in text
    assert f"| `{core.WGMMA_FP8}` |  | 0x7fffffff |  | +0 | ABCD |  |" in text
    assert f"| `{core.TF32}` | -133 | 0x7fffffff | infinity | +0 | ABCD | low 13 bits of A, B unread |" in text
    assert f"| `{core.F64}` | 1, fused |  | 52 bits, nearest even |" in text
    assert f"| `{core.S8}` | wraps | clamps | 2048 | 0 |" in text


@pytest.mark.parametrize("words", ["e4m3 f32", "f16 f32", "bf16", "tf32", "s8 u8", "b1", "f16"])
def test_forms_of_one_arithmetic_are_answered_together(words):
    """However many a name means: all that a GPU measured have one, or the name is ambiguous by arithmetic."""
    rows = names.resolve(f"wgmma {words}").some_instructions
    found = [model for row in rows if (model := find(row, arch_row("sm_90"), default()))]
    distinct = {tuple(model.parameters) for model in found}
    done = CliRunner().invoke(main, ["numerics", "--strict", "wgmma", *words.split()])
    assert len(rows) > 10
    assert done.exit_code == (0 if len(distinct) == 1 else 2)
    said = f"matches {len(found)} multiplies" + (", all with this arithmetic" if len(distinct) == 1 else " with")
    assert said in done.stderr
