"""The 128 bytes of a CUtensorMap: those that an H200's driver wrote, both ways; what kernels write; the page."""

import csv
import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tcprobe
from tcprobe.emulate.boxes import decode_map, encode_map
from tcprobe.errors import UsageError
from tcprobe.references.shared_memory.tensor_map import TensorMap
from tcprobe.references.shared_memory.tensor_map_bits import BYTES, FIELDS, MapFields, decode, encode, field_of

ROOT = Path(__file__).parent.parent
ALIASES = {"lower", "upper"}  # im2col's, where tiled maps have the outer sides of a box


def measured():
    """Maps of `benchmarks/tensor_map_bits.py -o`."""
    for row in csv.reader((ROOT / "tests" / "data" / "tensor_map_bits_h200.csv").open()):
        kind, *modes, address = map(int, row[:6])
        dims, strides, box, steps, lower, upper = (tuple(map(int, part.split())) for part in row[6:12])
        corners = (lower, upper) if lower else None
        yield MapFields(kind, dims, strides, box, steps, *modes, address, corners), bytes.fromhex(row[12])


def test_they_are_what_the_driver_writes():
    kinds = set()
    for one, raw in measured():
        assert encode(one) == raw
        assert decode(raw) == one
        kinds.add((one.type, one.corners is None))
    assert len(kinds) == 26


def test_fields_do_not_overlap_and_nothing_else_is_set():
    own = [bit for field in FIELDS if field.name not in ALIASES for bit in range(field.first, field.first + field.bits)]
    assert len(own) == len(set(own))
    known = sum(1 << bit for bit in own)
    assert not any(int.from_bytes(raw, "little") & ~known for _, raw in measured())
    assert all(field_of(field.first).name == field.name for field in FIELDS if field.name not in ALIASES)
    with pytest.raises(UsageError):
        field_of(1000)


@given(st.binary(min_size=BYTES, max_size=BYTES))
def test_any_bytes_are_a_map_or_refused(raw):
    try:
        held = decode(raw)
    except UsageError:
        return
    assert decode(encode(held)) == held


@given(st.lists(st.integers(0, 1 << 40), min_size=1, max_size=6), st.integers(-3, 40))
def test_what_a_field_does_not_hold_is_refused(numbers, kind):
    sides = tuple(numbers)
    try:
        made = encode(MapFields(kind, sides, sides[1:], sides, (1,) * len(sides)))
    except UsageError:
        return
    assert decode(made).dims == sides


@pytest.mark.parametrize("mode", range(7))
@pytest.mark.parametrize("kind", range(16))
def test_the_emulator_keeps_what_it_emulates(kind, mode):
    one = TensorMap(kind, (128, 8), (256,), (64, 4), (1, 2), 0, mode, 0, 1)
    assert decode_map(encode_map(one, 0x7F00_1000)) == one._replace(address=0x7F00_1000)


REPLACES = [
    ("global_address", "b64", None, 0x12_3456_7890_00, "address", 0x12_3456_7890_00),
    ("rank", "b32", None, 2, "rank", 2),
    *[("box_dim", "b32", i, 7 + i, f"box{i}", 6 + i) for i in range(3)],
    *[("global_dim", "b32", i, 1000 + i, f"dim{i}", 999 + i) for i in range(3)],
    *[("element_stride", "b32", i, 1 + i, f"step{i}", i) for i in range(3)],
    ("global_stride", "b64", 1, (3 << 36) + 4096, "stride1", 256),
    ("elemtype", "b32", None, 10, "type", 10),
    ("swizzle_mode", "b32", None, 3, "swizzle", 3),
    ("interleave_layout", "b32", None, 1, "interleave", 1),
    ("fill_mode", "b32", None, 1, "fill", 1),
]


@pytest.mark.parametrize(("word", "type_", "ordinal", "value", "field", "held"), REPLACES)
def test_a_kernel_replaces_a_field_and_no_other_bit(word, type_, ordinal, value, field, held):
    """tensormap.replace over a map of all ones and one of all zeros: what changes is the field."""
    number = "" if ordinal is None else f" {ordinal},"
    immediate = word in ("elemtype", "swizzle_mode", "interleave_layout", "fill_mode")
    register = "%rd2" if type_ == "b64" else "%r1"
    given = str(value) if immediate else register
    text = f""".version 8.3
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 map) {{ .reg .b32 %r<2>; .reg .b64 %rd<3>;
  ld.param.u64 %rd1, [map]; mov.b32 %r1, {value & 0xFFFFFFFF}; mov.b64 %rd2, {value};
  tensormap.replace.tile.{word}.global.b1024.{type_} [%rd1],{number} {given}; ret; }}"""
    (row,) = (each for each in FIELDS if each.name == field)
    for before in (bytes(128), b"\xff" * 128):
        array = np.frombuffer(before, np.uint8).copy()
        done = tcprobe.emulate(text, launch={"block": [1], "arguments": [array]})
        assert done.findings == []
        number, old = (int.from_bytes(raw, "little") for raw in (done.arrays[0].tobytes(), before))
        assert row.of(number) == held
        other = {"elemtype": "tf32", "global_stride": "high1"}.get(word)
        changed = sum(((1 << each.bits) - 1) << each.first for each in FIELDS if each.name in (field, other))
        assert (number ^ old) & ~changed == 0


def rows_of_the_page():
    """Those of each dimension together, by the first."""
    for field in FIELDS:
        together = [other for other in FIELDS if re.fullmatch(field.name.rstrip("0") + "[0-4]", other.name)]
        if together and field.name.endswith("0"):
            firsts, name = ", ".join(str(other.first) for other in together), field.name.rstrip("0")
            yield f"| {firsts} | {field.bits} | `{name}` of 0 to {len(together) - 1} | {field.holds} |"
        elif not re.fullmatch("(stride|high|dim|step|box)[1-4]", field.name):
            yield f"| {field.first} | {field.bits} | `{field.name}` | {field.holds} |"


def test_the_page_has_every_field():
    page = (ROOT / "docs" / "tensor_maps.md").read_text()
    assert "\n".join(rows_of_the_page()) in page


@pytest.mark.gpu
def test_a_driver_writes_them():
    """10,000 random maps, of all types and modes that it takes."""
    import sys

    sys.path.insert(0, str(ROOT / "benchmarks"))
    from tensor_map_bits import tried

    found, _ = tried(10_000, seed=77)
    assert len(found) > 1000
    assert {one.corners is None for one, _ in found} == {True, False}
    assert not [one for one, raw in found if encode(one) != raw]
