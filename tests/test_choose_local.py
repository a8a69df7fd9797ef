"""A local folder over the published one: what counts, and that every answer names its source."""

import json
import shutil
from dataclasses import replace

import pytest
from choose_findings import FRAGMENT, MULTIPLY, sass, turned, without_table
from click.testing import CliRunner
from command import tcprobe

from tcprobe.cli import main
from tcprobe.store.cell import for_emit, load
from tcprobe.store.choose import alone, default
from tcprobe.store.results import Results, published

# local over published


@pytest.fixture
def local(tmp_path, monkeypatch):
    """A working folder whose ./results hold one fragment of sm_75."""
    monkeypatch.chdir(tmp_path)
    Results(tmp_path / "results").write(sass("sm_75"))
    return tmp_path / "results"


def test_local_measurements_lie_over_the_published_ones(local):
    where = ("where", FRAGMENT.id, "--lane", "5", "--arch")
    assert ", published\nconfidence: " in tcprobe(*where, "sm_80").stdout
    assert ", from results\nconfidence: " in tcprobe(*where, "sm_75").stdout
    assert json.loads(tcprobe(*where, "sm_75", "--json").stdout)["source"] == "results"
    assert json.loads(tcprobe(*where, "sm_80", "--json").stdout)["source"] == "published"
    assert json.loads(tcprobe(*where, "sm_75", "--json", "--results", local).stdout)["source"] == str(local)
    assert "wmma.m16n16k16.d.f32 on sm_80" in tcprobe(*where, "sm_80", "--only", code=2).stderr
    assert f"in {local}." in tcprobe(*where, "sm_80", "--only", "--results", local, code=2).stderr
    assert ", from results\nconfidence: " in tcprobe(*where, "sm_75", "--only").stdout
    assert default().archs() == published().archs()
    assert alone(Results(local)).archs() == ["sm_75"]
    assert load(FRAGMENT.id, "sm_75").source == "results"
    assert load(FRAGMENT.id, "sm_75", local.parent / "results", only=True).source == str(local)


def test_without_an_arch_those_that_were_measured_here_are_meant(local):
    """sm_75 alone at first; then sm_90 too, where what is published is stronger than what was measured here."""

    def arch_and_source(*arguments):
        data = json.loads(tcprobe("show", *arguments, "--json").stdout)
        return data["arch"], data["provenance"]["method"], data["source"]

    assert arch_and_source(FRAGMENT.id) == ("sm_75", "sass", "results")
    assert arch_and_source("wmma.m16n16k16.a.row.f16") == ("sm_90", "live", "published")
    Results(local).write(sass("sm_90"))
    assert arch_and_source(FRAGMENT.id) == ("sm_90", "live", "published")
    Results(local).write(without_table(sass("sm_121"), "failed"))
    assert arch_and_source(FRAGMENT.id) == ("sm_90", "live", "published")
    damage(Results(local).path("sm_90", "sass", FRAGMENT.experiment))
    assert arch_and_source(FRAGMENT.id) == ("sm_75", "sass", "results")


def test_stronger_evidence_counts_before_the_nearer_folder(local):
    Results(local).write(sass("sm_90"))
    shown = json.loads(tcprobe("show", FRAGMENT.id, "--arch", "sm_90", "--json").stdout)
    assert (shown["source"], shown["provenance"]["method"]) == ("published", "live")
    notes = tcprobe("show", FRAGMENT.id, "--arch", "sm_90", "--full").stdout
    assert notes.count("method sass: the same table (sass, from machine code") == 2
    assert "nvdisasm 13.5.37, from results)" in notes


def test_measurements_of_two_folders_that_differ_are_told(local):
    Results(local).write(turned(sass("sm_75")))
    done = tcprobe("compare", "wmma.m16n16k16.?.f32", "--arch", "sm_75", code=1).stdout
    assert "sass (results) against sass (published): 0 fragments have the same table, 2 another" in done
    assert "tables: 2 from results" in done
    assert "method sass: ANOTHER TABLE" in tcprobe("show", FRAGMENT.id, "--arch", "sm_75").stdout


ANSWERS = [
    ["show", FRAGMENT.id],
    ["show", MULTIPLY + ".a"],
    ["show", "mma.m16n8k32.row.col.f32.e4m3.e4m3.f32.a"],
    ["where", FRAGMENT.id, "--row", "0"],
    ["trace", "wmma.mma.row.col.m16n16k16.f32.f32", "--row", "0", "--col", "0"],
    ["trace", MULTIPLY, "--row", "0", "--col", "0"],
    ["convert", MULTIPLY + ".d", MULTIPLY + ".a"],
    ["compare", FRAGMENT.id],
    ["why-not", FRAGMENT.id],
    ["why-not", "wmma.m16n16k16.a.row.bf16"],
    ["why-not", "mma.m16n8k32.row.col.kind::f8f6f4.f32.e2m1.e2m1.f32.a"],
    ["why-not", MULTIPLY + ".a"],
]


