"""Every command on one form of each family: it answers, or refuses in a sentence; no error of tcprobe's own."""

import json

import machine_code
import pytest
from click.testing import CliRunner

from tcprobe import emit
from tcprobe.cli import main
from tcprobe.isa import inventory

SCALED = "f32.e4m3.e2m1.f32.ue8m0"
# by family a form, and an arch that has it
FORMS = {
    "wmma": ("wmma.mma.row.col.m16n16k16.f32.f32", "sm_80"),
    "mma": ("mma.m16n8k16.row.col.f32.f16.f16.f32", "sm_90"),
    "f8f6f4": ("mma.m16n8k32.row.col.kind::f8f6f4.f32.e2m1.e3m2.f32", "sm_120"),
    "mma.sp": ("mma.sp.m16n8k16.row.col.f32.f16.f16.f32", "sm_90"),
    "mma.block_scale": (f"mma.m16n8k32.row.col.kind::mxf8f6f4.block_scale.scale_vec::1X.{SCALED}", "sm_120"),
    "mma.sp.block_scale": (
        f"mma.sp::ordered_metadata.m16n8k64.row.col.kind::mxf8f6f4.block_scale.scale_vec::1X.{SCALED}",
        "sm_120",
    ),
    "ldmatrix": ("ldmatrix.m16n16.x1.trans.shared.b8", "sm_100"),
    "stmatrix": ("stmatrix.m8n8.x4.shared.b16", "sm_90"),
    "movmatrix": ("movmatrix.m8n8.trans.b16", "sm_75"),
    "tcgen05 multiply": ("tcgen05.mma.cta_group::2.kind::mxf4.k96", "sm_103"),
    "tcgen05 load": ("tcgen05.ld.16x64b", "sm_100"),
    "tcgen05 reduction": ("tcgen05.ld.red.32x32b", "sm_103"),
    "tcgen05 copy": ("tcgen05.cp.64x128b", "sm_100"),
}
SLOT = {"": ("--row", "0", "--col", "0"), "lane": ("--lane", "1", "--i", "0")}


def commands(name, on):
    """Every command line about a form on an arch that has it."""
    row = inventory.instructions()[name]
    held = [f.id for f in row.fragments] or [row.id]
    yield from (["list", name], ["list", name, "--json"], ["list", "--family", row.family, "--arch", on])
    yield from (["show", name, "--arch", on], ["show", name, "--json"], ["show", held[-1], "--selector", "0"])
    yield from (["why-not", name, "--arch", on], ["why-not", name, "--arch", "sm_70", "--json"])
    yield from (["where", f, *words, "--arch", on] for f in held for words in SLOT.values())
    yield ["where", held[-1], *SLOT["lane"], "--selector", "1", "--json"]
    yield from (["trace", name, "--row", "1", "--col", "1"], ["trace", name, "--operand", "a", *SLOT["lane"], "--json"])
    yield from (["emit", name, "--to", to, "--arch", on] for to in emit.names())
    yield from (["emit", name, "--to", "ptx", "--selector", "1"], ["emit", held[-1], "--to", "csv", "--selector", "0"])
    yield from (["convert", held[0], f] for f in (held[0], held[-1]))
    yield from (["compare", name, "--arch", on], ["compare", "--arch", on, name, "--json"])
    yield from (["diff", "sm_90", on, name, "--all"], ["diff", "sm_80", on, name, "--json"])
    yield from (["verify", name], ["banks", held[0], "--tile", "16x16", "--with", "ldmatrix.x1"])
    yield ["run", name, "--arch", on, "--method", "sass", "--results", "none"]


def answered(words):
    """What a command says; it ends as documented, in words of its own."""
    done = CliRunner().invoke(main, words)
    assert done.exit_code in (0, 1, 2, 3), (words, done.exit_code, done.output, done.exception)
    assert "internal error" not in done.output, (words, done.output)
    assert "Traceback" not in done.output, (words, done.output)
    if done.exit_code > 1:
        said = [line for line in done.output.splitlines() if line[:2].strip()]  # without lines to paste
        assert said[-1].startswith("Error: "), (words, done.output)
    elif "--json" in words:
        for line in [done.stdout] if words[0] == "list" else done.stdout.splitlines():
            json.loads(line)
    return done


@pytest.mark.parametrize("family", FORMS)
@pytest.mark.sampled(4)
def test_every_command_answers_or_refuses(family, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for words in commands(*FORMS[family]):
        answered(words)


@pytest.mark.full
@machine_code.needs_tools
def test_every_form_becomes_something_or_is_refused():
    for arch in {on for _, on in FORMS.values()} - {"sm_80", "sm_75"}:
        found = answered(["lower", *(name for name, _ in FORMS.values()), "--arch", arch]).stdout.splitlines()
        assert len(found) == len(FORMS)
        assert not [
            line
            for line in found
            for name, on in FORMS.values()
            if on == arch and f"{name}: refused" in line and "tcgen05.ld.red" not in line
        ]


def test_what_holds_nothing_in_registers_says_so():
    for words in (["where"], ["verify"], ["emit"], ["run", "--method", "sass"]):
        rest = {"where": ["--row", "0"], "emit": ["--to", "csv"]}
        done = answered([*words, "tcgen05.mma.cta_group::1.kind::f16", *rest.get(words[0], [])])
        assert done.exit_code == 2, words
        assert "tensor memory" in done.output, (words, done.output)


def test_the_list_has_every_form():
    """Each instruction by its fragments, or where it has none by itself."""
    found = json.loads(answered(["list", "--json"]).stdout)
    families = {row.family for row in inventory.instructions().values()}
    assert {x["family"] for x in found} == families
    bare = [x for x in found if x["operand"] is None]
    assert {x["id"] for x in bare} == {r.id for r in inventory.instructions().values() if not r.fragments}
    assert all(set(x) >= set(found[0]) for x in bare)
    k96 = [x for x in bare if x["shape"]["k"] == 96]
    assert [x["id"].rpartition(".")[2] for x in k96] == ["k96", "k96"]
    assert {x["min_arch"] for x in k96} == {"sm_103a"}
    scale = next(x for x in found if x["operand"] == "scale_b")
    assert (scale["role"], scale["selectors"][-1], scale["picks"][5]) == ("scale", 15, {"byte_id": 1, "thread_id": 1})


def test_a_scale_is_shown_by_byte_id_and_thread_id():
    name = FORMS["mma.block_scale"][0] + ".scale_a"
    found = [json.loads(line) for line in answered(["show", name, "--json"]).stdout.splitlines()]
    assert [(x["selector"], x["byte_id"], x["thread_id"]) for x in found] == [(n, n // 2, n % 2) for n in range(8)]
    assert found[3]["table"][2] == [None, [0, 0], None, None]
    assert found[3]["table"][0] is None
    assert found[0]["provenance"]["method"] is None
    held = json.loads(answered(["where", name, "--row", "9", "--col", "0", "--selector", "3", "--json"]).stdout)
    assert [(h["lane"], h["i"], h["bit"]) for h in held["holders"]] == [(7, 1, 8)]
    assert "byte-id 1, thread-id 1" in answered(["show", name, "--selector", "3"]).stdout
    text = answered(["emit", FORMS["mma.sp.block_scale"][0], "--to", "ptx", "--selector", "1"]).stdout
    assert "%e0, 0, %scale_a0, {0, 1}, %scale_b0, {0, 1};" in text
