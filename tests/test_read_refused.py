"""Files that `tcprobe read` refuses or survives: bad, damaged, too large; and names that it escapes."""

import contextlib
import os
import random
import shutil
import struct

import damage
import fatbins
import pytest
from click.testing import CliRunner
from fatbins import MULTIPLY, entry, fatbin
from hypothesis import given
from hypothesis import strategies as st
from machine_code import TOOLS
from test_read import compressed, read

from tcprobe.cli import main
from tcprobe.errors import DataError
from tcprobe.sass import matrix_code
from tcprobe.sass.code_files import code_files
from tcprobe.sass.elf import SECTION, cubin
from tcprobe.sass.image import MOST_UNPACKED, Entry, entries, of_lz4, zstd


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    return fatbins.cubin(tmp_path_factory.mktemp("made"), MULTIPLY, "movmatrix.m8n8.trans.b16")


def test_what_is_no_code_is_refused(tmp_path):
    for content in (b"", b"text", bytes(5000), b"\x7fELF" + bytes(200), b"MZ" * 300):
        path = tmp_path / "no"
        path.write_bytes(content)
        assert "fatbin" in read(path, code=4).stderr


def test_a_bad_file_among_good_ones_does_not_hide_them(made, tmp_path):
    (tmp_path / "no").write_bytes(b"text")
    done = read(tmp_path / "no", made, code=4)
    assert "HMMA.16816.F32 x 1" in done.stdout
    assert "no cubin" in done.stderr


def test_ptx_that_does_not_assemble_is_refused(tmp_path):
    path = tmp_path / "k.ptx"
    path.write_text(fatbins.ptx().replace("mma.sync", "nma.sync"))
    assert "assemble" in read(path, code=4).stderr


def test_names_are_escaped(made, tmp_path):
    path = tmp_path / "k.cubin"
    path.write_bytes(made.read_bytes().replace(b"mma_m16n8k16", b"\x1b[2J\n\xe2\x80\xae\xffk16"))
    done = read(path)
    assert "\\x1b[2J\\n\\u202e" in done.stdout
    assert all(line.isprintable() for line in done.stdout.splitlines())


BOMBS = {
    "states more than there is": lambda: entry(b"abc", flags=0x8011, full=1 << 60),
    "a copy of a copy": lambda: entry(b"\x1fa\1\0" + b"\xff" * 60000 + b"\0\0", flags=0x2011, full=127 << 20),
    "a frame that is larger": lambda: entry(zstd.compress(bytes(1 << 28)), flags=0x8011, full=100),
    "an entry of 2^63 bytes": lambda: entry(b"").replace(struct.pack("<IQ", 64, 0), struct.pack("<IQ", 64, 1 << 63)),
    "a header of nothing": lambda: entry(b"x" * 64, header=64).replace(struct.pack("<I", 64), bytes(4), 1),
}


@pytest.mark.parametrize("kind", BOMBS)
def test_bombs_are_not_unpacked(tmp_path, kind):
    path = tmp_path / "bomb"
    path.write_bytes(fatbin(BOMBS[kind]()))
    assert read(path, code=4).stderr.count("\n") == 1


def test_more_than_a_library_unpacks_to_is_refused_before_anything_is():
    """Damaged entries cost what they state: a file of them is not unpacked for minutes."""
    bad = entry(b"\x1fa\1\0" + b"\xff" * 5000 + b"\0\0", flags=0x2011, full=82 << 20)
    assert len(entries(fatbin(*[bad] * 6))) == 6
    with pytest.raises(DataError, match="512 MB of them unpacked"):
        entries(fatbin(*[bad] * 7))
    large = entry(bytes(2 << 20), flags=0x2011, full=82 << 20)
    assert sum(each.cost for each in entries(fatbin(*[large] * 7))) > MOST_UNPACKED
    with pytest.raises(DataError, match="MB of them unpacked"):
        entries(fatbin(*[large] * 7, *[bad] * 7))


@given(st.lists(st.tuples(st.binary(max_size=40), st.integers(1, 70), st.integers(4, 400)), max_size=8))
def test_copies_of_lz4_are_those_of_bytes(parts):
    """Far and near copies, which overlap what they append, byte by byte."""
    block, expected = bytearray(), bytearray()
    for literals, back, count in parts:
        expected += literals
        if not 0 < back <= len(expected):
            return
        block += bytes([min(15, len(literals)) << 4 | min(15, count - 4)]) + fatbins._more(len(literals)) + literals
        block += back.to_bytes(2, "little") + fatbins._more(count - 4)
        for _ in range(count):
            expected.append(expected[-back])
    end = bytes(range(12))  # a block ends with literals
    block, expected = block + bytes([len(end) << 4]) + end, expected + end
    assert of_lz4(bytes(block), len(expected)) == expected


