"""`tcprobe tensormap`, `tcprobe run --family tma`, and the file between them."""

import json
import re
import sys
from itertools import product
from pathlib import Path

import click
import numpy as np
import pytest
from bench import document, save
from command import tcprobe

import tcprobe as api
from tcprobe.ask import tensormap as ask
from tcprobe.ask.tensormap import MapOptions
from tcprobe.cli import main
from tcprobe.errors import DataError, UsageError
from tcprobe.isa.tensor_map import DATA_TYPE_OF, DATA_TYPES, SPANS
from tcprobe.probes import dialogues
from tcprobe.references.shared_memory.tensor_map import broken_rules, refusing_rules, rules_on
from tcprobe.store import findings
from tcprobe.store.choose import alone
from tcprobe.store.kinds import tensor_maps, to_body
from tcprobe.store.kinds.tensor_maps import words
from tcprobe.store.results import Results

EMULATED = (sys.executable, str(Path(__file__).parent / "emulated_worker.py"))


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """A results folder that a run on a stub wrote."""
    folder = tmp_path_factory.mktemp("results")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tcprobe.run.backend.COMMAND", (*EMULATED, "fine", "", "", "Copier"))
        text = tcprobe("run", "--family", "tma", "128B", "--results", folder).stdout
        again = json.loads(tcprobe("run", "--family", "tma", "--results", folder, "--force", "--json").stdout)
    assert "0 boxes" in text
    assert (again["arch"], again["kind"]) == ("sm_90", "tensor_maps")
    assert again["findings"]["128B"]["mode"]["swizzle"] == [3, 4, 3]
    assert again["findings"]["misaligned.0"]["fault"]["words"] == "misaligned address"
    assert {one["status"] for one in again["experiments"]} == {"measured"}
    return folder


def plain(folder):
    """What is saved, by subject."""
    return {one.subject: one.plain for one in findings.every(Results(folder), "tensor_maps", "sm_90")}


@pytest.mark.full
def test_what_is_saved_is_read_back(saved, tmp_path):
    found = tensor_maps.newest(alone(Results(saved)), "sm_90")
    assert {subject: one.plain for subject, one in found.items()} == plain(saved)
    assert set(plain(saved)) == set(dialogues("tensor_maps"))
    assert tensor_maps.newest(alone(Results(tmp_path)), "sm_90") == {}
    assert "0 boxes" in words(list(found.values()))
    spoilt = tmp_path / "sm_90" / "live" / "tensor_maps" / "32B.json"
    spoilt.parent.mkdir(parents=True)
    spoilt.write_text((saved / spoilt.relative_to(tmp_path)).read_text().replace("UINT8", "UINT9"))
    with pytest.raises(DataError, match="checksum"):
        tensor_maps.newest(alone(Results(tmp_path)), "sm_90")


SPOILT = [
    lambda b: b.update({"1024B": b["32B"]}),
    lambda b: b["32B"]["mode"].update(misfits=-1),
    lambda b: b["32B"]["mode"].update(swizzle=[9, 4, 3]),
    lambda b: b["encodings"]["calls"][0].pop("fits"),
    lambda b: b["32B"]["mode"].pop("bytes"),
    lambda b: b["32B"]["mode"].update(pitch="column"),
    lambda b: b["32B"]["mode"].update(misfits=1 + b["32B"]["mode"]["loads"] + b["32B"]["mode"]["stores"]),
    lambda b: b["encodings"]["calls"][0].update(rules=1),
    lambda b: b["encodings"]["calls"][0].update(result=None),
    lambda b: b.update({"32B": b["encodings"]}),
    lambda b: b.update({"encodings": b["32B"]}),
    lambda b: b.update({"misaligned.0": {"maps": b["32B"]["maps"]}}),
    lambda b: b.update({"32B": {}}),
    lambda b: b.update({"misaligned.x": b["misaligned.0"]}),
    lambda b: b.update({"misaligned.00": b["misaligned.0"]}),
]


@pytest.mark.sampled(3)
@pytest.mark.parametrize("spoil", SPOILT)
def test_what_cannot_be_is_refused(spoil, saved, tmp_path):
    bodies = plain(saved)
    spoil(bodies)
    with pytest.raises(DataError):
        save(tmp_path, "tensor_maps", {subject: to_body("tensor_maps", body) for subject, body in bodies.items()})


def earlier(folder):
    """What is saved as an earlier tcprobe wrote it."""
    found = plain(folder)
    modes = {name: {"lost": [], **body["mode"]} for name, body in found.items() if body.get("mode")}
    lost = [one for mode in modes.values() for one in mode.pop("lost")]
    faults = [body["fault"] for _, body in sorted(found.items()) if "fault" in body]
    maps = {"taken": 1, "refused": 0, "unlike_rules": []}
    return {"modes": modes, "encodings": found["encodings"]["calls"], "maps": maps, "lost": lost, "faults": faults}


