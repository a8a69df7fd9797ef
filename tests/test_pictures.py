"""Pictures: structure, colours that everyone can tell apart, and programs that draw them."""

import io
import itertools
import json
import re
import xml.etree.ElementTree as ET
from importlib import resources

import pytest

from tcprobe import emit
from tcprobe.ask import matrix_picture
from tcprobe.ask.matrix_picture import DARK, DARK_INK, INK, LIGHT
from tcprobe.isa.names import resolve
from tcprobe.store.cell import load, operands
from tcprobe.store.results import published

SVG = "{http://www.w3.org/2000/svg}"
MMA = "mma.m16n8k16.row.col.f32.f16.f16.f32"
# what eyes without one kind of cone see, on linear RGB (Machado, Oliveira, Fernandes 2009, severity 1)
EYES = {
    "all": ((1, 0, 0), (0, 1, 0), (0, 0, 1)),
    "protan": ((0.152286, 1.052583, -0.204868), (0.114503, 0.786281, 0.099216), (-0.003882, -0.048116, 1.051998)),
    "deutan": ((0.367322, 0.860646, -0.227968), (0.280085, 0.672501, 0.047413), (-0.01182, 0.04294, 0.968881)),
    "tritan": ((1.255528, -0.076749, -0.178779), (-0.078411, 0.930809, 0.147602), (0.004733, 0.691367, 0.3039)),
}


def linear(colour):
    parts = (int(colour[n : n + 2], 16) / 255 for n in (1, 3, 5))
    return [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]


def luminance(colour):
    red, green, blue = linear(colour)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one, two):
    low, high = sorted((luminance(one), luminance(two)))
    return (high + 0.05) / (low + 0.05)


def lab(colour, eyes):
    red, green, blue = (
        min(1, max(0, sum(m * c for m, c in zip(row, linear(colour), strict=True)))) for row in EYES[eyes]
    )
    x, y, z = (
        (0.4124 * red + 0.3576 * green + 0.1805 * blue) / 0.95047,
        0.2126 * red + 0.7152 * green + 0.0722 * blue,
        (0.0193 * red + 0.1192 * green + 0.9505 * blue) / 1.08883,
    )
    f, g, h = (t ** (1 / 3) if t > 0.008856 else 7.787 * t + 16 / 116 for t in (x, y, z))
    return 116 * g - 16, 500 * (f - g), 200 * (g - h)


@pytest.mark.parametrize(("colours", "ink"), [(LIGHT, INK), (DARK, DARK_INK)])
def test_text_has_a_contrast_of_seven(colours, ink):
    assert min(contrast(colour, ink) for colour in colours) >= 7


@pytest.mark.parametrize("eyes", EYES)
@pytest.mark.parametrize("colours", [LIGHT, DARK])
def test_every_two_colours_can_be_told_apart(colours, eyes):
    """At least 7 in CIE Lab: three times what is just noticeable side by side."""
    pairs = itertools.combinations(colours, 2)
    assert min(sum((p - q) ** 2 for p, q in zip(lab(a, eyes), lab(b, eyes), strict=True)) ** 0.5 for a, b in pairs) > 7


def test_the_site_has_the_same_colours():
    text = (resources.files("tcprobe.pages.site") / "static" / "site.css").read_text("utf-8")
    named = [re.findall(r"--c\d: (#\w{6})", line) for line in text.splitlines() if "--c0: #" in line]
    assert named[0] == list(LIGHT)
    assert named[1] == list(DARK)


def cells(text):
    """(title, text) of every cell."""
    groups = [g for g in ET.fromstring(text).iter(f"{SVG}g") if g.find(f"{SVG}title") is not None]
    return [
        (g.find(f"{SVG}title").text, g.find(f"{SVG}text").text, g.get("class"), len(g.findall(f"{SVG}path")))
        for g in groups
    ]


def test_every_cell_has_a_title_and_the_colour_of_its_lane():
    found = {title: (text, of, paths) for title, text, of, paths in cells(matrix_picture.picture(load(f"{MMA}.a")))}
    assert len(found) == 256
    assert found["[3][9]: 12:5"] == ("12:5", "c4", 1)


def test_an_element_of_two_threads_is_split():
    split = [
        paths
        for _, text, _, paths in cells(matrix_picture.picture(load("wmma.m16n16k16.a.row.f16", "sm_70")))
        if " " in text
    ]
    assert split == [2] * 256


@pytest.mark.parametrize(("name", "label"), [("svg", "12:5"), ("svg-cute", "T12 V5"), ("svg-ptx", "T12:{a5}")])
def test_labels_in_three_styles(name, label):
    found = dict(item[:2] for item in cells(emit.emit(name, [load(f"{MMA}.a")])))
    assert found["[3][9]: 12:5"] == label


def test_a_multiply_is_drawn_together():
    row = resolve(MMA).instruction
    found = ET.fromstring(emit.emit("svg", list(operands(row, None, published()).values())))
    heads = [t.text for t in found.iter(f"{SVG}text") if t.get("class") == "h"]
    assert heads[:4] == [f"{row.id} on sm_90", "B", "A", "D"]


