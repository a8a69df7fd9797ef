"""Descriptors of shared memory: fields, formulas, tiles and steps, and the commands that answer by them."""

import json
import re
from itertools import product

import numpy as np
import pytest
from bench import document, save
from command import tcprobe
from hypothesis import given
from hypothesis import strategies as st
from warpgroup import LAYERS

from tcprobe.ask.descriptor import tile
from tcprobe.ask.shared_operand import shared_map
from tcprobe.errors import DataError, UsageError
from tcprobe.isa import inventory
from tcprobe.isa.names import resolve
from tcprobe.layout.descriptor import SWIZZLES, Descriptor, decode
from tcprobe.layout.expression import values
from tcprobe.store.findings import every, published_finding
from tcprobe.store.kinds import to_body
from tcprobe.store.results import Results

fields = st.integers(0, (1 << 14) - 1).map(lambda n: 16 * n)


any_descriptor = st.builds(Descriptor, fields, fields, st.sampled_from(sorted(SWIZZLES)), st.integers(0, 7), fields)


@given(any_descriptor)
def test_a_descriptor_says_what_it_was_made_of(one):
    assert decode(one.encode()) == one
    assert one.encode() < 1 << 64


@given(any_descriptor, st.integers(0, 255), st.integers(0, 255))
def test_a_pattern_exchanges_chunks_inside_their_row(one, line, byte):
    address = one.start + one.linear("k", line, byte)
    assert one.swizzled(address) // 128 == address // 128
    assert one.swizzled(one.swizzled(address)) == address


def said(text, numbers, cols):
    """What a formula is for every col, as the reader of expressions in `lane` has it."""
    text = re.sub(r"[a-z_]+", lambda name: str(numbers.get(name[0], name[0])), text)
    starts = (text.replace("col", f"(lane + {start})") for start in range(0, cols, 32))
    return [value for line in starts for value in values(line)][:cols]


@pytest.mark.full
@pytest.mark.parametrize(
    "name",
    [
        "wgmma.m64n24k16.f32.bf16.bf16.b_smem",
        "wgmma.m64n24k16.f32.bf16.bf16.a_smem",
        "wgmma.m64n8k256.b1.b_smem",
        "wgmma.m64n16k32.u8.s8.b_smem",
        "wgmma.sp.m64n8k16.tf32.b_smem",
        "wgmma.m64n8k8.tf32.a_smem",
    ],
)
def test_the_formula_says_every_offset(name):
    one = resolve(name).shared_operand
    for major, swizzle in product(one.held.majors, SWIZZLES):
        given_ = {"lbo": 48, "sbo": 2064, "base_offset": 3, "start": 80}
        found = shared_map(one, LAYERS, major, swizzle, **given_)
        text = found.formula
        assert found.offsets == [said(text, {"row": row, **given_}, one.held.cols) for row in range(one.held.rows)]
        usual = shared_map(one, LAYERS, major, swizzle)
        flat = [offset for row in usual.offsets for offset in row]
        assert len(set(flat)) == len(flat) // max(1, 8 // one.held.slot_bits)  # no two elements at one place


