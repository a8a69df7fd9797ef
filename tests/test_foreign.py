"""Somebody's own CSV: read as what it says or refused by file and line, within seconds and little memory."""

import io
import json
import os
import re
import subprocess
import sys

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st
from sampling import examples

from tcprobe.cli import main
from tcprobe.errors import DataError
from tcprobe.layout.csv import MOST_INDEX, MOST_LINES, read_csv
from tcprobe.layout.table import MOST_SLOTS
from tcprobe.store.results import Results, published
from tcprobe.system.files import MOST_BYTES

linux = pytest.mark.skipif(sys.platform != "linux", reason="needs limits of the system, and /proc")
FRAGMENT = "wmma.m16n16k16.d.f32"
HEAD = "lane,i,row,col\n"
SMALL = {(0, 0): (0, 0), (0, 1): (0, 1), (1, 0): (1, 0), (1, 1): (1, 1)}
TEXT = HEAD + "".join(f"{lane},{i},{row},{col}\n" for (lane, i), (row, col) in SMALL.items())


def read(tmp_path, data):
    path = tmp_path / "t.csv"
    path.write_bytes(data if isinstance(data, bytes) else data.encode())
    return read_csv(path)


@pytest.mark.parametrize(
    "data",
    [
        TEXT,
        TEXT.removeprefix(HEAD),
        TEXT.replace("\n", "\r\n"),
        TEXT.replace("\n", "\r"),
        TEXT.rstrip(),
        "\n\n" + TEXT.replace("\n", "\n \n"),
        "\ufeff" + TEXT,
        TEXT.upper(),
        TEXT.replace("lane,i", "LANE , i"),
        TEXT.replace("0,1,0,1", '"0","1","0","1"'),
        TEXT.replace("1,1,1,1", "01,001,1,000000001"),
    ],
)
def test_what_is_meant_is_read(tmp_path, data):
    table = read(tmp_path, data)
    assert {divmod(s, table.elements): c for s, c in enumerate(table.cells)} == SMALL


