"""`predict`: the way through loops, what limits a round, ranges, refusals, and hostile files."""

import json
import re
import shutil
from fnmatch import fnmatchcase
from pathlib import Path

import emulated_bench
import jsonschema
import pytest
from click.testing import CliRunner
from conftest import gpu_missing
from hypothesis import given
from hypothesis import strategies as st

from tcprobe.ask.prices import prices
from tcprobe.cli import main
from tcprobe.kernel.compiled import compiled
from tcprobe.loops import costs, simulate
from tcprobe.loops.costs import PIPES
from tcprobe.loops.loop import loop_at, main_loop, main_loops
from tcprobe.loops.predict import _prices
from tcprobe.loops.work import BARRIER, FAR_COPY, MEMORY, Work
from tcprobe.sass import toolchain
from tcprobe.sass.code_files import CodeFiles
from tcprobe.sass.decode import decode
from tcprobe.sass.disassemble import programs
from tcprobe.sass.kernel import Instruction
from tcprobe.store.choose import default

SCHEMA = Path(__file__).parent.parent / "docs" / "schema.json"
GEMM = "kernel gemm --arch sm_90 --type bf16 --multiply mma"
ONE = simulate.ORDERS[:1]


def kernel(folder, text):
    """The function of PTX, as machine code."""
    path = folder / "k.ptx"
    path.write_text(text)
    tools = toolchain.find(None)
    (file,) = CodeFiles(tools).read(path)
    (made,) = programs(tools, file.cubin.arch, file.cubin.functions)
    return made


@pytest.fixture(scope="module")
def known():
    """What is known of sm_90, read once."""
    return costs.prices("sm_90", default())


def looped(body, registers=".reg .f32 %f<40>;", threads=32):
    """PTX of a loop of its own count around a body."""
    stored = "\n".join(f"st.global.f32 [%out+{4 * j}], %f{j};" for j in range(40))
    filled = "\n".join(f"cvt.rn.f32.u32 %f{j}, %n;\nadd.f32 %f{j}, %f{j}, 0f4{j:02x}00000;" for j in range(40))
    return f"""
.version 8.0
.target sm_90
.address_size 64
.visible .entry looped(.param .u64 out, .param .u32 count) .reqntid {threads} {{
{registers} .reg .b64 %out; .reg .b32 %n; .reg .pred %p;
ld.param.u64 %out, [out];
ld.param.u32 %n, [count];
{filled}
LOOP:
.pragma "nounroll";
{body}
sub.u32 %n, %n, 1;
setp.ne.u32 %p, %n, 0;
@%p bra LOOP;
{stored}
ret;
}}
"""


def answers(folder, text, *words, code=0):
    """The objects that `predict --json` prints."""
    (folder / "k.ptx").write_text(text)
    done = CliRunner().invoke(main, ["predict", str(folder / "k.ptx"), "--json", *words])
    assert done.exit_code == code, done.output
    return [json.loads(line) for line in done.stdout.splitlines()]


CHAINS = "\n".join(f"fma.rn.f32 %f{j}, %f{j}, %f{(j + 7) % 40}, %f{(j + 3) % 40};" for j in range(32))


def test_a_loop_of_one_pipe_takes_what_the_pipe_needs(tmp_path):
    (found,) = answers(tmp_path, looped(CHAINS))
    jsonschema.validate(found, json.loads(SCHEMA.read_text())["$defs"]["predict"])
    assert found["busy"]["fma"] == 32
    assert found["instructions"] == (found["last"] - found["first"]) // 16 + 1
    assert 32 <= found["cycles"]["least"] <= found["cycles"]["most"] <= 80


def test_warps_share_schedulers_by_four(tmp_path):
    one, four, eight, sixteen = (
        answers(tmp_path, looped(CHAINS), "--warps", n)[0]["cycles"]["least"] for n in ("1", "4", "8", "16")
    )
    assert one == four <= eight < sixteen


def test_of_the_kernel_that_multiplies_the_tensor_cores_are_said(tmp_path):
    (found,) = answers(tmp_path, emulated_bench.PTX)
    assert found["tensor"] == found["busy"]["tensor"] == 6
    assert found["warps"] == 2
    assert {"HMMA.16816.F32", "LDSM.16.M88.4"} <= {part["opcode"] for part in found["opcodes"]}


