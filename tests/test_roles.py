"""Loops of warps that share the work: rings of mbarriers, named barriers, what a model of them may not say."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tcprobe.loops import roles, simulate
from tcprobe.loops.costs import BYTES_A_CYCLE, PIPES
from tcprobe.loops.loop import LoopError, main_loop
from tcprobe.loops.predict import predict
from tcprobe.loops.roles import Copies, Meeting, Ring
from tcprobe.loops.work import ARRIVE, BARRIER, FREES, GROUP, LANDS, Work
from tcprobe.sass import toolchain
from tcprobe.sass.code_files import CodeFiles
from tcprobe.sass.disassemble import programs

STAGE = 16384  # bytes
CONSUMERS = range(4, 12)
ONE = simulate.ORDERS[:1]

# warps 0 to 3 copy, 4 to 11 multiply; stages are filled by bulk copies and freed by a thread of each warpgroup
SHARED_WORK = """
.version 8.0
.target sm_90a
.address_size 64
.extern .shared .align 1024 .b8 tiles[];
.visible .entry shared_work(.param .u64 in, .param .u64 out, .param .u32 count) .reqntid 384 {{
.reg .b64 %in, %out, %desc, %to; .reg .b32 %t, %n, %k, %s, %at, %full, %empty, %phase, %own, %other;
.reg .f32 %d<{sums}>;
.reg .pred %p, %q, %one;
.shared .align 8 .b64 bars[{twice}];
ld.param.u64 %in, [in];
ld.param.u64 %out, [out];
ld.param.u32 %n, [count];
mov.u32 %t, %tid.x;
setp.ne.u32 %p, %t, 0;
@%p bra READY;
{inits}
READY:
bar.sync 0;
mov.u32 %k, 0;
setp.ge.u32 %p, %t, 128;
@%p bra MULTIPLY;
setp.ne.u32 %p, %t, 0;
@%p bra END;
COPY:
{stage}
xor.b32 %phase, %phase, 1;
FREE: mbarrier.try_wait.parity.shared.b64 %q, [%empty], %phase;
@!%q bra FREE;
mbarrier.arrive.expect_tx.shared.b64 _, [%full], {bytes};
cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%at], [%in], {bytes}, [%full];
add.u32 %k, %k, 1;
setp.ne.u32 %p, %k, %n;
@%p bra COPY;
bra END;
MULTIPLY:
{zeros}
and.b32 %s, %t, 127;
setp.eq.u32 %one, %s, 0;
shr.u32 %own, %t, 7;
xor.b32 %other, %own, 3;
LOOP:
{stage}
LANDED: mbarrier.try_wait.parity.shared.b64 %q, [%full], %phase;
@!%q bra LANDED;
{enter}
shr.u32 %at, %at, 4;
cvt.u64.u32 %desc, %at;
or.b64 %desc, %desc, 0x4000004000010000;
wgmma.fence.sync.aligned;
wgmma.mma_async.sync.aligned.m64n{n}k16.f32.bf16.bf16 {{{list}}}, %desc, %desc, 1, 1, 1, 0, 0;
wgmma.commit_group.sync.aligned;
{leave}
wgmma.wait_group.sync.aligned {behind};
{freed}
@%one mbarrier.arrive.shared.b64 _, [%empty];
add.u32 %k, %k, 1;
setp.ne.u32 %p, %k, %n;
@%p bra LOOP;
wgmma.wait_group.sync.aligned 0;
{stores}
END:
ret;
}}
"""


def text(stages, behind, turns=False, n=64):
    """The kernel: `behind` groups of multiplies run on while a stage is freed, that of the iteration before if 1."""
    of = f"and.b32 %s, %k, {stages - 1};\nshr.u32 %phase, %k, {stages.bit_length() - 1};\nand.b32 %phase, %phase, 1;\n"
    of += f"mov.u32 %at, tiles;\nmad.lo.u32 %at, %s, {STAGE}, %at;\n"
    of += f"mov.u32 %full, bars;\nmad.lo.u32 %full, %s, 8, %full;\nadd.u32 %empty, %full, {8 * stages};"
    inits = [f"mbarrier.init.shared.b64 [bars+{8 * j}], {1 if j < stages else 2};" for j in range(2 * stages)]
    before = f"add.u32 %s, %k, {stages - 1};\nand.b32 %s, %s, {stages - 1};\nmov.u32 %empty, bars;\n"
    before += f"mad.lo.u32 %empty, %s, 8, %empty;\nadd.u32 %empty, %empty, {8 * stages};"
    return SHARED_WORK.format(
        sums=n // 2,
        n=n,
        twice=2 * stages,
        bytes=STAGE,
        inits="\n".join(inits),
        stage=of,
        zeros="\n".join(f"mov.f32 %d{j}, 0f00000000;" for j in range(n // 2)),
        list=", ".join(f"%d{j}" for j in range(n // 2)),
        behind=behind,
        freed=before if behind else "",
        stores="\n".join(f"st.global.f32 [%out+{4 * j}], %d{j};" for j in range(n // 2)),
        enter="bar.sync %own, 256;" if turns else "",
        leave="bar.arrive %other, 256;" if turns else "",
    )


def loop_of(folder, *shape, **more):
    """The loop that multiplies."""
    path = folder / "k.ptx"
    path.write_text(text(*shape, **more))
    tools = toolchain.find(None)
    (compiled,) = CodeFiles(tools).read(path)
    (kernel,) = programs(tools, compiled.cubin.arch, compiled.cubin.functions)
    return main_loop(kernel)


@pytest.mark.parametrize("stages", [2, 4, 8])
@pytest.mark.parametrize("behind", [0, 1])
def test_a_ring_has_its_stages_bytes_and_what_is_freed(tmp_path, stages, behind):
    """The multiplies of a kernel say when a stage is no longer read: after 0 or 1 more groups."""
    loop = loop_of(tmp_path, stages, behind)
    assert roles.warps_of(loop) == tuple(CONSUMERS)
    assert roles.joined(loop.kernel).rings == (Ring(stages, STAGE),)
    assert [*roles.meetings(loop, 4).values()] == [Meeting(0, True), Meeting(0, False, behind)]
    assert [*roles.assumed(loop, 4)] == []


def test_more_stages_are_never_slower_and_nothing_is_faster_than_what_bounds_it(tmp_path):
    taken = [predict(loop_of(tmp_path, stages, 1)) for stages in (2, 4, 8)]
    assert not [each.refused for each in taken if each.refused]
    least, most = zip(*(each.cycles for each in taken), strict=True)
    assert most[0] > most[1] >= least[2]
    assert min(least) >= 0.98 * max(STAGE / BYTES_A_CYCLE, taken[0].tensor)


def test_warps_know_their_named_barriers(tmp_path):
    """Warpgroups that multiply in turn: each waits at its own barrier, and arrives at the other's."""
    loop = loop_of(tmp_path, 4, 1, turns=True)
    named = roles.joined(loop.kernel).named
    barriers = {i.opcode.split(".")[1]: named[i.number] for i in loop.instructions if i.mnemonic == "BAR"}
    first, second = (None,) * 4, (1,) * 4
    assert barriers == {"SYNC": (*first, *second, *(2,) * 4), "ARV": (*first, *(2,) * 4, *second)}
    answer = predict(loop)
    assert answer.refused is None
    assert any("had arrived before the loop" in words for words in answer.assumed)


