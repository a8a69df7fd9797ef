"""Files of offsets: print-outs of 03_visualize_layout, matrices and CSVs; those that lie are refused with the place."""

import json
import re
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st
from sampling import examples

from tcprobe.cli import main
from tcprobe.errors import DataError, UsageError
from tcprobe.fit.swizzle import fit_address
from tcprobe.layout.address import AddressMap, runs
from tcprobe.layout.addressfile import read
from tcprobe.layout.swizzle import Swizzle
from tcprobe.references.shared_memory.cutlass import resolve

DATA = Path(__file__).parent / "data" / "shared_memory"
PRINTED = sorted(path.name for path in DATA.glob("*.txt") if path.name != "swizzle_example.txt")
PLACE = re.compile(r"\([0-9]+, [0-9]+\)|line [0-9]+")


def tcprobe(*arguments, code=0):
    done = CliRunner().invoke(main, ["swizzle", *map(str, arguments)])
    assert done.exit_code == code, (done.output, done.exception)
    assert "Traceback" not in done.output
    return done


def fitted(path, *options):
    return json.loads(tcprobe("fit", path, "--json", *options).stdout)


@pytest.fixture
def write(tmp_path):
    def file(text):
        path = tmp_path / "table.txt"
        path.write_text(text)
        return path

    return file


def lines_of(name):
    return (DATA / name).read_text().split("\n")


# --- print-outs -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", PRINTED)
def test_a_print_out_says_what_its_layout_is(name):
    """Every element stands where the definition of the layout named in the command line puts it."""
    source = read(DATA / name)
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
    assert "(0, 62) is missing, and 63 more are" in tcprobe("fit", cut, code=4).stderr
    found = fitted(cut, "--partial")
    assert (found["swizzle"], found["cells"], found["missing"]) == ([2, 3, 3], 1984, ["(0..31, 62..63)"])
    assert found["shape"] == [32, 64]
    assert "missing: (0..31, 62..63)" in tcprobe("fit", cut, "--partial").stdout


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
    layout = read(DATA / f"{name}.txt").command.layout
    assert layout in found["names"]


@pytest.mark.parametrize("name", [name for name in PRINTED if name != "pitchlinear_one_cell_a_line.txt"])
def test_without_its_command_line_and_with_trimmed_spaces(name, write):
    """The bounding box takes the place of the extent. (Where a line is one cell its spaces do count.)"""
    expected = read(DATA / name).address
    for text in (lines_of(name)[1:], [line.rstrip() for line in lines_of(name)[1:]]):
        found = read(write("\n".join(["# printed by hand", "user@host:~$ cat printed", *text]))).address
        assert np.array_equal(found.offsets, expected.offsets)
        assert (found.cells, found.low) == (expected.cells, (0, 0))
        assert found.high == (int(expected.first.max()), int(expected.second.max()))


def test_trimmed_lines_of_one_cell_are_refused(write):
    lines = [line.rstrip() for line in lines_of("pitchlinear_one_cell_a_line.txt")]
    with pytest.raises(DataError, match="line 3: empty inside a group"):
        read(write("\n".join(lines)))


def test_comments_prompts_and_continued_commands(write):
    body = lines_of("visualize_tensoropmultiplicand_16_32_32x32.txt")[1:]
    body = [line + "   # a comment" if line.startswith("(24") else line for line in body]
    head = [
        '$ ./examples/03_visualize_layout "TensorOpMultiplicand<16,32>" \\',
        "   --extent=32,32 \\",
        "   --vectorize 8 --output-shape=64,4",
        "// what it prints",
    ]
    source = read(write("\r\n".join([*head, *body])))
    assert source.command.extent == (32, 32)
    assert source.address.cells == 1024


def test_defaults_of_the_example(write):
    """Without --extent it prints 32 x 8, one element a cell, 16 a line."""
    offsets = [f"({k % 32}, {k // 32})" for k in range(256)]
    body = ["|".join(offsets[start : start + 16]) for start in range(0, 256, 16)]
    assert read(write("\n".join(["$ 03_visualize_layout PitchLinear", *body]))).address.extent == (32, 8)


def _swap(lines, old, new):
    at = next(number for number, line in enumerate(lines) if old in line)
    return [*lines[:at], lines[at].replace(old, new, 1), *lines[at + 1 :]]