@pytest.mark.parametrize(("ptx", "opcode"), [("ex2.approx.ftz.f32", "MUFU.EX2"), ("rcp.approx.ftz.f32", "MUFU.RCP")])
def test_an_opcode_without_a_price_is_refused_by_its_name(tmp_path, monkeypatch, ptx, opcode):
    """Whether its price would be measured, or stated."""
    measured, stated = costs.published.price_of, costs.opcodes.stated
    monkeypatch.setattr(costs.opcodes, "stated", lambda o: None if o.startswith("MUFU") else stated(o))
    monkeypatch.setattr(costs.published, "price_of", lambda o, found: None if o == opcode else measured(o, found))
    _prices.cache_clear()
    (found,) = answers(tmp_path, looped(f"{ptx} %f0, %f0;"), code=1)
    assert found["cycles"] is None
    assert opcode in found["refused"]


def test_what_is_measured_of_an_opcode_counts_and_is_stated_nowhere(known):
    """Pipe, interval and latency of each finding that names a pipe.

    But memory behind L1 decides what requests of it take, and `simulate` has rules of its own for waits.
    """
    found = prices("sm_90", default())
    ruled = re.compile(r"(LDG|STG|RED|ATOMG|LDGSTS|BAR|FENCE|LDGDEPBAR|instruction-cache|register-ports)\b")
    for price in (
        price for id_, price in found.items() if price.pipe not in ("other", "issue") and not ruled.match(id_)
    ):
        own = known._find(next(iter(price.body.opcodes)))
        assert own.pipe == costs.SAME.get(price.pipe, price.pipe), price
        assert own.cycles == (costs.REQUEST if own.pipe == "lsu" else round(4 * price.interval.cycles)), price
        latency = max((cycles for cycles in price.latency.values() if cycles), default=own.latency)
        assert own.latency == round(latency) or (price.body.at_most and own.latency < latency), price
    whole = [
        price.body for price in found.values() if price.pipe not in ("other", "issue") and any(price.latency.values())
    ]
    covers = {*known.measured, *(pattern for body in whole for pattern in body.covers)}
    for line in (row.opcode for row in costs.opcodes.rows() if row.pipe):
        texts = {line.removesuffix(".*").removesuffix("*"), f"{line.removesuffix('*').removesuffix('.')}.X"}
        assert not all(any(fnmatchcase(text, cover) for cover in covers) for text in texts), line


PRICED = """
ATOMG.E.ADD.STRONG.GPU ATOMS.CAS.64 ATOMS.ADD BMSK CS2R.32 DSETP.LT.AND ELECT F2I.F64.TRUNC FCHK FRND.F64
HFMA2.MMA HFMA2.MMA.BF16_V2 IMAD.HI.U32 LDC.64 LDL LDL.64 LDL.128 LDL.U8 LDL.LU.64 MEMBAR.SC.GPU MOV NOP P2R
R2P R2UR RED.E.ADD.STRONG.GPU REDG.E.ADD.STRONG.GPU S2R S2UR SGXT SYNCS.ARRIVE.TRANS64
SYNCS.PHASECHK.TRANS64.TRYWAIT ULDC.64 UMOV VOTEU.ANY WARPSYNC.ALL
"""


@pytest.mark.parametrize("opcode", PRICED.split())
def test_what_had_a_price_keeps_one(opcode, known):
    """Opcodes beside the measured ones: a pattern of a finding may not take away what is stated."""
    price = known._find(opcode)
    assert price is not None
    assert price.pipe in PIPES
    assert price.cycles > 0
    assert price.latency > 0


def test_a_parameter_takes_longer_than_an_array_of_constants(known):
    parameter, array = (
        known.of(Instruction(0, decode(text), "LDC")) for text in ("LDC.64 R2, c[0x0][0x238]", "LDC.64 R2, c[0x3][R4]")
    )
    assert (parameter.pipe, parameter.cycles) == (array.pipe, array.cycles) == ("adu", 8)
    assert parameter.latency > array.latency == 28