@pytest.mark.parametrize(
    ("kind", "major", "swizzle"),
    [
        *product(["bf16"], ["k", "mn"], SWIZZLES),
        ("tf32", "k", 128),
        ("e4m3", "k", 64),
        ("s8", "k", 0),
        ("b1", "k", 128),
    ],
)
def test_steps_through_a_tile_lead_to_its_elements(kind, major, swizzle):
    """Every wgmma of a tile reads elements that no other reads, and together they fill it."""
    bits = {"bf16": 16, "tf32": 32, "b1": 1}.get(kind, 8)
    k, step = 2048 // bits, 256 // bits
    found = tile((128, k), kind, major, swizzle)
    starts = [0]
    steps = found.per_k * (k // step - 1) if len(found.per_k) == 1 else found.per_k
    for one in steps:
        starts.append(starts[-1] + one)
    lines, at = np.indices((64, step))
    seen = []
    for start, block in product(starts, (0, found.per_block)):
        moved = found.descriptor._replace(start=start + block)
        pair = (lines, at * bits // 8) if major == "k" else (lines * bits // 8, at)
        seen.append(moved.offset(major, *pair) + moved.start)
    places = np.unique(np.concatenate([s.reshape(-1) for s in seen]))
    assert len(places) == 128 * k // max(1, 8 // bits)
    assert places.max() < found.bytes


@pytest.mark.parametrize(
    ("kind", "major", "swizzle"),
    [
        *product(["bf16"], ["k", "mn"], SWIZZLES),
        ("tf32", "k", 128),
        ("e4m3", "k", 32),
        ("s8", "k", 0),
        ("b1", "k", 64),
    ],
)
def test_the_formula_of_a_tile_says_every_byte(kind, major, swizzle):
    bits = {"bf16": 16, "tf32": 32, "b1": 1}.get(kind, 8)
    found = tile((72 if major == "k" else 128, 2048 // bits), kind, major, swizzle, (8, 32))
    lines, k = np.indices((found.lines, found.k))
    places = found.offset(lines, k)
    assert (np.bincount(places.ravel())[:: max(1, bits // 8)] == max(1, 8 // bits)).all()  # no gap, nothing twice
    assert places.max() == found.bytes - max(1, bits // 8)
    for line in (0, 3, 17, found.lines - 1):
        text = re.sub(r"\bline\b", str(line), found.formula)
        said = [v for at in range(0, found.k, 32) for v in values(re.sub(r"\bk\b", f"(lane + {at})", text))]
        assert said[: found.k] == places[line].tolist()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((192, 64, "bf16", "mn", 128, (24, 32)), "end in another"),
        ((128, 32, "bf16", "k", 128), "not whole rows of 128 bytes"),
        ((128, 64, "e4m3", "mn", 128), "k contiguous only"),
        ((60, 64, "bf16", "k", 128), "groups of 8"),
        ((128, 8, "bf16", "k", 0), "a multiple of that is needed"),
        ((128, 64, "f64", "k", 128), "takes no A or B of 'f64'"),
        ((96, 64, "bf16", "k", 128), "not a multiple of the 64"),
        ((4096, 1024, "bf16", "k", 128), "of shared memory"),
        ((8, 64, "bf16", "mn", 128), "use `swizzle` none"),
    ],
)
def test_impossible_tiles_say_why(arguments, words):
    with pytest.raises(UsageError, match=words):
        tile(arguments[:2], *arguments[2:])


def test_descriptor_both_ways():
    found = json.loads(tcprobe("descriptor", "0x4000004000010000", "--json").stdout)
    assert found == {
        "descriptor": "0x4000004000010000",
        "start": 0,
        "lbo": 16,
        "sbo": 1024,
        "base_offset": 0,
        "swizzle": 128,
    }
    made = json.loads(tcprobe("descriptor", "--tile", "128x64", "--type", "bf16", "--json").stdout)
    assert (made["descriptor"], made["advance_k"], made["advance_block"]) == ("0x4000004000010000", [32], 8192)
    assert made["tma"] == {
        "data_type": "CU_TENSOR_MAP_DATA_TYPE_BFLOAT16",
        "box": [64, 128],
        "boxes": 1,
        "box_bytes": 16384,
        "swizzle": "CU_TENSOR_MAP_SWIZZLE_128B",
    }
    assert "SBO 1024: from 8 lines" in tcprobe("descriptor", "--tile", "128x64", "--type", "bf16").stdout
    by_name = tcprobe(
        "descriptor", "--tile", "96x32", "--instruction", "wgmma.m64n96k32.f32.e4m3.e4m3", "--swizzle", "32"
    )
    assert "96 x 32 of e4m3" in by_name.stdout


@pytest.mark.parametrize(
    "arguments",
    [
        ["descriptor"],
        ["descriptor", "x"],
        ["descriptor", "0x0000800000000000"],
        ["descriptor", "1" * 21],
        ["descriptor", "--tile", "128x64"],
        ["descriptor", "--tile", "128", "--type", "bf16"],
        ["descriptor", "--tile", "64x64", "--instruction", "wgmma.m64n64k16.f32.f16.f16", "--type", "bf16"],
        ["descriptor", "--tile", "64x64", "--instruction", "mma.m16n8k16.f32.f16.f16.f32"],
        ["show", "wgmma.m64n24k32.u8.u8.b_smem", "--major", "mn"],
        ["show", "wgmma.m64n24k16.f32.f16.f16.b_smem", "--lbo", "7"],
        ["show", "wgmma.m64n24k16.f32.f16.f16.b_smem", "--base-offset", "8"],
        ["show", "wgmma.b_smem"],
        ["show", "wgmma.m64n24k16.f32.f16.f16.d", "--swizzle", "128"],
    ],
)
def test_mistakes_in_the_call(arguments):
    assert tcprobe(*arguments, code=2).output


def test_show_json_of_an_operand_behind_a_descriptor():
    name = "wgmma.mma_async.m64n24k16.f32.bf16.bf16.b_smem"
    found = json.loads(
        tcprobe(
            "show",
            name,
            "--swizzle",
            "128",
            "--major",
            "k",
            "--lbo",
            "16",
            "--sbo",
            "1024",
            "--base-offset",
            "0",
            "--start",
            "0",
            "--json",
        ).stdout
    )
    assert (found["operand"], found["threads"], found["rows"], found["cols"]) == ("b_smem", 128, 16, 24)
    assert (len(found["offsets"]), len(found["offsets"][0])) == (16, 24)
    assert found["offsets"][8][1] == 128 + 0  # chunk 1 of row 1 is where chunk 0 would be
    assert found["instruction"] == "wgmma.mma_async.sync.aligned.m64n24k16.f32.bf16.bf16"
    bits = json.loads(tcprobe("show", "wgmma.m64n8k256.b1.a_smem", "--json").stdout)
    assert (len(bits["offsets"]), len(bits["offsets"][0]), bits["offsets"][0][:9]) == (64, 256, [0] * 8 + [1])


def test_trace_goes_through_shared_memory():
    asked = ("trace", "wgmma.m64n24k16.f32.bf16.bf16", "--row", "3", "--col", "5", "--swizzle", "128", "--json")
    found = json.loads(tcprobe(*asked).stdout)
    shown = json.loads(tcprobe("show", "wgmma.m64n24k16.f32.bf16.bf16.b_smem", "--swizzle", "128", "--json").stdout)
    assert [m["b_offsets"] for m in found["meetings"]] == [[row[5]] for row in shown["offsets"]]
    assert [(m["a"][0]["row"], m["a"][0]["col"]) for m in found["meetings"]] == [(3, k) for k in range(16)]
    sparse = json.loads(
        tcprobe(
            "trace", "wgmma.sp.m64n8k32.f32.f16.f16", "--row", "0", "--col", "0", "--selector", "0", "--json"
        ).stdout
    )
    assert [m["k"] for m in sparse["meetings"]] == [[s // 2 * 4 + j for j in range(4)] for s in range(16)]


def test_list_has_operands_behind_descriptors():
    found = json.loads(tcprobe("list", "--json", "--family", "wgmma").stdout)
    rows = [row for row in inventory.instructions().values() if row.family == "wgmma"]
    behind = {(row.name, operand.held.name) for row in rows for operand in row.described}
    assert {(e["instruction"], e["operand"]) for e in found} >= behind | {(row.name, "a") for row in rows}
    assert {e["shape"]["n"] for e in found} == set(range(8, 257, 8))
    assert {tuple(e["majors"]) for e in found if e["operand"] == "b_smem"} == {("k",), ("k", "mn")}


# references and layouts


CASE = "wgmma.mma_async.m64n64k16.f32.f16.f16.a_smem.k.128"
PRODUCTS = "wgmma.mma_async.m64n8k16.f32.f16.f16.products"
SPOILT = [
    {"agree": 1 << 40},
    {"operand": "d"},
    {"operand": "b_smem"},
    {"major": "mn"},
    {"swizzle": 64},
    {"swizzle": 3},
    {"bits": 8},
    {"bits": -1},
    {"ignored": ["everything"]},
    {"base_offset": {}},
    {"extra": 1},
    {"descriptors": True},
    {"base_offset": {"subtracted": [2, 1], "added": [0, 1], "ignored": [0, 1]}},
    {"elements": "many"},
    {"instruction": "wgmma.mma_async.m64n128k16.f32.f16.f16"},
]


def write(folder, **bodies):
    save(folder, "descriptors", {subject: to_body("descriptors", body) for subject, body in bodies.items()})


@pytest.mark.parametrize("change", SPOILT)
def test_descriptors_that_cannot_be_are_refused(change, tmp_path):
    case = published_finding("descriptors", "sm_90", CASE).plain["case"]
    write(tmp_path, **{CASE: {"case": case}})
    with pytest.raises(DataError):
        write(tmp_path, **{CASE: {"case": case | change}})


def test_products_that_cannot_be_are_refused(tmp_path):
    products = {"products": 2, "wrong": 1}
    write(tmp_path, **{PRODUCTS: {"products": products}})
    case = published_finding("descriptors", "sm_90", CASE).plain["case"]
    dense = "mma.m16n8k16.row.col.f32.f16.f16.f32.products"
    for subject, body in (
        (PRODUCTS, {"products": products | {"wrong": 3}}),
        (PRODUCTS, {}),
        (PRODUCTS, {"case": case}),
        (PRODUCTS, {"products": products, "case": case}),
        (CASE, {"products": products}),
        (dense, {"products": products}),
    ):
        with pytest.raises(DataError):
            write(tmp_path, **{subject: body})


def test_descriptors_of_an_arch_that_has_none_are_refused(tmp_path):
    body = to_body("descriptors", {"products": {"products": 2, "wrong": 1}})
    with pytest.raises(DataError, match="on sm_80"):
        save(tmp_path, "descriptors", {PRODUCTS: body}, arch="sm_80")


@pytest.mark.parametrize("change", [{"arch": "sm_80"}, {"method": "guess"}, {"cases": [{}]}, {"extra": 1}])
def test_an_earlier_document_that_cannot_be_is_refused(change, tmp_path):
    case = published_finding("descriptors", "sm_90", CASE).plain["case"]
    body = {"cases": [case], "products": {"products": 2, "wrong": 1}}
    document(tmp_path, "descriptors", body)
    found = {one.subject: one.plain for one in every(Results(tmp_path), "descriptors", "sm_90")}
    assert found == {CASE: {"case": case}, "wgmma.products": {"products": body["products"]}}
    document(tmp_path, "descriptors", body | change)
    with pytest.raises(DataError, match=r"descriptors\.json"):
        list(every(Results(tmp_path), "descriptors", "sm_90"))
