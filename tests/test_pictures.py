"""Pictures: structure, colours that everyone can tell apart, and programs that draw them."""

import io
import itertools
import json
import re
import xml.etree.ElementTree as ET
from importlib import resources
from typing import NamedTuple

import pytest

from tcprobe import emit
from tcprobe.emit import svg
from tcprobe.emit.svg_drawing import DARK, DARK_INK, INK, LIGHT
from tcprobe.isa import by_name
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


class Cell(NamedTuple):
    """A cell: where it is painted, the classes of its colour and of its other half, its text and its title."""

    left: float
    top: float
    wide: float
    colour: str
    half: str | None
    text: str
    title: str


def cells(text):
    """Every cell of every drawing, in the order of the texts."""
    return list(_cells(ET.fromstring(text), 0, 0))


def _cells(group, x, y):
    halves = {(float(m[1]), float(m[2]) - 19): of for of, d in _pieces(group) if (m := HALF.fullmatch(d))}
    whole = [(*map(float, m.groups()), of) for of, d in _pieces(group) if (m := WHOLE.fullmatch(d))]
    assert len(whole) + len(halves) == len(list(_pieces(group)))
    for inner in group.findall(f"{SVG}g"):
        dx, dy = (float(n) for n in re.findall(r"[\d.]+", inner.get("transform")))
        if inner.get("class") != "m":
            yield from _cells(inner, x + dx, y + dy)
            continue
        for of in inner.iter(f"{SVG}text"):
            if of.find(f"{SVG}title") is not None:
                at, top = float(of.get("x")), dy - 14
                here = [w for w in whole if w[0] < at < w[0] + w[2] and w[1] == top] or [(at, top, 0, "e")]
                left, _, wide, colour = here[0]
                yield Cell(x + left, y + top, wide, colour, halves.get((left, top)), of.text, of[0].text)


WHOLE = re.compile(r"M([\d.]+) ([\d.]+)h([\d.]+)v19H[\d.]+")
HALF = re.compile(r"M([\d.]+) ([\d.]+)h[\d.]+v-19")


def _pieces(group):
    """(class, one shape) of the coloured paths of a drawing."""
    for path in group.findall(f"{SVG}path"):
        if path.get("class")[0] == "c":
            yield from ((path.get("class"), f"M{shape}") for shape in path.get("d").split("M")[1:])


def test_every_cell_has_a_title_and_the_colour_of_its_lane():
    found = {cell.title: (cell.text, cell.colour, cell.half) for cell in cells(svg.picture(load(f"{MMA}.a")))}
    assert len(found) == 256
    assert found["[3][9]: 12:5"] == ("12:5", "c4", None)


def test_an_element_of_two_threads_is_split():
    found = cells(svg.picture(load("wmma.m16n16k16.a.row.f16", "sm_70")))
    assert [" " in cell.text and cell.half is not None for cell in found] == [True] * 256


@pytest.mark.parametrize(("name", "label"), [("svg", "12:5"), ("svg-cute", "T12 V5"), ("svg-ptx", "T12:{a5}")])
def test_labels_in_three_styles(name, label):
    found = {cell.title: cell.text for cell in cells(emit.emit(name, [load(f"{MMA}.a")]))}
    assert found["[3][9]: 12:5"] == label


def test_a_multiply_is_drawn_together():
    row = by_name.instruction(MMA)
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
    "split between two threads": ("wmma.m16n16k16.a.row.f16", "sm_70"), "halves of registers": (f"{MMA}.a", None),
    "four products": ("mma.m8n8k4.row.col.f32.f16.f16.f32.a", None), "warps": ("wgmma.m64n8k16.f32.f16.f16.d", None),
    "four selectors": ("mma.sp.m16n8k16.row.col.f32.f16.f16.f32.e", None),
    "no columns": ("ldmatrix.m8n8.x4.shared.b16.address", None), "pieces": ("wmma.m8n8k128.a.row.b1", None),
}  # fmt: skip


def structure(text):
    """What a picture shows: row by row texts and colours, and how many registers and halves begin."""
    root, rows = ET.fromstring(text), {}
    for cell in cells(text):
        colours = cell.colour[1:] + (cell.half[1:] if cell.half else "")
        rows.setdefault(cell.top, []).append((cell.text or "-", colours))
    marks = {
        kind: sum(p.get("d").count("M") for p in root.iter(f"{SVG}path") if p.get("class") == kind) for kind in "ru"
    }
    heads = [t.text for t in root.iter(f"{SVG}text") if t.get("class") == "h"]
    drawn = [[" | ".join(words for words, _ in row), " ".join(colours for _, colours in row)] for row in rows.values()]
    return {"heads": heads, "rows": drawn, "registers": marks["r"], "halves": marks["u"]}


def test_pictures_have_the_structure_that_was_looked_at(golden):
    """Row by row, colour by colour; not pixel by pixel, since fonts differ."""
    found = {name: structure(svg.picture(load(*of))) for name, of in PICTURES.items()}
    golden("pictures.json", json.dumps(found, indent=1) + "\n")


def test_a_picture_says_what_the_table_says():
    """Text and colour of each cell from the table alone."""
    for id_, arch in PICTURES.values():
        for cell in cells(svg.picture(load(id_, arch))):
            assert cell.title.split(": ", 1)[1] == (cell.text or "nobody")
            threads = [int(part.split(":")[0]) for part in (cell.text or "").split()]
            painted = [cell.colour, *filter(None, [cell.half])] if cell.text else []
            assert painted == [f"c{(t & 3) + 4 * (t >> 2 & 1)}" for t in threads]


@pytest.mark.parametrize("name", ["split between two threads", "halves of registers", "no columns", "pieces"])
@pytest.mark.parametrize("draw", [cairosvg, resvg])
def test_other_programs_paint_every_cell_in_its_colours(draw, name):
    """The corners of each cell, where no text is: upper left the first thread's colour, lower right the second's."""
    image = pytest.importorskip("PIL.Image", reason="no Pillow, which CairoSVG brings")
    text = svg.picture(load(*PICTURES[name]))
    painted = image.open(io.BytesIO(draw(text))).convert("RGB")
    for left, top, wide, of, other, *_ in cells(text):
        corners = ((left + 3, top + 3, of), (left + wide - 3, top + 16, other or of))
        for x, y, kind in corners:
            expected = tuple(int(LIGHT[int(kind[1:])][n : n + 2], 16) for n in (1, 3, 5))
            assert painted.getpixel((int(x), int(y))) == expected, (x, y)