def test_constants_pass_their_own_pipe_and_the_queue():
    """As measured: 8 cycles of a scheduler each, and beside stores the sum of what both take of the queue."""
    constant = Work(
        "LDC", 1, 0, -1, (), False, kind=MEMORY, pipe=PIPES.index("adu"), cycles=8, latency=28, issue_cycles=4
    )
    store = Work(
        "STS", 1, -1, -1, (), False, kind=MEMORY, pipe=PIPES.index("lsu"), cycles=4, issue_cycles=4, wavefronts=1
    )
    (alone,) = simulate.cycles([(*[constant] * 16, BACK)] * 8, ONE)
    (beside,) = simulate.cycles([(*[constant, store, store] * 16, BACK)] * 8, ONE)
    assert alone == pytest.approx(2 * 16 * 8, abs=16)
    assert beside == pytest.approx(2 * (16 * 4 + 32 * 4), abs=40)


def test_an_arch_without_prices_is_refused(tmp_path):
    (found,) = answers(tmp_path, looped(CHAINS).replace("sm_90", "sm_80"), code=1)
    assert found["cycles"] is None
    assert "sm_80" in found["refused"]


def test_inner_loops_are_followed_as_often_as_they_count(tmp_path):
    inner = """mov.u32 %i, 0;
INNER:
.pragma "nounroll";
ex2.approx.ftz.f32 %f0, %f0;
add.u32 %i, %i, 1;
setp.lt.u32 %q, %i, 5;
@%q bra INNER;"""
    made = kernel(tmp_path, looped(inner, ".reg .f32 %f<40>; .reg .b32 %i; .reg .pred %q;"))
    outer = max(main_loops(made)[0], loop_at(made, main_loops(made)[0].first), key=lambda each: len(each.blocks))
    whole = next(blocks for blocks in made.loops if outer.blocks < blocks)
    path = type(outer)(made, whole).path()
    assert sum(step.instruction.opcode == "MUFU.EX2" for step in path) == 5


@pytest.mark.parametrize("words", [["--loop", "here"], ["--taken", "x"], ["--warps", "0"], ["--warps", "33"]])
def test_what_is_no_address_and_no_number_is_a_usage_error(tmp_path, words):
    (tmp_path / "k.ptx").write_text(emulated_bench.PTX)
    done = CliRunner().invoke(main, ["predict", str(tmp_path / "k.ptx"), *words])
    assert (done.exit_code, done.stdout) == (2, "")


@pytest.mark.parametrize("raw", [b"", b"\x7fELF" + bytes(60), b"no code at all"])
def test_hostile_files_are_not_trusted(tmp_path, raw):
    (tmp_path / "k.cubin").write_bytes(raw)
    done = CliRunner().invoke(main, ["predict", str(tmp_path / "k.cubin")])
    assert done.exit_code == 4
    assert done.stderr.count("\n") <= 2
    assert "Traceback" not in done.output


def measured(folder, *words):
    """What the command gives with --measure for the emulated loop."""
    loop, launch = emulated_bench.written(folder)
    return CliRunner().invoke(main, ["predict", str(loop), "--measure", "--launch", str(launch), *words])