LIES = {
    "missing": (lambda lines: lines[:-2], r"\(0, 28\) is missing, and 127 more are"),
    "missing cell": (lambda lines: _swap(lines, "|(8..15, 9)", ""), r"line 8: 56 offsets"),
    "twice": (lambda lines: _swap(lines, "(8..15, 9)", "(0..7, 9)"), r"\(0, 9\) is there twice"),
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
    error = tcprobe("fit", write("\n".join(change(lines))), code=4).stderr
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
    error = tcprobe("fit", tmp_path / "lie.txt", code=4).stderr
    assert PLACE.search(error)


# --- numbers --------------------------------------------------------------------------------------------------------


def test_worked_example():
    """Its first table only counts the elements; it takes --table to fit that one."""
    path = DATA / "swizzle_example.txt"
    done = tcprobe("fit", path, "--json")
    found = json.loads(done.stdout)
    assert (found["swizzle"], found["others"]) == ([2, 0, 3], [[3, 0, 3]])
    assert "2 tables, from lines 2, 8" in done.stderr
    assert fitted(path, "--table", 1)["kind"] == "affine"
    assert fitted(path, "--table", 2)["swizzle"] == [2, 0, 3]
    assert "--table 3" in tcprobe("fit", path, "--table", 3, code=2).stderr


@pytest.mark.parametrize(
    "text",
    [
        "0, 1, 2\n4, 5, 6\n",
        "0 1 2\n4 5 6",
        "0|1|2\n4|5|6\n",
        "[[0 1 2]\n [4 5 6]]",
        "{0, 1, 2},\n{4, 5, 6},\n",
        "# offsets\nin elements:\n\n0\t1\t2 // first line\n\n4\t5\t6\n",
        "row,col,offset\n0,0,0\n1,0,4\n0,1,1\n1,1,5\n0,2,2\n1,2,6\n",
        "offset, col, row\n0,0,0\n4,0,1\n1,1,0\n5,1,1\n2,2,0\n6,2,1\n",
        "0,0,0\n1,0,4\n0,1,1\n1,1,5\n0,2,2\n1,2,6\n",
        "\ufeffrow,col,offset\n0,0,0\n1,0,4\n0,1,1\n1,1,5\n0,2,2\n1,2,6\n",
    ],
)
def test_ways_to_write_offsets(text, write):
    address = read(write(text)).address
    assert address.grid.tolist() == [[0, 1, 2], [4, 5, 6]]
    assert fitted(write(text)) == {
        "kind": "affine",
        "swizzle": None,
        "unit": "elements",
        "shape": [2, 3],
        "stride": [4, 1],
        "base": 0,
        "cells": 6,
        "proven": True,
        "others": [],
        "names": ["RowMajor"],
    }


def test_offsets_may_repeat_and_a_box_may_begin_anywhere(write):
    text = "row,col,offset\n" + "\n".join(f"{a},{b},{b % 2 * 8}" for a in range(5, 9) for b in range(6, 14))
    found = fitted(write(text))
    assert (found["kind"], found["cells"]) == ("affine", 32)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "no numbers"),
        ("nothing here", "no numbers"),
        ("0 1 2\n4 x 6", "line 2: 'x'"),
        ("0 1 2\nx 5 6", "line 2: 'x'"),
        ("0 1 2\n4 -5 6", "line 2: '-5'"),
        ("0 1 2\n4 5.5 6", "line 2: '5.5'"),
        ("[[0, 1], [2, 3]]", "line 1: several rows"),
        ("{{0, 1},{2, 3}}", "line 1: several rows"),
        ("0 1 2\n4 5", r"\(1, 2\) is missing"),
        ("0,,2\n4,5,6", r"\(0, 1\) is missing"),
        ("row,col,offset\n0,0,0\n0,1,1\n1,0,8", r"\(1, 1\) is missing"),
        ("row,col,offset\n0,0,0\n0,0,0", r"\(0, 0\) is there twice"),
        ("row,col,offset\n0,0,0\n0,1", "line 3: 2 values"),
        ("row,col,offset\n0,0,0,0", "line 2: 4 values"),
        ("row,col,offset\n0,0,-1", "line 2: '-1'"),
        ("row,col,offset\n0,0,0\n0,1000000000,1", "not below|more than"),
        ("row,col,offset\n0,0,0\n9999,9999,1", "more than"),
        ("0 " + "9" * 5000, "line 1: '999"),
        ("03_visualize_layout RowMajor", "nothing that it printed"),
    ],
)
def test_files_that_are_no_tables(text, words, write):
    error = tcprobe("fit", write(text), code=4).stderr
    assert re.search(words, error), error


