"""The cubin is what was asked for: its arch, its kernels, and names that agree; else it is refused."""

import struct
import subprocess
import sys

import pytest
from click.testing import CliRunner
from machine_code import MEMORY, TOOLS, needs_tools
from wrapped_tools import exchanging, run, tool

from tcprobe.cli import main
from tcprobe.errors import EnvironmentUnfitError
from tcprobe.isa.arch import arch
from tcprobe.probes.ptx import module
from tcprobe.sass.elf import contents

pytestmark = [needs_tools, pytest.mark.skipif(sys.platform == "win32", reason="makes shell scripts")]


@pytest.mark.full
def test_a_ptxas_that_assembles_for_another_arch_is_refused(tmp_path):
    turn = 'for a in "$@"; do [ "$a" = sm_80 ] && a=sm_86; set -- "$@" "$a"; shift; done'
    folder = tool(tmp_path / "tools" / "ptxas", f'{turn}\nexec {TOOLS.ptxas} "$@"')
    done = run(tmp_path / "r", folder)
    assert done.exit_code == 3, done.output
    assert "ptxas was asked for sm_80 and assembled for sm_86" in done.stderr
    assert not (tmp_path / "r").exists()
    lowered = CliRunner().invoke(main, ["lower", "mma.m16n8k16.*.f16", "--arch", "sm_80", "--cuda", str(folder)])
    assert (lowered.exit_code, "assembled for sm_86" in lowered.stderr) == (3, True)


def test_a_ptxas_that_leaves_kernels_out_is_refused(tmp_path):
    folder = exchanging(tmp_path / "tools", "wmma_load_a_row_m8n8k4_f64", "no_such_kernel")
    done = run(tmp_path / "r", folder, "wmma.m8n8k4.*")
    assert done.exit_code == 3, done.output
    assert "wmma_load_a_row_m8n8k4_f64" in done.stderr


@pytest.fixture
def cubin(tmp_path):
    kernels = {launch.kernel.name: launch.kernel for e in MEMORY[:6] for launch in e.launches()}
    (tmp_path / "k.ptx").write_text(module(list(kernels.values()), arch("sm_80")))
    call = [TOOLS.ptxas, "-arch", "sm_80", str(tmp_path / "k.ptx"), "-o", str(tmp_path / "k.cubin")]
    subprocess.run(call, check=True)
    assert contents(tmp_path / "k.cubin")[0] == "sm_80"
    return tmp_path / "k.cubin"


def sections(raw):
    """(offset of the header, name) of every section of an ELF file."""
    table, size, count, names = struct.unpack_from("<Q10xHHH", raw, 40)
    heads = [table + size * j for j in range(count)]
    first = struct.unpack_from("<Q", raw, heads[names] + 24)[0]
    offsets = [first + struct.unpack_from("<I", raw, head)[0] for head in heads]
    return [(head, raw[o : raw.index(0, o)].decode()) for head, o in zip(heads, offsets, strict=True)]


def test_sections_whose_names_are_exchanged_are_noticed(cubin):
    raw = bytearray(cubin.read_bytes())
    first, second = [head for head, name in sections(raw) if name.startswith(".text.")][:2]
    raw[first : first + 4], raw[second : second + 4] = raw[second : second + 4], raw[first : first + 4]
    cubin.write_bytes(raw)
    with pytest.raises(EnvironmentUnfitError, match="belongs to symbol"):
        contents(cubin)


@pytest.mark.full
def test_a_damaged_cubin_is_refused_or_read(cubin):
    """Every byte of the header and of the first section headers set to two values, and the file cut."""
    raw = cubin.read_bytes()
    table = struct.unpack_from("<Q", raw, 40)[0]
    refused = 0
    changed = [(at, byte) for at in (*range(64), *range(table, table + 320)) for byte in (0, 0xFF)]
    for damaged in [raw[:at] + bytes([b]) + raw[at + 1 :] for at, b in changed] + [raw[:n] for n in range(0, 4096, 64)]:
        cubin.write_bytes(damaged)
        try:
            contents(cubin)
        except EnvironmentUnfitError:
            refused += 1
    assert refused > 100


def test_a_cubin_of_an_unknown_kind_is_refused(cubin):
    raw = bytearray(cubin.read_bytes())
    raw[8] = 9
    cubin.write_bytes(raw)
    with pytest.raises(EnvironmentUnfitError, match="ABI version 9, which"):
        contents(cubin)