def test_the_clock_beside_it_is_that_of_the_emulated_gpu(tmp_path, monkeypatch):
    emulated_bench.shows(monkeypatch)
    found = json.loads(measured(tmp_path, "--json").stdout)
    jsonschema.validate(found, json.loads(SCHEMA.read_text())["$defs"]["predict"])
    clock, bench = found["measured"], emulated_bench
    held = bench.SMS * bench.AT_ONCE
    live = [part["opcode"].split(".")[0] for part in found["opcodes"] if part["opcode"] != "LDS"]  # which is off
    assert clock["block"] == sum(bench.COST.get(stem, bench.OTHER) for stem in live)
    assert clock["grid"] == clock["block"] * bench.SLOWER
    assert (clock["ratio"], clock["waves"]) == (bench.SLOWER, -(-bench.BLOCKS // held))
    assert (clock["mhz"]["block"], clock["mhz"]["grid"]) == bench.MHZ
    assert [clock[name] for name in ("blocks", "sms", "at_once", "rounds", "threads")] == [
        bench.BLOCKS,
        bench.SMS,
        bench.AT_ONCE,
        bench.ITERATIONS,
        64,
    ]
    assert found["warps"] == 2


def test_a_grid_that_faults_costs_its_own_line(tmp_path, monkeypatch):
    emulated_bench.shows(monkeypatch, grid="faults")
    done = measured(tmp_path)
    assert done.exit_code == 0
    assert "  the grid: loop itself faults." in done.stdout.splitlines()


@pytest.mark.skipif(not gpu_missing(), reason="there is a GPU")
def test_without_a_gpu_nothing_is_measured(tmp_path):
    done = measured(tmp_path)
    assert (done.exit_code, done.stdout) == (3, "")
    assert done.stderr.startswith("Error: ")


@pytest.mark.gpu
def test_the_clock_of_this_gpu(tmp_path):
    found = json.loads(measured(tmp_path, "--json").stdout)["measured"]
    assert 0 < found["block"] < 10_000
    assert found["grid"] > 0
    assert 200 < found["mhz"]["block"] < 4000


def test_measuring_and_a_launch_file_belong_together(tmp_path):
    loop, launch = emulated_bench.written(tmp_path)
    for words, said in ((["--measure"], "--measure needs --launch"), (["--launch", str(launch)], "is for --measure")):
        done = CliRunner().invoke(main, ["predict", str(loop), *words])
        assert (done.exit_code, said in done.stderr) == (2, True), done.stderr


def explained(*words):
    """The loop that `kernel gemm --explain` gives."""
    done = CliRunner().invoke(main, ["kernel", "gemm", "--type", "bf16", *words, "--explain", "--json"])
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)["loop"]


@pytest.mark.skipif(not shutil.which("nvcc"), reason="no nvcc here")
def test_a_kernel_says_what_its_main_loop_takes(tmp_path):
    """As `predict` of the machine code that nvcc makes; a round of 128x128x64 in 4 warps is 128 multiplies each."""
    found = explained("--arch", "sm_90", "--multiply", "mma")["predicted"]
    path = tmp_path / "gemm.cu"
    assert CliRunner().invoke(main, [*GEMM.split(), "-o", str(path)]).exit_code == 0
    (tmp_path / "gemm.cubin").write_bytes(compiled(path.read_text(), "sm_90", "cubin"))
    done = CliRunner().invoke(main, ["predict", str(tmp_path / "gemm.cubin"), "--json"])
    assert found in [json.loads(line) for line in done.stdout.splitlines()]
    assert (found["tensor"], found["warps"]) == (128 * 6, 4)
    done = CliRunner().invoke(main, [*GEMM.split(), "--explain"])
    assert f"{found['cycles']['least']:g} to {found['cycles']['most']:g} cycles a round" in done.stdout
    shared = explained("--arch", "sm_90")["predicted"]  # its warps share the work
    assert 0.98 * shared["tensor"] <= shared["cycles"]["least"] <= 1.2 * shared["tensor"]


def test_a_kernel_whose_loop_is_not_predicted_says_why(monkeypatch):
    assert explained("--arch", "sm_80") == {
        "predicted": None,
        "reason": "opcodes have measured prices on sm_90, not on sm_80",
    }
    monkeypatch.setattr(toolchain, "_found", lambda *_: iter(()))
    assert "nvcc was not found" in explained("--arch", "sm_90", "--multiply", "mma")["reason"]


def test_the_time_line_fits_a_terminal_and_is_drawn(tmp_path):
    (tmp_path / "k.ptx").write_text(emulated_bench.PTX)
    done = CliRunner().invoke(main, ["predict", str(tmp_path / "k.ptx"), "--svg", str(tmp_path / "round.svg")])
    assert done.exit_code == 0, done.output
    lines = done.stdout.splitlines()
    drawn = [line for line in lines if line.rstrip().endswith("|")]
    assert 0 < len(drawn) < 20
    assert len({len(line) for line in drawn}) == 1
    svg = (tmp_path / "round.svg").read_text()
    assert svg.startswith("<svg")
    assert svg.count("<title>HMMA.16816.F32,") == 2


def plain(pipe="alu", cycles=2.0, stall=1, **more):
    """An instruction of a pipe."""
    return Work("X", stall, -1, -1, (), False, pipe=PIPES.index(pipe), cycles=cycles, latency=cycles, **more)


BACK = Work("BRA", 5, -1, -1, (), True, pipe=PIPES.index("cbu"))


@given(
    st.lists(st.sampled_from(["alu", "fma", "xu", "fmaheavy"]), min_size=1, max_size=20),
    st.integers(1, 8),
)
def test_no_round_is_shorter_than_what_its_pipes_and_stalls_need(pipes, warps):
    works = (*(plain(pipe, {"fma": 1.0, "xu": 8.0}.get(pipe, 2.0)) for pipe in pipes), BACK)
    (taken,) = simulate.cycles([works] * warps, ONE)
    used = simulate.busy([works] * warps)
    assert taken >= max(used.values()) - 1
    assert taken >= len(pipes) + simulate.TAKEN - 1


@given(st.integers(1, 6), st.integers(1, 4), st.integers(1, 8))
def test_requests_take_turns_at_shared_memory(requests, wavefronts, warps):
    load = Work(
        "LDS", 1, 0, -1, (), False, kind=MEMORY, pipe=PIPES.index("lsu"), latency=23, issue_cycles=4, read_release=9
    )
    works = (*[load._replace(wavefronts=wavefronts)] * requests, BACK._replace(waits=(0,)))
    (taken,) = simulate.cycles([works] * warps, ONE)
    assert taken >= warps * requests * wavefronts - 1


@pytest.mark.parametrize("warps", [5, 6, 7])
def test_a_block_takes_as_long_as_the_schedulers_with_more_warps(warps):
    """No barrier holds these warps together: those of fuller schedulers take what a block of 8 does."""
    works = (*[plain()] * 20, BACK)
    (found,), (eight,), (four,) = (simulate.cycles([works] * n, ONE) for n in (warps, 8, 4))
    assert found == pytest.approx(eight, rel=0.01)
    assert four < 0.7 * found


def test_warps_wait_for_the_last_one_at_a_barrier():
    barrier = Work("BAR.SYNC", 1, -1, -1, (), False, kind=BARRIER, pipe=PIPES.index("adu"))
    slow, fast = ((*[plain()] * n, barrier, BACK) for n in (40, 1))
    (together,) = simulate.cycles([slow, fast], ONE)
    (alone,) = simulate.cycles([slow], ONE)
    assert together >= alone - 1
    (apart,) = simulate.cycles([fast], ONE)
    assert together > apart


def test_lines_that_a_block_reads_for_the_first_time_are_far(tmp_path):
    """Copies wait longer in a loop that moves their address than in one that reads the same lines again; that it moves
    the place in shared memory does not count.
    """
    declared = ".reg .f32 %f<40>; .reg .b32 %s; .shared .align 16 .b8 tile[1024];"
    copy = "mov.u32 %s, tile;\ncp.async.ca.shared.global [%s], [%out], 16;\ncp.async.wait_all;"
    moved, turned = f"{copy}\nadd.u64 %out, %out, 4096;", copy.replace("mov.u32 %s, tile", "and.b32 %s, %n, 1008")
    (same,), (on,), (turning,) = (answers(tmp_path, looped(text, declared)) for text in (copy, moved, turned))
    assert on["cycles"]["least"] - same["cycles"]["most"] == pytest.approx(FAR_COPY, abs=16)
    assert turning["cycles"]["most"] - same["cycles"]["most"] < FAR_COPY / 2


@given(st.lists(st.tuples(st.integers(0, 1 << 17), st.floats(0.1, 300)), min_size=1, max_size=40))
def test_nothing_is_done_twice_in_a_cycle_however_far_behind_it_is(asked):
    """Each gets its cycles, none of them before it came, and no cycle is given twice."""
    server, before = simulate._Server(), 0
    for begin, cycles in asked:
        first, end = server.book(begin, cycles)
        taken = sum(server.taken) - before
        before += taken
        assert int(cycles) <= taken <= cycles + 1
        assert begin <= first < end
        assert end - first >= taken


def test_the_loop_that_multiplies_is_the_main_one(tmp_path, known):
    made = kernel(tmp_path, emulated_bench.PTX)
    assert main_loop(made).multiplies == 1
    assert all(known.of(step.instruction).cycles for step in main_loop(made).path())