def test_an_earlier_document_says_the_same(saved, tmp_path):
    document(tmp_path, "tma", earlier(saved))
    found, before = plain(tmp_path), plain(saved)
    assert {name: body["mode"] for name, body in found.items() if "mode" in body} == {
        name: body["mode"] for name, body in before.items() if "mode" in body
    }
    assert found["encodings"]["calls"] == before["encodings"]["calls"]
    assert found["misaligned.0"] == before["misaligned.0"]


@pytest.mark.parametrize("change", [{"arch": "sm_80"}, {"method": "derived"}, {"provenance": {}}, {"extra": 1}])
def test_an_earlier_document_that_cannot_be_is_refused(change, saved, tmp_path):
    document(tmp_path, "tma", earlier(saved) | change)
    with pytest.raises(DataError, match=r"tma\.json"):
        plain(tmp_path)


def test_every_tile_is_cut_into_boxes_that_the_driver_takes():
    """Whole boxes, as few as there are by divisors; whatever the type and the mode, rows of 16 bytes given."""
    for kind, swizzle, tile in product(
        ("u8", "bf16", "f32", "f64"),
        ("NONE", "32B", "64B", "128B"),
        ((64,), (300, 256), (7, 96), (512, 1024), (2, 4, 32)),
    ):
        size = DATA_TYPES[DATA_TYPE_OF[kind]][1]
        found = ask.plan(MapOptions(kind, tile=tile, swizzle=swizzle))
        assert broken_rules(found.map) == []
        sides = [count * part for count, part in zip(found.boxes, found.map.box, strict=True)]
        assert sides == list(tile[::-1])
        assert found.pitch == SPANS.get(found.map.swizzle, found.map.box[0] * size)
        assert found.bytes == found.map.bytes
    assert ask.plan(MapOptions("bf16", tile=(512, 256), swizzle="128B")).boxes == (4, 2)


A = "mma.m16n8k16.row.col.f32.f16.f16.f32.a"


@pytest.mark.parametrize("tile", ["64x128", "128x64", "32x256", "16x64"])
def test_a_tile_is_the_same_tile_in_every_command(tile):
    """Rows before columns, in boxes that are those of a path; `--box` and `--dims` name it inner side first."""
    rows, cols = map(int, tile.split("x"))
    asked = ("tensormap", "--type", "f16", "--swizzle", "128", "--json")
    one = json.loads(tcprobe(*asked, "--tile", tile).stdout)
    assert (one["globalDim"], one["globalStrides"]) == ([cols, rows], [2 * cols])
    path = json.loads(tcprobe("path", A, "--tile", tile, "--shared", "128", "--fill", "tma", "--json").stdout)
    issues = path["steps"][0]["issues"]
    assert {tuple(issue["box"]) for issue in issues} == {tuple(one["boxDim"])}
    assert len(issues) == one["boxes"][0] * one["boxes"][1]
    box, dims = (",".join(map(str, sides)) for sides in (one["boxDim"], one["globalDim"]))
    boxed = json.loads(tcprobe(*asked, "--box", box, "--dims", dims).stdout)
    assert {**boxed, "cuda": ""} == {**one, "boxes": [1, 1], "dims_of": "tensor", "cuda": ""}
    for given in (tile, (rows, cols), [rows, cols]):
        assert api.tensormap("f16", tile=given, swizzle=128).map.dims == (cols, rows)


def test_outer_sides_come_first_in_every_rank():
    sides = ("64", "8x64", "4x8x64", "3x4x8x64", "2x3x4x8x64")
    for text in sides:
        found = json.loads(tcprobe("tensormap", "--type", "f16", "--tile", text, "--json").stdout)
        assert found["globalDim"] == [int(side) for side in reversed(text.split("x"))]


def test_a_tile_in_the_drivers_order_is_refused():
    """It could be either; what it means in each is named."""
    said = tcprobe("tensormap", "--type", "f16", "--tile", "64,128", code=2).stderr
    assert "--tile 128x64" in said
    assert "--box 64,128" in said
    with pytest.raises(UsageError, match="`tile` 128x64; its one box is `box` 64,128"):
        api.tensormap("f16", tile="64,128")
    assert tcprobe("tensormap", "--type", "f16", "--tile", "64,x", code=2).stderr