LINE = "0,0,0,0"
BAD = [
    ("", "empty"),
    ("\n\n \n", "empty"),
    ("\ufeff", "empty"),
    (HEAD, "no slots"),
    (HEAD + "\n\n", "no slots"),
    (TEXT.encode("utf-16"), "line 1: not UTF-8"),
    (TEXT.encode("utf-16-le"), "line 1: a zero byte"),
    (TEXT.encode("utf-16-be"), "line 1: a zero byte"),
    (TEXT.encode("utf-32"), "not UTF-8"),
    (b"\xff", "line 1: not UTF-8"),
    (HEAD.encode() + b"0,0,0,\xe9\n", "line 2: not UTF-8"),
    (HEAD.encode() + b"\r\r\n0,0,0,\xe9\n", "line 4: not UTF-8"),
    (HEAD + "0,0,0,0\0\n", "line 2: a zero byte"),
    ("\0", "line 1: a zero byte"),
    (HEAD + LINE + "\n\0", "line 3: a zero byte"),
    (b"\xed\xa0\x80", "not UTF-8"),
    (HEAD + "\uff10,0,0,0\n", "line 2: .*whole numbers"),
    (HEAD + "\u0661,0,0,0\n", "line 2: .*whole numbers"),
    (HEAD + "\u00b2,0,0,0\n", "line 2: .*whole numbers"),
    (HEAD + "1_0,0,0,0\n", "line 2: .*whole numbers"),
    (HEAD + "+1,0,0,0\n", "line 2: .*whole numbers"),
    (HEAD + " 1,0,0,0\n", "line 2: .*whole numbers"),
    (HEAD + "1 ,0,0,0\n", "line 2: .*whole numbers"),
    (HEAD + "1.0,0,0,0\n", "line 2: .*whole numbers"),
    (HEAD + "1e0,0,0,0\n", "line 2: .*whole numbers"),
    (HEAD + "0x1,0,0,0\n", "line 2: .*whole numbers"),
    (HEAD + ",0,0,0\n", "line 2: .*whole numbers"),
    (HEAD + "None,0,0,0\n", "line 2: .*whole numbers"),
    (HEAD + "-1,0,0,0\n", "line 2: a value is outside"),
    (HEAD + "-0,0,0,0\n", "line 2: a value is outside"),
    (HEAD + "0,0,0,4096\n", "line 2: a value is outside 0 to 4095"),
    (HEAD + "9" * 10000 + ",0,0,0\n", "outside"),
    (HEAD + "4294967296,0,0,0\n", "outside"),
    (HEAD + "0,0,18446744073709551616,0\n", "outside"),
    (HEAD + "0,0,0\n", "line 2: 3 values, expected 4"),
    (HEAD + "0,0,0,0,\n", "line 2: 5 values"),
    (HEAD + LINE + "\n" + LINE, "line 3: lane 0 i 0 is given twice"),
    (HEAD + "0;0;0;0\n", "line 2: 1 values"),
    (HEAD + "0\t0\t0\t0\n", "line 2: 1 values"),
    (HEAD + '0,0,0,"0\n', "line 2: not CSV|line 3: not CSV"),
    (HEAD + '"0\n1",0,0,0\n', "line 3: .*whole numbers"),
    (HEAD + '0,0,0,"0"0\n', "line 2: not CSV"),
    (HEAD + "x" * 200_000 + ",0,0,0\n", "line 2: not CSV: field larger"),
    ("lane,i,row\n0,0,0\n", "expected lane,i,row,col"),
    ("lane,i,row,col,col\n", "expected"),
    ("lane,i,row,col,k\n0,0,0,0,0", "expected"),
    ("lane,lane,row,col\n0,0,0,0", "expected"),
    ("0,0,0\n", "3 columns"),
    ("0,0,0,0,0,0\n", "line 1: 6 values, expected 5"),
    ("{}", "1 columns"),
    ("<html>", "expected"),
    ("[" * 1000, "expected"),
    (",".join(["x"] * 100_000), "line 1: 100000 columns 'x, x, x"),
    (",".join(["0"] * 100_000), "line 1: 100000 values"),
    (HEAD + ",".join(["0"] * 100_000), "line 2: 100000 values"),
    (",,,\n", "1 columns|4 columns|empty"),
    ("\x1b[31mlane\x1b[0m,i,row,col\n0,0,0,0", r"columns '\\x1b\[31m"),
    ("lane\u202e,i,row,col\n0,0,0,0", r"\\u202e"),
    ("la\x85ne,i,row,col\n0,0,0,0", r"\\x85"),
    ("\u2028".join(TEXT.split()), r"\\u2028|expected"),
    (HEAD + "0,0,0,0\u2028\n", r"line 2: .*\\u2028"),
    (HEAD + "0,0,0,\x1b]0;owned\x07\n", r"line 2: .*\\x1b\]0;owned\\x07"),
    (HEAD + "0,0,0,0\x0b1,0,1,0\n", r"line 2: "),
    (f"0,0,0,0\n{MOST_INDEX - 1},{MOST_INDEX - 1},0,0\n", "4096 x 4096 slots; at most 65536"),
    (f"0,0,0,0\n{MOST_INDEX - 1},16,0,0\n", "4096 x 17 slots"),
    (f"0,0,0,0\n33,{MOST_INDEX - 1},0,0\n", "64 x 4096"),
    ("\n" * MOST_LINES, "100001 lines; at most 100000"),
    ("\r" * (MOST_BYTES - 1), "lines; at most 100000"),
    (b"0" * (MOST_BYTES + 1), f"{MOST_BYTES + 1} bytes"),
]