def step(kind, cycles=4.0, stall=4, **more):
    return Work("X", stall, -1, -1, (), False, kind=kind, pipe=PIPES.index("lsu"), cycles=cycles, latency=20.0, **more)


BACK = Work("BRA", 5, -1, -1, (), True, pipe=PIPES.index("cbu"))


@given(st.integers(1, 6), st.integers(1, 1 << 16), st.integers(0, 500), st.integers(1, 8))
def test_a_stage_lands_no_sooner_than_it_was_freed_and_copied(stages, size, latency, warps):
    works = (step(LANDS)._replace(write=0), step(FREES)._replace(waits=(0,)), BACK)
    copies = Copies((Ring(stages, size),), float(latency), BYTES_A_CYCLE)
    (taken,) = simulate.cycles([works] * warps, ONE, copies=copies)
    trip = simulate.REFILL + latency + size / BYTES_A_CYCLE
    assert taken >= 0.99 * max(size / BYTES_A_CYCLE, trip / stages) - 1
    (at_once,) = simulate.cycles([works] * warps, ONE)
    assert taken >= at_once - 1


def test_warps_that_nobody_lets_go_on_are_an_error():
    """Two groups that wait at their own barriers, and arrive at no other's: opened once, as if before the loop."""
    works = [(step(BARRIER, barrier=number, limit=8), BACK) for number in (1, 2) for _ in range(4)]
    with pytest.raises(LoopError, match="wait at a barrier"):
        simulate.cycles(works, ONE)


def test_groups_that_take_turns_do_what_both_do():
    """Each waits at its own barrier and then arrives at the other's: an iteration is as long as both turns."""
    turns = [
        (
            step(BARRIER, barrier=own, limit=8),
            *[step(GROUP, cycles=50.0, stall=50)] * 4,
            step(ARRIVE, barrier=other, limit=8),
            BACK,
        )
        for own, other in ((1, 2), (2, 1))
        for _ in range(4)
    ]
    (taken,) = simulate.cycles(turns, ONE)
    assert 400 <= taken <= 500