@pytest.mark.parametrize(("kind", "size"), [("u8", 1), ("bf16", 2), ("f32", 4), ("f64", 8)])
@pytest.mark.parametrize("of", [(4096, 2048), (100, 48), (64, 64), (7, 5, 32)])
def test_a_matrix_gives_its_own_dims_and_strides(kind, size, of):
    """Element [..., row, col] of a row-major matrix is where the map's strides have it."""
    tile = (2,) * (len(of) - 1) + (16,)
    asked = ("tensormap", "--type", kind, "--tile", "x".join(map(str, tile)), "--json")
    found = json.loads(tcprobe(*asked, "--of", "x".join(map(str, of))).stdout)
    strides = (size, *found["globalStrides"])  # inner first, the inner side's own before them
    array = np.empty(of, f"V{size}")
    assert strides == array.strides[::-1]
    assert (found["globalDim"], found["dims_of"]) == (list(array.shape[::-1]), "tensor")
    assert found == json.loads(tcprobe(*asked, "--dims", ",".join(map(str, reversed(of)))).stdout)
    own = json.loads(tcprobe(*asked).stdout)
    assert (own["globalDim"], own["dims_of"]) == (list(reversed(tile)), "tile")
    assert own["boxDim"] == found["boxDim"]


def test_who_says_no_matrix_is_told_that_it_is_the_tile():
    asked = ("tensormap", "--type", "bf16", "--tile", "64x64")
    assert "the tile's own" in tcprobe(*asked).stdout
    assert "the tile's own" not in tcprobe(*asked, "--of", "4096x2048").stdout
    assert "--of and --dims" in tcprobe(*asked, "--of", "4096x2048", "--dims", "2048,4096", code=2).stderr
    assert "--of 2048x4096" in tcprobe(*asked, "--of", "4096,2048", code=2).stderr
    assert "3 dimensions" in tcprobe(*asked, "--of", "2x64x64", code=2).stderr


def test_every_line_of_the_call_says_what_it_is():
    for tile in ((64,), (64, 64), (2, 64, 64)):
        for line in ask.cuda(ask.plan(MapOptions("bf16", tile=tile, of=tile))).splitlines():
            assert re.fullmatch(r"\S.* +// \S.*|    \S.*  // \S.*", line)


@pytest.mark.parametrize("command", ["banks", "descriptor", "path", "reduce", "tensormap"])
def test_help_names_one_order_of_tiles(command):
    [tile] = [p for p in main.get_command(click.Context(main), command).params if "--tile" in p.opts]
    assert (tile.metavar or tile.type.name) in ("ROWSxCOLS", "LINESxK")
    assert "inner" not in tile.help


REFUSED = [
    (MapOptions("e2m1", tile=(64,)), "no tensor map has elements of 'e2m1'"),
    (MapOptions("bf16"), "give `tile`"),
    (MapOptions("bf16", tile=(8,), box=(8,)), "give `tile`"),
    (MapOptions("bf16", tile=(8, 8), dims=(8,)), "`tile` has 2 numbers, for a tensor of 1 dimensions"),
    (MapOptions("bf16", tile=(8, 8), strides=(16, 16)), "`strides` has 2 numbers"),
    (MapOptions("bf16", tile=(8, 7)), "boxDim: a row of the box must be a multiple of 16 bytes"),
    (MapOptions("bf16", box=(72, 8), swizzle="128B"), "swizzle: a row of the box must not be wider"),
    (MapOptions("bf16", box=(64, 8), address=8), "globalAddress: must be a multiple of 16"),
    (MapOptions("bf16", box=(64, 8), interleave="16B"), "tensorRank: must be 3 or more"),
    (MapOptions("s32", box=(64, 8), fill="NAN_REQUEST_ZERO_FMA"), "oobFill: NAN_REQUEST_ZERO_FMA is for"),
    (MapOptions("f32", box=(64, 8), steps=(1, 9)), "elementStrides: must be 1 to 8"),
    (MapOptions("f32", box=(64, 8), dims=(64, 0)), "globalDim: must be 1 to"),
]


@pytest.mark.parametrize(("asked", "words"), REFUSED)
def test_what_the_driver_would_refuse(asked, words):
    with pytest.raises(UsageError, match=words):
        ask.plan(asked)


def test_every_rule_has_its_evidence(saved):
    """As the driver's answers were: rules that it does not check are said to be such."""
    measured = tensor_maps.newest(alone(Results(saved)), "sm_90")["encodings"]
    for rule in rules_on(90):
        text = ask.evidence_of(rule, measured)
        assert "break" in text, rule.name
        assert ("checked" in text) == (not rule.checked)
        assert "maps that break it" not in ask.evidence_of(rule, None)
    assert all(call.fits for call in measured.body.calls)