@pytest.mark.full
@pytest.mark.parametrize(("data", "words"), BAD, ids=range(len(BAD)))
def test_what_is_no_table_is_refused_by_file_line_and_reason(tmp_path, data, words):
    with pytest.raises(DataError, match=words) as caught:
        read(tmp_path, data)
    assert str(tmp_path / "t.csv") in str(caught.value)
    assert len(str(caught.value)) < 500
    for command in (["compare", str(tmp_path / "t.csv"), FRAGMENT], ["fit", str(tmp_path / "t.csv")]):
        done = CliRunner().invoke(main, command)
        assert done.exit_code == 4
        assert (done.stdout, done.stderr.count("\n")) == ("", 1)
        assert done.stderr.removesuffix("\n").isprintable()


CELL = st.one_of(
    st.integers(0, 3).map(str),
    st.integers(-2, 70000).map(str),
    st.sampled_from(["", " ", "+1", "1_0", "\uff11", "x"]),
    st.text(max_size=3),
)


@examples(300)
@given(
    rows=st.lists(st.lists(CELL, min_size=3, max_size=6), max_size=6),
    head=st.sampled_from(["", HEAD, "col,row,i,lane\n", "lane,i,row,col,product\n"]),
    end=st.sampled_from(["\n", "\r\n", "\r"]),
    noise=st.binary(max_size=3),
)
def test_any_bytes_are_read_as_they_stand_or_refused(rows, head, end, noise, tmp_path_factory):
    path = tmp_path_factory.mktemp("csv") / "t.csv"
    text = head + end.join(",".join(row) for row in rows)
    path.write_bytes(text.encode("utf-8", "surrogatepass") + noise)
    try:
        table = read_csv(path)
    except DataError as error:
        if str(path) not in str(error):
            raise
        return
    written = {divmod(s, table.elements): c for s, c in enumerate(table.cells) if c is not None}
    lines = io.StringIO(path.read_text("utf-8-sig"), newline=None).read().split("\n")
    words = ("lane", "col", "#")  # a heading, a remark
    stated = [line for line in lines if line.strip(", ") and not line.lower().lstrip().startswith(words)]
    assert len(written) == len(stated)
    for line in stated:
        assert all(c in '0123456789,"' for c in line)


LIMITED = """
import json, resource, sys
resource.setrlimit(resource.RLIMIT_AS, (600 << 20, 600 << 20))
resource.setrlimit(resource.RLIMIT_CPU, (20, 20))
from tcprobe.system import interrupts
interrupts.reserve_numpy_room()
from tcprobe.cli import main
for command in json.loads(sys.argv[1]):
    code = None
    try:
        main(command)
    except SystemExit as end:
        code = end.code
    finally:
        peak = next(line for line in open("/proc/self/status") if line.startswith("VmHWM"))
        print("ended", code, peak.split()[1], file=sys.stderr)
"""


def limited(*commands):
    """Commands in one process that has 600 MB and 20 s of a processor: (exit code, stderr, MB until then) of each."""
    given = json.dumps([[str(word) for word in command] for command in commands])
    command = [sys.executable, "-c", LIMITED, given]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    said = re.findall(r"(.*?)^ended (\d+) (\d+)\n", done.stderr, re.DOTALL | re.MULTILINE)
    assert len(said) == len(commands), done.stderr
    return [(int(code), words, int(peak) / 1024) for words, code, peak in said]


def million():
    return "".join(f"{n % 4096},{n // 4096},0,0\n" for n in range(1_000_000))


