"""Print-outs of 03_visualize_layout; those that lie are refused with the place."""

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from printouts import DATA, PLACE, PRINTED, fitted, swizzle
from sampling import examples

from tcprobe.errors import DataError
from tcprobe.layout.address_files import read_address_map
from tcprobe.references.shared_memory.cutlass import resolve


def lines_of(name):
    return (DATA / name).read_text().split("\n")


@pytest.mark.parametrize("name", PRINTED)
def test_a_print_out_says_what_its_layout_is(name):
    """Every element stands where the definition of the layout named in the command line puts it."""
    source = read_address_map(DATA / name)
    layout = resolve(source.command.layout)
    stride = source.command.stride or layout.packed(source.command.extent)
    assert np.array_equal(layout(source.address.first, source.address.second, stride), source.address.offsets)
    assert source.address.extent == source.command.extent


def test_the_three_published_ones():
    """The last was cut off before its last line."""
    assert fitted(DATA / "visualize_tensoropmultiplicand_16_32_32x32.txt", "--bits", 16) == {
        "kind": "swizzle",
        "swizzle": [2, 3, 3],
        "unit": "elements",
        "shape": [32, 32],
        "stride": [1, 32],
        "base": 0,
        "cells": 1024,
        "proven": True,
        "others": [],
        "bytes": [2, 4, 3],
        "names": [
            "Sw<2,3,3>",
            "TensorOpMultiplicand<16,32>",
            "TensorOpMultiplicandCongruous<16,32>",
            "TensorOpMultiplicandCrosswise<16,32>",
            "ColumnMajorTensorOpMultiplicandCongruous<16,32>",
            "ColumnMajorTensorOpMultiplicandCrosswise<16,32>",
            "Layout_MN_SW64_Atom<half_t>",
            "SWIZZLE_64B",
        ],
    }
    found = fitted(DATA / "visualize_tensoropmultiplicand_16_64_64x16.txt")
    assert (found["swizzle"], found["shape"], found["stride"]) == ([3, 3, 3], [64, 16], [1, 64])
    assert {"Sw<3,3,3>", "TensorOpMultiplicandCrosswise<16,64>", "SWIZZLE_128B"} <= set(found["names"])
    assert "bytes" not in found
    cut = DATA / "visualize_tensoropmultiplicand_16_32_32x64.txt"
    assert "(0, 62)" in swizzle("fit", cut, code=4).stderr
    found = fitted(cut, "--partial")
    assert (found["swizzle"], found["cells"], found["missing"]) == ([2, 3, 3], 1984, ["(0..31, 62..63)"])
    assert found["shape"] == [32, 64]
    assert "missing: (0..31, 62..63)" in swizzle("fit", cut, "--partial").stdout


@pytest.mark.parametrize(
    ("name", "kind", "swizzle", "shape", "stride"),
    [
        ("tensoropmultiplicand_16_32_stride48", "coordinate", None, [32, [2, 8]], [1, [32, 96]]),
        ("tensoropmultiplicand_8_64", "swizzle", [2, 4, 3], [64, 32], [1, 64]),
        ("tensoropmultiplicand_4_128", "swizzle", [2, 5, 3], [128, 32], [1, 128]),
        ("tensoropmultiplicandcongruous_32_32", "swizzle", [2, 3, 2], [32, 16], [1, 32]),
        ("voltacongruous_16", "swizzle", [2, 3, 3], [[8, 8], [4, 8]], [[1, 32], [8, 256]]),
        ("voltacrosswise_16_32", "xor", None, [[4, 8], [4, 4, 4]], [[1, 256], [16, 4, 64]]),
        ("tensoropmultiplicand64bcrosswise", "xor", None, [[4, 4], [8, 2]], [[2, 64], [8, 1]]),
        ("pitchlinear_stride13", "affine", None, [12, 4], [1, 13]),
        ("pitchlinear_stride8", "affine", None, [6, 3], [1, 8]),
        ("pitchlinear_one_cell_a_line", "affine", None, [8, 6], [1, 16]),
        ("rowmajor_4_5", "affine", None, [4, 5], [5, 1]),
        ("columnmajorinterleaved_4", "affine", None, [32, [4, 2]], [4, [1, 128]]),
    ],
)
def test_what_the_example_prints(name, kind, swizzle, shape, stride):
    """Holes, ranges that start unaligned, single coordinates, a space per offset that holds nothing."""
    found = fitted(DATA / f"{name}.txt")
    assert (found["kind"], found["swizzle"], found["shape"], found["stride"]) == (kind, swizzle, shape, stride)
    layout = read_address_map(DATA / f"{name}.txt").command.layout
    assert layout in found["names"]


@pytest.mark.parametrize("name", [name for name in PRINTED if name != "pitchlinear_one_cell_a_line.txt"])
def test_without_its_command_line_and_with_trimmed_spaces(name, write):
    """The bounding box takes the place of the extent. (Where a line is one cell its spaces do count.)"""
    expected = read_address_map(DATA / name).address
    for text in (lines_of(name)[1:], [line.rstrip() for line in lines_of(name)[1:]]):
        found = read_address_map(write("\n".join(["# printed by hand", "user@host:~$ cat printed", *text]))).address
        assert np.array_equal(found.offsets, expected.offsets)
        assert (found.cells, found.low) == (expected.cells, (0, 0))
        assert found.high == (int(expected.first.max()), int(expected.second.max()))