def test_several_tables_need_a_choice(write):
    path = write("plain:\n0 1\n2 3\n\nother:\n0 1\n3 2\n\nthird:\n0 2\n1 3\n")
    assert "3 tables, from lines 2, 6, 10; --table N" in tcprobe("fit", path, code=2).stderr
    assert fitted(path, "--table", 3)["stride"] == [1, 2]


def test_what_cannot_be_read(tmp_path):
    assert "cannot be read" in tcprobe("fit", tmp_path / "absent", code=4).stderr
    (tmp_path / "bytes").write_bytes(b"\xff\xfe\x00\x01")
    assert "not UTF-8" in tcprobe("fit", tmp_path / "bytes", code=4).stderr


def test_no_layout_is_an_answer(write):
    rows = [" ".join(str(a * b) for b in range(8)) for a in range(8)]
    assert "no layout" in tcprobe("fit", write("\n".join(rows)), code=1).stderr


# --- hostile input --------------------------------------------------------------------------------------------------

ALPHABET = st.sampled_from(
    [*"0123456789(),.|- \n\t#/$\\[]{}x", "..", "--extent=", "03_visualize_layout ", "(0..7, 0)|"]
)


def read_or_refusal(path):
    """(address map, "") of a file, or (None, the message)."""
    try:
        return read(path).address, ""
    except (DataError, UsageError) as error:
        return None, str(error)


@examples(300)
@given(st.lists(ALPHABET, max_size=120).map("".join))
def test_any_text_is_read_or_refused(tmp_path, text):
    (tmp_path / "fuzz").write_text(text)
    address, refusal = read_or_refusal(tmp_path / "fuzz")
    found = fit_address(address) if address else None
    assert refusal or found is None or np.array_equal(found(address.first, address.second), address.offsets)


@examples(150)
@given(st.sampled_from(PRINTED), st.data())
def test_spoiled_print_outs_are_read_or_refused(tmp_path, name, data):
    """Characters changed, dropped or put in: what still reads says where each element stands, once."""
    text = list((DATA / name).read_text())
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(text) - 1))
        text[at] = data.draw(st.sampled_from(["", "0", "1", "|", "(", ")", ",", ".", " ", "\n", "-", "x"]))
    (tmp_path / "spoiled").write_text("".join(text))
    address, refusal = read_or_refusal(tmp_path / "spoiled")
    if address:
        assert len(set(zip(address.first.tolist(), address.second.tolist(), strict=True))) == address.cells
    else:
        assert PLACE.search(refusal) or "no element" in refusal or "nothing" in refusal


@pytest.mark.parametrize(
    "text",
    [
        "(0..999999, 0)|" * 100_000,
        "03_visualize_layout x --vectorize=1000000 --output-shape=1000000,1\n" + "|" * 100_000,
        "|" * 3_000_000,
        "(0..400000, 0)" * 10_000,
        "(0..400000, 0)|" + "|" * 500_000,
        " " * 3_000_000 + "(0, 0)",
        "(0, 0)" + " " * 1_000_000 + "x",
        "0 " * 4_000_000,
        "0\n" * 2_000_000,
        "\\\n" * 300_000,
        "(" * 1_000_000,
        ",".join("0" * 200_000) + "\n" + "0\n" * 200_000,
    ],
    ids=range(12),
)
@pytest.mark.sampled(4)
def test_hostile_sizes_end_soon(text, write):
    read_or_refusal(write(text))


def test_a_file_of_any_size_is_bounded(write):
    with pytest.raises(DataError, match="at most"):
        read(write("0 1\n" * 3_000_000))


# --- address maps ---------------------------------------------------------------------------------------------------


@given(st.sets(st.tuples(st.integers(0, 12), st.integers(0, 6)), min_size=1))
def test_runs_name_every_element_once(elements):
    named = []
    for text in runs(elements):
        first, second = (list(map(int, part.split(".."))) for part in text.strip("()").split(", "))
        named += [(a, b) for b in range(second[0], second[-1] + 1) for a in range(first[0], first[-1] + 1)]
    assert sorted(named) == sorted(elements)


def test_a_map_checks_itself():
    with pytest.raises(DataError, match="no element"):
        AddressMap.of([], [], [])
    with pytest.raises(DataError, match="twice"):
        AddressMap.of([1, 1], [2, 2], [0, 1])
    with pytest.raises(DataError, match="outside"):
        AddressMap.of([1, 2], [2, 2], [0, 1], ((0, 0), (1, 3)))
    assert AddressMap.of([0, 2], [0, 1], [0, 1]).missing == [(1, 0), (2, 0), (0, 1), (1, 1)]
    assert Swizzle(0, 0, 0)(5) == 5