def long_line():
    return HEAD + ",".join(["0"] * (MOST_BYTES // 2 - 20))


@pytest.mark.full
@linux
@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: "0,0,0,0\n4095,4095,0,0\n", "4096 x 4096 slots; at most 65536"),
        (million, "bytes; tcprobe reads files of at most 4194304"),
        (lambda: "0\n" * (MOST_BYTES // 2), "lines; at most 100000"),
        (lambda: "\n" * MOST_BYTES, "lines; at most 100000"),
        (lambda: "ab\n" * (MOST_BYTES // 3), "lines; at most 100000"),
        (long_line, "line 2: "),
        (lambda: HEAD + '"' + "0" * (MOST_BYTES - 100), "field larger than field limit"),
        (lambda: HEAD + '"' + "0\n" * 90_000, "not CSV"),
        (lambda: "9" * MOST_BYTES, "not CSV"),
    ],
)
def test_a_large_file_is_refused_within_seconds_and_600_megabytes(tmp_path, make, words):
    path = tmp_path / "t.csv"
    path.write_text(make())
    for code, said, peak in limited(["compare", path, FRAGMENT], ["fit", path]):
        assert code == 4, said
        assert words in said
        assert "Traceback" not in said
        assert peak < 200


@linux
@pytest.mark.parametrize("kind", ["sparse", "fifo", "folder", "device"])
@pytest.mark.sampled(2)
def test_what_is_no_file_of_that_size_is_refused_at_once(tmp_path, kind):
    path = tmp_path / "t.csv"
    if kind == "sparse":
        with open(path, "wb") as file:
            file.truncate(1 << 30)
    elif kind == "fifo":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    else:
        path.symlink_to("/dev/zero")
    ((code, said, peak),) = limited(["compare", path, FRAGMENT])
    assert code == 4, said
    assert "1073741824 bytes" in said or "not a regular file" in said or "Is a directory" in said
    assert peak < 100


@pytest.mark.full
@linux
def test_the_largest_table_that_is_read_is_compared_and_fitted_within_the_same_bounds(tmp_path):
    """65,536 slots of a map that is not linear anywhere."""
    path = tmp_path / "t.csv"
    lanes, elements = 16, MOST_SLOTS // 16
    path.write_text(
        "".join(
            f"{s // elements},{s % elements},{s * 40503 % 4096},{s * s * 30011 % 4093}\n"
            for s in range(lanes * elements)
        )
    )
    assert path.stat().st_size < MOST_BYTES
    (code, said, peak), fit = limited(["compare", path, FRAGMENT], ["fit", path])
    assert (code, "the fragment has 32 x 8" in said) == (4, True)
    assert peak < 300
    code, said, peak = fit
    assert code == 0, said
    assert peak < 600


@pytest.mark.full
@linux
@pytest.mark.parametrize("kind", ["fifo", "sparse", "folder", "device", "nested", "wide"])
def test_no_saved_file_is_waited_for_or_read_whole_when_it_is_too_large(tmp_path, kind):
    parts = ["measurement", "layout", "opcodes", "lowering", "page"]
    paths = {part: with_a_bad(part, kind, tmp_path / part) for part in parts}
    pages = limited(*(["pages", "--check", "--results", tmp_path / part] for part in parts))
    for (part, path), (code, said, peak) in zip(paths.items(), pages, strict=True):
        assert "Traceback" not in said
        assert code == (1 if part == "page" else 4), said
        assert part == "page" or str(path) in said
        assert peak < 300
    shown = ["measurement", "layout"]
    show = ["show", FRAGMENT, "--arch", "sm_90", "--only", "--results"]
    for part, (code, said, _) in zip(shown, limited(*([*show, tmp_path / part] for part in shown)), strict=True):
        assert (code, str(paths[part]) in said) == (4, True)


def with_a_bad(part, kind, folder):
    """Results in a folder, one file of which is not a file that tcprobe reads; its path."""
    results = Results(folder)
    results.write(published().measurement("sm_90", "live", "wmma.m16n16k16.accumulator.f32"))
    (layout,) = results.layouts()
    path = {
        "measurement": results.path("sm_90", "live", "wmma.m16n16k16.accumulator.f32"),
        "layout": results.layout_path(layout),
        "opcodes": results.opcodes_path("sm_90"),
        "lowering": results.lowering_path("sm_90"),
        "page": folder / "README.md",
    }[part]
    path.unlink(missing_ok=True)
    if kind == "fifo":
        os.mkfifo(path)
    elif kind == "sparse":
        with open(path, "wb") as file:
            file.truncate(1 << 30)
    elif kind == "folder":
        path.mkdir()
    elif kind == "device":
        path.symlink_to("/dev/zero")
    else:
        path.write_text("[" * MOST_BYTES if kind == "nested" else '{"a":{}}' + " " * (MOST_BYTES - 8))
    return path