def test_no_colour_stands_inline_and_the_ground_is_transparent():
    text = emit.emit("svg", [load(f"{MMA}.a")])
    assert not re.search(r'fill="|style="|stroke="', text)
    assert 'width="100%"' not in text


def cairosvg(text):
    try:
        from cairosvg import svg2png
    except (ImportError, OSError):  # without the library that it stands on
        pytest.skip("no CairoSVG here")
    return svg2png(bytestring=text.encode())


def resvg(text):
    return bytes(pytest.importorskip("resvg_py", reason="no resvg here").svg_to_bytes(svg_string=text))


PICTURES = {
    "split between two threads": ("wmma.m16n16k16.a.row.f16", "sm_70"),
    "halves of registers": (f"{MMA}.a", None),
    "four products": ("mma.m8n8k4.row.col.f32.f16.f16.f32.a", None),
    "warps": ("wgmma.m64n8k16.f32.f16.f16.d", None),
    "four selectors": ("mma.sp.m16n8k16.row.col.f32.f16.f16.f32.e", None),
    "no columns": ("ldmatrix.m8n8.x4.shared.b16.address", None),
    "pieces": ("wmma.m8n8k128.a.row.b1", None),
}


def boxes(root, x=0.0, y=0.0):
    """(left, top, width, class, other class, text) of every cell, whatever it is moved by."""
    for group in root:
        if group.tag != f"{SVG}g":
            continue
        by = [float(n) for n in re.findall(r"[\d.]+", group.get("transform", ""))] or [0, 0]
        if group.find(f"{SVG}title") is None:
            yield from boxes(group, x + by[0], y + by[1])
            continue
        whole, *other = group.findall(f"{SVG}path")
        left, top, wide = (float(n) for n in re.match(r"M([\d.]+) ([\d.]+)h([\d.]+)v", whole.get("d")).groups())
        halves = other[0].get("class") if other else None
        yield x + left, y + top, wide, group.get("class"), halves, group.find(f"{SVG}text").text


def structure(text):
    """What a picture shows: row by row texts and colours, and how many registers and halves begin."""
    root, rows = ET.fromstring(text), {}
    for _, top, _, of, other, words in boxes(root):
        rows.setdefault(top, []).append((words or "-", of[1:] + (other[1:] if other else "")))
    marks = {
        kind: sum(p.get("d").count("M") for p in root.iter(f"{SVG}path") if p.get("class") == kind) for kind in "ru"
    }
    heads = [t.text for t in root.iter(f"{SVG}text") if t.get("class") == "h"]
    drawn = [[" | ".join(words for words, _ in row), " ".join(colours for _, colours in row)] for row in rows.values()]
    return {"heads": heads, "rows": drawn, "registers": marks["r"], "halves": marks["u"]}


def test_pictures_have_the_structure_that_was_looked_at(golden):
    """Row by row, colour by colour; not pixel by pixel, since fonts differ."""
    found = {name: structure(matrix_picture.picture(load(*of))) for name, of in PICTURES.items()}
    golden("pictures.json", json.dumps(found, indent=1) + "\n")


def test_a_picture_says_what_the_table_says():
    """Text and colour of each cell from the table alone."""
    for id_, arch in PICTURES.values():
        cell = load(id_, arch)
        for group in ET.fromstring(matrix_picture.picture(cell)).iter(f"{SVG}g"):
            title = group.find(f"{SVG}title")
            if title is None:
                continue
            text = group.find(f"{SVG}text").text
            assert title.text.split(": ", 1)[1] == text
            threads = [int(part.split(":")[0]) for part in text.split()]
            halves = [path.get("class") for path in group.findall(f"{SVG}path")[1:]]
            assert [group.get("class"), *halves] == [f"c{(t & 3) + 4 * (t >> 2 & 1)}" for t in threads]


@pytest.mark.full
@pytest.mark.parametrize("name", ["split between two threads", "halves of registers", "no columns", "pieces"])
@pytest.mark.parametrize("draw", [cairosvg, resvg])
def test_other_programs_paint_every_cell_in_its_colours(draw, name):
    """The corners of each cell, where no text is: upper left the first thread's colour, lower right the second's."""
    image = pytest.importorskip("PIL.Image", reason="no Pillow, which CairoSVG brings")
    text = matrix_picture.picture(load(*PICTURES[name]))
    painted = image.open(io.BytesIO(draw(text))).convert("RGB")
    for left, top, wide, of, other, _ in boxes(ET.fromstring(text)):
        corners = ((left + 3, top + 3, of), (left + wide - 3, top + 16, other or of))
        for x, y, kind in corners:
            expected = tuple(int(LIGHT[int(kind[1:])][n : n + 2], 16) for n in (1, 3, 5))
            assert painted.getpixel((int(x), int(y))) == expected, (x, y)
