"""`tcprobe swizzle apply`, `table` and `draw`: what they answer, refuse and draw."""

import json
import xml.etree.ElementTree as ET

import numpy as np
from test_address_maps import DATA, swizzle

from tcprobe.layout.banks import Picture, picture_lines, svg_of_picture
from tcprobe.layout.swizzle import Swizzle
from tcprobe.references.shared_memory.catalogue import Options, tabulate


def test_apply():
    assert json.loads(swizzle("apply", "2,0,3", "8..15", "--json").stdout) == {"images": [9, 8, 11, 10, 13, 12, 15, 14]}
    assert json.loads(swizzle("apply", "2,0,-4", "16..19", "--json").stdout) == {"images": [16, 1, 50, 35]}
    assert swizzle("apply", "1,0,1", "2").stdout == "2 -> 3\n"
    for wrong in (
        ("3,4,2", "0..7"),
        ("3,4,3", "7..0"),
        ("3,4,3", "a..b"),
        ("3,4,3", "0..99999999"),
        ("3,4,3", "-1..2"),
    ):
        assert "Error" in swizzle("apply", *wrong, code=2).stderr


def test_table():
    found = json.loads(
        swizzle("table", "SWIZZLE_64B", "--extent", "16,3", "--bits", "32", "--base", "128", "--json").stdout
    )
    assert found["unit"] == "bytes"
    assert [len(found["offsets"]), len(found["offsets"][0])] == [3, 16]
    assert found["offsets"][0] == [16 * (c ^ 1) + 128 + 4 * i for c in range(4) for i in range(4)]
    text = swizzle("table", "TensorOpMultiplicandCrosswise<16,32>", "--extent", "32,16", "--stride", "64").stdout
    data = json.loads(
        swizzle("table", "TensorOpMultiplicandCrosswise<16,32>", "--extent", "32,16", "--stride", "64", "--json").stdout
    )
    assert data["unit"] == "elements"
    assert np.array_equal(np.array(data["offsets"]).T, [list(map(int, row.split(","))) for row in text.splitlines()])


def test_a_table_can_be_fitted(tmp_path):
    text = swizzle("table", "TensorOpMultiplicandCrosswise<16,32>", "--extent", "32,40", "--stride", "96").stdout
    (tmp_path / "table").write_text(text)
    found = json.loads(swizzle("fit", tmp_path / "table", "--bits", "16", "--json").stdout)
    assert (found["kind"], found["coordinate"], found["swizzle"], found["bytes"]) == (
        "coordinate",
        ["first", 2, 3, 1],
        None,
        None,
    )
    assert "TensorOpMultiplicandCrosswise<16,32>" in found["names"]
    words = swizzle("fit", tmp_path / "table").stdout
    assert "with first ^= ((second >> 1) & 3) << 3" in words


def test_json_of_several_swizzles(tmp_path):
    (tmp_path / "table").write_text(
        swizzle("table", "TensorOpMultiplicand64bCrosswise", "--extent", "16,64", "--stride", "64").stdout
    )
    found = json.loads(swizzle("fit", tmp_path / "table", "--json").stdout)
    assert (found["kind"], found["swizzle"], len(found["swizzles"]), found["fewest"]) == ("xor", None, 2, True)


def test_the_answer_can_be_recomputed_from_its_json(tmp_path):
    """What other programs do with it."""
    for name, extent, stride in (
        ("TensorOpMultiplicandCrosswise<16,32>", (32, 40), 96),
        ("TensorOpMultiplicand<8,32>", (32, 64), 32),
        ("VoltaTensorOpMultiplicandCrosswise<16,32>", (32, 64), 64),
        ("PitchLinear", (10, 7), 24),
    ):
        offsets = tabulate(name, extent, Options(stride=stride)).offsets
        (tmp_path / "t").write_text("\n".join(", ".join(map(str, row)) for row in offsets.tolist()))
        data = json.loads(swizzle("fit", tmp_path / "t", "--json").stdout)
        for a, b in np.ndindex(*extent):
            place = [a, b]
            if "coordinate" in data:
                which, bits, base, shift = data["coordinate"]
                own = 0 if which == "first" else 1
                place[own] ^= ((place[1 - own] >> shift) & ((1 << bits) - 1)) << base
            offset = data["base"]
            for value, shape, step in zip(place, data["shape"], data["stride"], strict=True):
                rest = value
                for size, one in zip(np.atleast_1d(shape), np.atleast_1d(step), strict=True):
                    rest, digit = divmod(rest, int(size))
                    offset += digit * int(one)
                assert rest == 0
            for three in [data["swizzle"]] if data["swizzle"] else data.get("swizzles", []):
                offset = Swizzle(*three)(offset)
            assert offset == offsets[a, b]


def test_wrong_options():
    assert "--bits 12" in swizzle("table", "PitchLinear", "--extent", "8,8", "--bits", "12", code=2).stderr
    assert "two numbers" in swizzle("table", "PitchLinear", "--extent", "8", code=2).stderr
    assert "--bits 3" in swizzle("fit", DATA / "swizzle_example.txt", "--bits", "3", code=2).stderr
    assert "measured sm_100" in swizzle("table", "SWIZZLE_NONE", "--extent", "16,1", "--arch", "sm_100").stderr


def test_drawing(tmp_path):
    text = swizzle("draw", "TensorOpMultiplicand<16,32>", "--extent", "32,8").stdout
    assert text.splitlines()[2:6] == [
        " 0   0-3   4-7  8-11 12-15",
        " 1 16-19 20-23 24-27 28-31",
        " 2   4-7   0-3 12-15  8-11",
        " 3 20-23 16-19 28-31 24-27",
    ]
    assert "lines: second, columns: first" in text
    swizzle("draw", "SWIZZLE_128B", "--extent", "64,8", "--bits", "16", "--svg", tmp_path / "picture.svg")
    root = ET.parse(tmp_path / "picture.svg").getroot()
    labels = [element.text for element in root.iter("{http://www.w3.org/2000/svg}text")]
    assert labels.count("0-3") == 8
    assert "28-31" in labels
    assert "give --bits" in swizzle("draw", DATA / "swizzle_example.txt", code=2).stderr
    assert "0-3" in swizzle("draw", DATA / "swizzle_example.txt", "--bits", "128").stdout
    assert "give --extent" in swizzle("draw", "PitchLinear", code=2).stderr
    assert "at most" in swizzle("draw", "PitchLinear", "--extent", "512,512", "--bits", "8", code=2).stderr


def test_pictures_of_maps():
    """Every element's bank is in its cell's label; a colour is of one bank."""
    offsets = Swizzle(3, 3, 3)(np.arange(1024).reshape(16, 64))
    picture = Picture.of(offsets, 16)
    assert (picture.run, picture.axes, picture.offsets.shape) == (8, ("first", "second"), (16, 8))
    for line, column in np.ndindex(16, 64):
        first, last = map(int, picture.label(line, column // 8).split("-"))
        assert first <= offsets[line, column] * 2 // 4 % 32 <= last
    coloured = {}
    for pieces in picture_lines(picture, 60):
        for text, colour in pieces:
            if colour:
                assert coloured.setdefault(colour, text.strip()) == text.strip()
    assert len(coloured) == 8
    assert Picture.of(np.array([[0, -1], [2, 3]]), 32).label(0, 1) == ""
    assert "<b>" not in svg_of_picture(picture, "<b>")