def test_trimmed_lines_of_one_cell_are_refused(write):
    lines = [line.rstrip() for line in lines_of("pitchlinear_one_cell_a_line.txt")]
    with pytest.raises(DataError, match="line 3: empty inside a group"):
        read_address_map(write("\n".join(lines)))


def test_comments_prompts_and_continued_commands(write):
    body = lines_of("visualize_tensoropmultiplicand_16_32_32x32.txt")[1:]
    body = [line + "   # a comment" if line.startswith("(24") else line for line in body]
    head = [
        '$ ./examples/03_visualize_layout "TensorOpMultiplicand<16,32>" \\',
        "   --extent=32,32 \\",
        "   --vectorize 8 --output-shape=64,4",
        "// what it prints",
    ]
    source = read_address_map(write("\r\n".join([*head, *body])))
    assert source.command.extent == (32, 32)
    assert source.address.cells == 1024


def test_defaults_of_the_example(write):
    """Without --extent it prints 32 x 8, one element a cell, 16 a line."""
    offsets = [f"({k % 32}, {k // 32})" for k in range(256)]
    body = ["|".join(offsets[start : start + 16]) for start in range(0, 256, 16)]
    assert read_address_map(write("\n".join(["$ 03_visualize_layout PitchLinear", *body]))).address.extent == (32, 8)


def _swap(lines, old, new):
    at = next(number for number, line in enumerate(lines) if old in line)
    return [*lines[:at], lines[at].replace(old, new, 1), *lines[at + 1 :]]


LIES = {
    "missing": (lambda lines: lines[:-2], r"\(0, 28\) is missing, and 127 more are"),
    "missing cell": (lambda lines: _swap(lines, "|(8..15, 9)", ""), r"line 8: 56 offsets"),
    "twice": (lambda lines: _swap(lines, "(8..15, 9)", "(0..7, 9)"), r"\(0, 9\) appears twice"),
    "outside": (lambda lines: _swap(lines, "(8..15, 9)", "(8..15, 32)"), r"\(8, 32\) is outside"),
    "beyond": (lambda lines: _swap(lines, "(24..31, 9)", "(25..32, 9)"), r"\(32, 9\) is outside"),
    "short range": (lambda lines: _swap(lines, "(8..15, 9)", "(8..14, 9)"), r"line 8: a cell of 7 elements"),
    "backwards": (lambda lines: _swap(lines, "(8..15, 9)", "(15..8, 9)"), r"line 8: \(15..8, 9\)"),
    "two ranges": (lambda lines: _swap(lines, "(8..15, 9)", "(8..11, 8..9)"), r"line 8: \(8..11, 8..9\)"),
    "no coordinate": (lambda lines: _swap(lines, "(8..15, 9)", "(8..15; 9)"), r"line 8: '\(8..15; 9\)' is not"),
    "three numbers": (lambda lines: _swap(lines, "(8..15, 9)", "(8, 15, 9)"), r"line 8: "),
    "no line": (lambda lines: _swap(lines, "(0..7, 8)|", "x(0..7, 8)|"), r"line 8: "),
    "extent": (lambda lines: _swap(lines, "--extent=32,32", "--extent=32,40"), r"\(0, 32\) is missing"),
    "one extent": (lambda lines: _swap(lines, "--extent=32,32", "--extent=32"), r"line 1: --extent"),
    "no number": (lambda lines: _swap(lines, "--extent=32,32", "--extent=32,x"), r"line 1: --extent"),
    "vectorize": (lambda lines: _swap(lines, "--vectorize=8", "--vectorize=7"), r"line 1: --vectorize"),
    "zero": (lambda lines: _swap(lines, "--vectorize=8", "--vectorize=0"), r"line 1: --vectorize"),
    "wide": (lambda lines: _swap(lines, "=64,4", "=32,4"), r"line 4: 64 offsets"),
    "huge": (lambda lines: _swap(lines, "(8..15, 9)", "(8..999999999, 9)"), r"line 8: .*more than"),
}


@pytest.mark.parametrize("lie", LIES)
def test_print_outs_that_lie_are_refused_with_the_place(lie, write):
    change, words = LIES[lie]
    lines = lines_of("visualize_tensoropmultiplicand_16_32_32x32.txt")
    lines = [line for line in lines if line]
    lines = [lines[0], "", "", *lines[1:]]
    error = swizzle("fit", write("\n".join(change(lines))), code=4).stderr
    assert re.search(words, error), error
    assert PLACE.search(error)


@examples(40)
@given(st.sampled_from(["delete", "double", "outside"]), st.integers(0, 127), st.booleans())
def test_any_cell_may_lie(tmp_path, how, cell, commanded):
    """With or without the command line: a cell left out, printed again or moved outside never passes."""
    lines = lines_of("visualize_tensoropmultiplicand_16_64_64x16.txt")
    head, rows = lines[:1], [line for line in lines[1:] if line]
    cells = "|".join(rows).split("|")
    if how == "delete":
        del cells[cell]
    else:
        cells[cell] = cells[(cell + 1) % 128] if how == "double" else "(64..71, 3)"
    text = "\n".join([*(head if commanded else []), *("|".join(cells[k : k + 8]) for k in range(0, len(cells), 8))])
    (tmp_path / "lie.txt").write_text(text)
    error = swizzle("fit", tmp_path / "lie.txt", code=4).stderr
    assert PLACE.search(error)