@pytest.mark.parametrize("arguments", ANSWERS, ids=" ".join)
@pytest.mark.parametrize("name", ["sm_75", "sm_80", "sm_89"])
def test_every_answer_names_its_source(local, arguments, name):
    with_arch = [*arguments, "--arch", name]
    for extra in ([], ["--results", local]):
        for style in ([], ["--json"]):
            done = CliRunner().invoke(main, [str(a) for a in (*with_arch, *extra, *style)])
            if done.exit_code == 2:  # the arch does not have it, or nobody knows
                assert "in results or the published tables" in done.stderr or "or the published tables" in done.stderr
                continue
            assert done.exit_code == 0
            for answer in done.stdout.splitlines() if style else [done.stdout]:
                assert "published" in answer or str(extra[-1] if extra else "results") in answer
                if style:
                    assert set(json.loads(answer)["source"].split(", ")) <= {"published", "results", str(local)}


@pytest.mark.full
@pytest.mark.parametrize("arguments", [["fit"], ["diff", "sm_75", "sm_80"], ["compare"]])
def test_answers_over_many_tables_name_their_sources(local, arguments):
    text = tcprobe(*arguments, code=int(arguments[0] == "diff")).stdout
    assert "published" in text
    assert "results" in text
    for line in tcprobe(*arguments, "--json", code=int(arguments[0] == "diff")).stdout.splitlines():
        data = json.loads(line)
        for of in (data["first"], data["second"]) if "first" in data else (data,):
            assert set(of["source"].split(", ")) <= {"published", "results"}


@pytest.mark.full
@pytest.mark.parametrize(
    "name",
    [
        "cuda",
        "cute",
        "cute-dsl",
        "json",
        "latex",
        "markdown",
        "mosaic",
        "numba",
        "numpy",
        "ptx",
        "python",
        "svg",
        "sympy",
        "tensor-layouts",
        "tilelang",
        "tinygrad",
        "triton",
    ],
)
def test_emitted_text_names_its_source(local, name):
    text = tcprobe("emit", MULTIPLY, "--to", name, "--arch", "sm_80").stdout
    assert "published" in text
    shutil.copytree(published().root / "sm_80" / "derived", local / "sm_80" / "derived")
    shutil.copytree(published().root / "layouts", local / "layouts", dirs_exist_ok=True)
    text = tcprobe("emit", MULTIPLY, "--to", name, "--arch", "sm_80").stdout
    assert "published" not in text
    assert "results" in text


def test_compare_of_a_file_names_its_source(local):
    table = load(FRAGMENT.id, "sm_75")
    rows = [(*divmod(s, 8), *cell) for s, cell in enumerate(table.table.cells)]
    (local / "t.csv").write_text("\n".join(",".join(map(str, row)) for row in [("lane", "i", "row", "col"), *rows]))
    text = tcprobe("compare", local / "t.csv", FRAGMENT.id, "--arch", "sm_75").stdout
    assert "256 of 256" in text
    assert text.endswith(", from results\n")
    data = json.loads(tcprobe("compare", local / "t.csv", FRAGMENT.id, "--arch", "sm_70", "--json", code=1).stdout)
    assert (data["source"], data["arch"], data["given"], data["not_stated"]) == ("published", "sm_70", 256, 0)
    assert data["first"][0].startswith("lane 0 i")
    assert "one arch" in tcprobe("compare", local / "t.csv", FRAGMENT.id, "--arch", "all", code=2).stderr


def test_one_folder_alone_has_nothing_that_is_only_documented(local):
    e4m3 = "mma.m16n8k32.row.col.f32.e4m3.e4m3.f32.a"
    assert "not measured on sm_89 in results or the published tables" in tcprobe("show", e4m3, "--arch", "sm_89").stdout
    assert "no table" in tcprobe("show", e4m3, "--arch", "sm_89", "--only", code=2).stderr
    assert [k.arch for k in for_emit([FRAGMENT], "all", alone(Results(local)))] == ["sm_75"]
    text = tcprobe("emit", FRAGMENT.id, "--to", "cuda", "--only").stdout
    assert "namespace sm_75" in text
    assert "namespace sm_80" not in text
    assert "no table" in tcprobe("emit", e4m3, "--to", "cuda", "--only", code=2).stderr


# files that cannot be trusted


def damage(path):
    path.write_bytes(path.read_bytes().replace(b"sass", b"Sass", 1))


def test_a_damaged_local_file_is_left_out_with_a_word(local):
    path = Results(local).path("sm_75", "sass", FRAGMENT.experiment)
    damage(path)
    for command in (
        ["show", FRAGMENT.id],
        ["where", FRAGMENT.id, "--row", "0"],
        ["compare", FRAGMENT.id],
        ["emit", FRAGMENT.id, "--to", "python"],
        ["why-not", FRAGMENT.id],
    ):
        done = tcprobe(*command, "--arch", "sm_75")
        assert done.stderr.count("Left out: ") == 1
        assert str(path.relative_to(local.parent)) in done.stderr
        assert "published" in done.stdout
        done = tcprobe(*command, "--arch", "sm_75", "--only", code=4)
        assert path.name in done.stderr
        assert done.stdout == ""


def test_a_damaged_file_with_nothing_below_it_ends_with_exit_code_4(local):
    name = "mma.m8n8k32.row.col.s32.u4.s4.s32"
    live = published().measurement("sm_90", "live", name)
    Results(local).write(replace(live, arch="sm_80"))
    path = Results(local).path("sm_80", "live", name)
    path.write_text(path.read_text()[:-9])
    assert path.name in tcprobe("where", f"{name}.a", "--row", "0", "--arch", "sm_80", code=4).stderr
    assert path.name in tcprobe("diff", "sm_75", "sm_80", code=4).stderr