VENDOR_SECTIONS = [  # name, type, whether its bytes are needed
    (".nv_debug.shared", 0x7000000A, False),
    (".nv.shared.k", 8, False),
    (".nv.anything", 0x700000FF, False),
    (".debug_line", 1, True),
    (".nv.info.k", 0x70000000, True),
    (".text.k", 1, True),
    (".text.k", 0x7000000A, True),
]


@pytest.mark.parametrize(("name", "kind", "needed"), VENDOR_SECTIONS)
def test_sections_without_bytes_are_not_taken_for_a_truncated_file(made, name, kind, needed):
    """NVIDIA's own types may state a size and have no bytes, as shared memory does; what is read must be there."""
    raw = made.read_bytes()
    table, size, count, names = struct.unpack_from("<Q10xHHH", raw, 40)
    head = SECTION.unpack_from(raw, table + size * names)
    texts = raw[head[4] : head[4] + head[5]] + name.encode() + b"\0"
    heads = [list(SECTION.unpack_from(raw, table + size * j)) for j in range(count)]
    heads[names][4:6] = [len(raw), len(texts)]
    heads.append([head[5], kind, 0, 0, len(raw) + (1 << 20), 1 << 20, 0, 0, 1, 0])
    changed = bytearray(raw + texts + b"".join(SECTION.pack(*each) for each in heads))
    struct.pack_into("<Q", changed, 40, len(raw) + len(texts))
    struct.pack_into("<H", changed, 60, count + 1)
    if needed:
        with pytest.raises(DataError, match="ends outside the file"):
            cubin(bytes(changed))
    else:
        assert [f.name for f in cubin(bytes(changed)).functions] == [f.name for f in cubin(raw).functions]


def test_a_folder_that_vanishes_during_the_walk_does_not_end_it(made, tmp_path, monkeypatch):
    """As in a compiler's cache, where another process removes folders."""
    for name in ("a", "gone", "z"):
        (tmp_path / name).mkdir()
        shutil.copy(made, tmp_path / name / "k.cubin")
    scan = os.scandir

    def vanishing(path):
        if str(path).endswith("gone"):
            shutil.rmtree(path, ignore_errors=True)
        return scan(path)

    monkeypatch.setattr(os, "scandir", vanishing)
    assert [path.parent.name for path in code_files(tmp_path)] == ["a", "z"]


def test_more_than_any_file_has_is_refused():
    many = fatbin(*[entry(b"", kind=2)] * 100_001)
    with pytest.raises(DataError, match="more than 100000 entries"):
        entries(many)


@given(st.binary(max_size=400), st.integers(0, 2000))
def test_lz4_of_anything_ends(data, size):
    """What is stated comes out, or a refusal; and whatever is packed comes out as it was."""
    with contextlib.suppress(DataError):
        assert len(of_lz4(data, size)) == size
    assert of_lz4(fatbins.packed_lz4(data * 5), 5 * len(data)) == data * 5


def outcome(raw):
    """Whether a file is read."""
    try:
        for each in entries(raw):
            if isinstance(each, Entry) and each.kind == "cubin":
                cubin(each.unpacked())
    except DataError:
        return False
    return True


@pytest.mark.parametrize("many", [300, pytest.param(10_000, marks=pytest.mark.full)])
def test_a_damaged_file_is_read_or_refused(made, many):
    """Cubins and fatbins with bytes changed, cut, doubled or exchanged, and header fields set to anything."""
    rng = random.Random(25)
    raw = made.read_bytes()
    whole = fatbin(entry(raw), compressed(raw, "lz4"), compressed(raw, "zstd"))
    came = [outcome(damage.damaged_bytes(raw, rng)) for _ in range(many)]
    for _ in range(many):
        at = rng.randrange(len(whole))
        field = rng.choice((b"\0", b"\xff", b"\xff" * 8, rng.randbytes(4)))
        came.append(outcome(whole[:at] + field + whole[at + len(field) :]))
    assert {True, False} == set(came)


@pytest.mark.parametrize("seed", range(8))
def test_damaged_code_is_answered(made, tmp_path, seed):
    """The whole command: code that nvdisasm does not take is counted, the rest is read."""
    path = tmp_path / "k.cubin"
    path.write_bytes(damage.damaged_bytes(made.read_bytes(), random.Random(seed)))
    done = CliRunner().invoke(main, ["read", str(path)])
    assert done.exit_code in (0, 4), (done.output, done.exception)
    assert "internal error" not in done.output


@pytest.mark.full
def test_words_that_are_no_code_are_counted(made):
    (function, *_) = cubin(made.read_bytes()).functions
    code = bytearray(function.code)
    code[32:48], code[80:96] = b"\xff" * 16, bytes(16)
    before, after = (matrix_code.find(TOOLS, "sm_80", [bytes(c)])[0] for c in (function.code, code))
    assert after.unread == 2
    assert before.unread == 0