def test_the_command_says_what_it_rests_on(saved):
    asked = ("tensormap", "--type", "bf16", "--tile", "64x64", "--swizzle", "128B", "--results", saved, "--only")
    text = tcprobe(*asked).stdout
    assert "1 x 1 boxes of 64 x 64 elements, inner side first: rows of 128 bytes, 8192 bytes each" in text
    assert "boxes of tensor maps measured live on a machine, driver 1" in text
    assert "measured sm_100" in tcprobe(*asked, "--arch", "sm_100").stdout
    found = json.loads(tcprobe(*asked, "--json").stdout)
    assert (found["boxDim"], found["globalStrides"], found["byte_swizzle"]) == ([64, 64], [128], [3, 4, 3])
    assert len(found["rules"]) == len(rules_on(90))
    said = tcprobe("tensormap", "--type", "bf16", "--box", "65,8", "--results", saved, "--only", code=2).stderr
    assert "driver 1 refused" in said
    assert "need sm_90" in tcprobe(*asked, "--arch", "sm_80", code=2).stderr


def test_rules_that_are_not_checked_are_refused_all_the_same():
    made = ask.plan(MapOptions("f16", box=(16, 8, 2), interleave="32B", swizzle="32B", address=32)).map
    turned = made._replace(swizzle=0)
    assert refusing_rules(turned) == []
    assert [rule.name for rule in broken_rules(turned)] == ["swizzle: interleave"]
    with pytest.raises(UsageError, match="must be 32B with interleave 32B"):
        ask.plan(MapOptions("f16", box=(16, 8, 2), interleave="32B", address=32))


@pytest.mark.parametrize(
    ("options", "rows", "words"),
    [
        (("bf16", "32x64", "128B_ATOM_32B"), 128, "Sw<2,5,2> of the shared address"),
        (("bf16", "32x64", "128B_ATOM_32B_FLIP_8B"), 128, "Sw<2,5,2> and Sw<1,3,4> of the shared address"),
        (("bf16", "32x64", "128B_ATOM_64B"), 128, "Sw<1,6,1> of the shared address"),
        (("16U4_ALIGN8B", "32x256", "128B"), 128, "Sw<3,4,3>"),
        (("16U4_ALIGN16B", "32x256", "128B"), 128, "what an mbarrier must expect is not measured"),
        (("16U6_ALIGN16B", "32x256", "128B_ATOM_32B"), 128, "what an mbarrier must expect is not measured"),
    ],
)
def test_what_sm_100_added_is_refused_below(options, rows, words):
    kind, tile, swizzle = options
    asked = ("tensormap", "--type", kind, "--tile", tile, "--swizzle", swizzle, "--address", "32")
    text = tcprobe(*asked, "--arch", "sm_100").stdout
    assert f"rows of {rows} bytes" in text
    assert words in text
    assert f"CU_TENSOR_MAP_SWIZZLE_{swizzle}" in text
    assert "need sm_100" in tcprobe(*asked, "--arch", "sm_90", code=2).stderr


@pytest.mark.parametrize(
    ("kind", "size", "argument"),
    [
        ("16U4_ALIGN16B", "64,8", "globalDim"),
        ("16U6_ALIGN16B", "192,8", "globalDim"),
        ("16U4_ALIGN8B", "33,8", "globalDim"),
    ],
)
def test_packed_types_have_rules_of_their_own(kind, size, argument):
    asked = ("tensormap", "--type", kind, "--box", size, "--arch", "sm_103", "--address", "32")
    assert f"{argument}: the inner one must be a multiple of" in tcprobe(*asked, code=2).stderr


def test_the_atoms_of_a_mode_are_what_the_driver_api_says():
    """Chunks of so many bytes within a span of 128 stand at (chunk ^ row); the flip exchanges 8 bytes in odd rows."""
    for name, atom in (("128B_ATOM_32B", 32), ("128B_ATOM_32B_FLIP_8B", 32), ("128B_ATOM_64B", 64)):
        found = json.loads(tcprobe("swizzle", "table", f"SWIZZLE_{name}", "--extent", "128,8", "--json").stdout)[
            "offsets"
        ]
        for row, line in enumerate(found):
            for byte, offset in enumerate(line):
                chunk = (byte // atom) ^ (row % (128 // atom))
                flipped = byte ^ (8 if "FLIP" in name and row % 2 else 0)
                assert offset == 128 * row + chunk * atom + flipped % atom
    assert (
        "refuses"
        in tcprobe("swizzle", "table", "SWIZZLE_128B_ATOM_64B", "--extent", "128,8", "--arch", "sm_90", code=2).stderr
    )
