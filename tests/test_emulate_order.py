"""What orders threads, by PTX's memory model: right kernels without a finding, spoilt twins with one."""

import cProfile
import json
from typing import NamedTuple

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st
from sampling import examples

import tcprobe
from tcprobe.cli import main

HEAD = ".version 8.7\n.target sm_90\n.address_size 64\n"
REGISTERS = """.reg .pred %p<9>; .reg .b32 %r<40>; .reg .b64 %d<20>;
.shared .align 128 .b8 s[4096]; .shared .align 8 .b64 bar[8];
ld.param.u64 %d0, [a]; mov.u32 %r0, %tid.x; mov.u32 %r1, %ctaid.x;
mul.wide.u32 %d1, %r1, 4; add.u64 %d1, %d0, %d1;
"""


def run(body, block=1, grid=2, **more):
    """%d0: 4,096 bytes of zeros, of which counters and flags are the first 256; %d1+256: the block's own word."""
    text = f"{HEAD}.visible .entry k(.param .u64 a) {{\n{REGISTERS}{body}\nret;\n}}\n"
    launch = {"grid": [grid], "block": [block], "arguments": [np.zeros(1024, np.uint32)]}
    options = {key: more.pop(key) for key in ("schedule", "seed", "most") if key in more}
    return tcprobe.emulate(text, launch=launch | more, **options)


WRITE = "add.u32 %r2, %r1, 5; st.global.u32 [%d1+256], %r2;"
READ = "ld.global.u32 %r10, [%d0+256]; ld.global.u32 %r11, [%d0+260]; st.global.u32 [%d0+1024], %r10;"
LAST = "setp.ne.u32 %p1, %r5, {last}; @%p1 bra END;"
GET = "ld.global.u32 %r10, [%d0+256];"
ROLES = "setp.ne.u32 %p1, %r1, 0; @%p1 bra NEXT;"  # block 0 writes, others go on at NEXT
POLL = "POLL{n}: {load} %r5, [{at}]; setp.lt.u32 %p2, %r5, {least}; @%p2 bra POLL{n}; {after}"


def last_block(atom, before="", after="", blocks=2):
    """Each block writes a word and counts; the last one reads them all."""
    return f"{WRITE} {before} {atom} %r5, [%d0], 1; {after} {LAST.format(last=blocks - 1)} {READ} END:"


def flag(store, load, before="", after="", more=""):
    """Block 0 writes and sets a flag; block 1 waits for it and reads."""
    poll = POLL.format(n=0, load=load, at="%d0", least=1, after=after)
    return f"{ROLES} {WRITE} {before} {store} [%d0], 1; {more} bra END; NEXT: {poll} {GET} END:"


def grid_sync(atom, load, before="", after="", reads=True):
    """Every block writes, arrives, waits for all, and reads the others' words."""
    arrive = f"{atom} %r5, [%d0], 1;" if reads else f"{atom} [%d0], 1;"
    poll = POLL.format(n=0, load=load, at="%d0", least=2, after=after)
    return f"{WRITE} {before} {arrive} {poll} {GET} ld.global.u32 %r11, [%d0+260];"


def lock(take, give, before="", after=""):
    """Every block adds to one word under a lock."""
    return f"""TAKE: {take} setp.ne.u32 %p1, %r5, 0; @%p1 bra TAKE; {after} ld.global.u32 %r6, [%d0+256];
    add.u32 %r6, %r6, 1; st.global.u32 [%d0+256], %r6; {before} {give}"""


def ticket(atom, load, store, before="", after=""):
    """Every block takes a number and waits until it is served."""
    return f"""{atom} %r7, [%d0], 1; POLL: {load} %r5, [%d0+4]; setp.ne.u32 %p2, %r5, %r7; @%p2 bra POLL; {after}
    ld.global.u32 %r6, [%d0+256]; add.u32 %r6, %r6, 1; st.global.u32 [%d0+256], %r6; add.u32 %r8, %r7, 1;
    {before} {store} [%d0+4], %r8;"""


def chain(middle, end="ld.acquire.gpu.global.u32", start="st.release.gpu.global.u32", before="", after="", gate=""):
    """Block 0 releases a flag, block 1 hands it on, block 2 reads what block 0 wrote."""
    return f"""{ROLES} {WRITE} {before} {start} [%d0], 1; bra END; NEXT: setp.ne.u32 %p1, %r1, 1; @%p1 bra THIRD;
    {middle} bra END; THIRD: {gate} {POLL.format(n=2, load=end, at="%d0", least=2, after=after)} {GET}
    END:"""


def through(order):
    """The second block of a chain adds 1 once the first has come."""
    return f"{COME} {order} %r5, [%d0], 1;"


COME = POLL.format(n=1, load="ld.relaxed.gpu.global.u32", at="%d0", least=1, after="")
DONE = "st.release.gpu.global.u32 [%d0+4], 1;"
GATE = POLL.format(n=3, load="ld.relaxed.gpu.global.u32", at="%d0+4", least=1, after="")
ACQUIRED = GATE.replace("relaxed", "acquire") + "st.relaxed.gpu.global.u32 [%d0], 2;"
CAS = "atom{order}.global.cas.b32 %r5, [%d0], 0, 1;"
EXCHANGE = "atom{order}.global.exch.b32 %r5, [%d0], 1;"
ADD = "atom{order}.global.add.u32"
LD, ST = "ld{order}.global.u32", "st{order}.global.u32"
WIDE = """setp.ne.u32 %p3, %r0, 0; mul.wide.u32 %d2, %r1, 256; mul.wide.u32 %d3, %r0, 4; add.u64 %d2, %d2, %d3;
add.u64 %d2, %d2, %d0; st.global.u32 [%d2+256], %r0; {each} {bar} @%p3 bra OVER; {before} {atom} %r5, [%d0], 1; {after}
st.shared.u32 [s], %r5; OVER: {again} ld.shared.u32 %r5, [s]; {all} setp.ne.u32 %p1, %r5, 1; @%p1 bra END;
ld.global.u32 %r10, [%d0+256]; ld.global.u32 %r10, [%d0+508];
ld.global.u32 %r11, [%d0+512]; ld.global.u32 %r11, [%d0+764]; END:"""


def wide(atom, before="", after="", each="", all="", bar="bar.sync 0;", again="bar.sync 0;"):  # noqa: A002
    """As the last block of two, of 64 threads each: one thread counts, all read."""
    return WIDE.format(atom=atom, before=before, after=after, each=each, all=all, bar=bar, again=again)


def at(text, order=""):
    return text.format(order=order)


SC, GL, AR = "fence.sc.gpu;", "membar.gl;", "fence.acq_rel.gpu;"
ONE, ACQ, REL, BOTH = ".relaxed.gpu", ".acquire.gpu", ".release.gpu", ".acq_rel.gpu"
# a right kernel, its spoilt twin, and the launch: one fence or order less, and nothing orders a read and a write
TWINS = {
    "last block, acq_rel": (last_block(at(ADD, BOTH)), last_block(at(ADD, ONE)), {}),
    "last block of three, acq_rel": (
        last_block(at(ADD, BOTH), blocks=3), last_block(at(ADD, ACQ), blocks=3), {"grid": 3},
    ),
    "last block of nine": (last_block(at(ADD, BOTH), blocks=9), last_block(at(ADD, REL), blocks=9), {"grid": 9}),
    "last block, release and fence": (
        last_block(at(ADD, REL), after=AR), last_block(at(ADD, REL)), {},
    ),
    "last block, fence and acquire": (
        last_block(at(ADD, ACQ), before=AR), last_block(at(ADD, ACQ)), {},
    ),
    "last block, membar.gl around": (
        last_block("atom.global.add.u32", GL, GL), last_block("atom.global.add.u32", "", GL), {},
    ),
    "last block, fence.sc around": (
        last_block(at(ADD, ONE), SC, SC), last_block(at(ADD, ONE), SC, ""), {},
    ),
    "last block, fence.acq_rel around": (
        last_block(at(ADD, ONE), AR, AR), last_block(at(ADD, ONE), "", ""), {},
    ),
    "last block, one-sided fences": (
        last_block(at(ADD, ONE), "fence.release.gpu;", "fence.acquire.gpu;"),
        last_block(at(ADD, ONE), "fence.acquire.gpu;", "fence.release.gpu;"), {},
    ),
    "last block, system scope": (
        last_block(at(ADD, ".acq_rel.sys")), last_block(at(ADD, ".acq_rel.cta")), {},
    ),
    "last block, inc": (
        last_block("atom.acq_rel.gpu.global.inc.u32"), last_block("atom.acquire.gpu.global.inc.u32"), {},
    ),
    "last block, generic addresses": (
        last_block("atom.acq_rel.gpu.add.u32"), last_block("atom.acq_rel.cta.add.u32"), {},
    ),
    "last block of 64 threads, acq_rel": (wide(at(ADD, BOTH)), wide(at(ADD, ONE)), {"block": 64}),
    "last block of 64 threads, barrier": (wide(at(ADD, BOTH)), wide(at(ADD, BOTH), bar=""), {"block": 64}),
    "last block of 64 threads, second barrier": (
        wide(at(ADD, BOTH)), wide(at(ADD, BOTH), again="bar.warp.sync -1;"), {"block": 64},
    ),
    "last block of 64 threads, membar": (
        wide("atom.global.add.u32", GL, GL), wide("atom.global.add.u32", GL, ""), {"block": 64},
    ),
    "last block of 64 threads, everybody's fences": (
        wide(at(ADD, ONE), each=SC, all=SC), wide(at(ADD, ONE), each=SC), {"block": 64},
    ),
    "last block of 64 threads, everybody's membar": (
        wide(at(ADD, ONE), each=GL, all=GL), wide(at(ADD, ONE), all=GL), {"block": 64},
    ),
    "flag, release and acquire": (flag(at(ST, REL), at(LD, ACQ)), flag(at(ST, ONE), at(LD, ACQ)), {}),
    "flag, acquire taken": (flag(at(ST, REL), at(LD, ACQ)), flag(at(ST, REL), at(LD, ONE)), {}),
    "flag, fences": (flag(at(ST, ONE), at(LD, ONE), AR, AR), flag(at(ST, ONE), at(LD, ONE), AR, ""), {}),
    "flag, volatile": (
        flag(at(ST, ".volatile"), at(LD, ".volatile"), GL, GL),
        flag(at(ST, ".volatile"), at(LD, ".volatile"), "", GL), {},
    ),
    "flag, weak store": (flag(at(ST, REL), at(LD, ACQ)), flag(at(ST), at(LD, ACQ), GL), {}),
    "flag, red.release": (
        flag("red.release.gpu.global.add.u32", at(LD, ACQ)), flag("red.relaxed.gpu.global.add.u32", at(LD, ACQ)), {},
    ),
    "flag, membar and red": (
        flag("red.global.add.u32", at(LD, ACQ), GL), flag("red.global.add.u32", at(LD, ACQ)), {},
    ),
    "flag, fence of the device": (
        flag(at(ST, ONE), at(LD, ONE), AR, AR), flag(at(ST, ONE), at(LD, ONE), "fence.acq_rel.cta;", AR), {},
    ),
    "flag, reader's fence of the device": (
        flag(at(ST, ONE), at(LD, ONE), GL, GL), flag(at(ST, ONE), at(LD, ONE), GL, "membar.cta;"), {},
    ),
    "flag, scope of the store": (
        flag(at(ST, REL), at(LD, ACQ)), flag(at(ST, ".release.cta"), at(LD, ACQ)), {},
    ),
    "flag, scope of the load": (
        flag(at(ST, REL), at(LD, ACQ)), flag(at(ST, REL), at(LD, ".acquire.cta")), {},
    ),
    "flag, set again by its own thread": (  # a release, then a strong write there, is a release pattern
        flag(at(ST, REL), at(LD, ACQ), more="st.relaxed.gpu.global.u32 [%d0], 2;"),
        flag(at(ST, ONE), at(LD, ACQ), more="st.release.gpu.global.u32 [%d0+4], 2;"), {},
    ),
    "flag, two blocks of a cluster": (
        flag(at(ST, ".release.cluster"), at(LD, ".acquire.cluster")),
        flag(at(ST, ".release.cluster"), at(LD, ".relaxed.cluster")), {"cluster": [2]},
    ),
    "flag, a cluster and its neighbour": (
        flag(at(ST, REL), at(LD, ACQ)), flag(at(ST, ".release.cluster"), at(LD, ".acquire.cluster")), {},
    ),
    "grid sync, acq_rel": (grid_sync(at(ADD, BOTH), at(LD, ACQ)), grid_sync(at(ADD, ONE), at(LD, ACQ)), {}),
    "grid sync, release": (grid_sync(at(ADD, REL), at(LD, ACQ)), grid_sync(at(ADD, REL), at(LD, ONE)), {}),
    "grid sync, red.release": (
        grid_sync("red.release.gpu.global.add.u32", at(LD, ACQ), reads=False),
        grid_sync("red.relaxed.gpu.global.add.u32", at(LD, ACQ), reads=False), {},
    ),
    "grid sync, membar, volatile": (
        grid_sync("atom.global.add.u32", at(LD, ".volatile"), GL, GL),
        grid_sync("atom.global.add.u32", at(LD, ".volatile"), GL, ""), {},
    ),
    "lock by exchange": (
        lock(at(EXCHANGE, ACQ), f"{at(ST, REL)} [%d0], 0;"), lock(at(EXCHANGE, ACQ), f"{at(ST, ONE)} [%d0], 0;"), {},
    ),
    "lock by exchange, given by exchange": (
        lock(at(EXCHANGE, BOTH), "atom.acq_rel.gpu.global.exch.b32 %r5, [%d0], 0;"),
        lock(at(EXCHANGE, ONE), "atom.acq_rel.gpu.global.exch.b32 %r5, [%d0], 0;"), {},
    ),
    "lock by cas": (lock(at(CAS, ACQ), f"{at(ST, REL)} [%d0], 0;"), lock(at(CAS, ONE), f"{at(ST, REL)} [%d0], 0;"), {}),
    "lock by cas and fences": (
        lock(at(CAS), "atom.global.exch.b32 %r5, [%d0], 0;", GL, GL),
        lock(at(CAS), "atom.global.exch.b32 %r5, [%d0], 0;", "", GL), {},
    ),
    "lock by cas, of five": (
        lock(at(CAS, ACQ), f"{at(ST, REL)} [%d0], 0;"), lock(at(CAS, ACQ), f"{at(ST, ONE)} [%d0], 0;"), {"grid": 5},
    ),
    "ticket lock": (
        ticket(at(ADD, ONE), at(LD, ACQ), at(ST, REL)), ticket(at(ADD, ONE), at(LD, ONE), at(ST, REL)), {"grid": 3},
    ),
    "ticket lock, fences": (
        ticket(at(ADD, ONE), at(LD, ONE), at(ST, ONE), AR, AR),
        ticket(at(ADD, ONE), at(LD, ONE), at(ST, ONE), "", AR), {"grid": 3},
    ),
    "chain of acq_rel": (chain(through(at(ADD, BOTH))), chain(through(at(ADD, BOTH)), start=at(ST, ONE)), {"grid": 3}),
    "chain through a relaxed read-modify-write": (  # it continues the release sequence; a store does not
        chain(through(at(ADD, ONE)) + DONE, gate=GATE),
        chain(COME + "st.relaxed.gpu.global.u32 [%d0], 2;" + DONE, gate=GATE),
        {"grid": 3},
    ),
    "chain through a release": (  # its own release does not end the sequence
        chain(through(at(ADD, REL))), chain(through(at(ADD, REL)), end=at(LD, ONE)), {"grid": 3},
    ),
    "chain through acquire and release": (
        chain(POLL.format(n=1, load=at(LD, ACQ), at="%d0", least=1, after="") + DONE, gate=ACQUIRED),
        chain(POLL.format(n=1, load=at(LD, ONE), at="%d0", least=1, after="") + DONE, gate=ACQUIRED),
        {"grid": 3},
    ),
    "chain, fences at both ends": (
        chain(through(at(ADD, ONE)), at(LD, ONE), at(ST, ONE), AR, AR),
        chain(through(at(ADD, ONE)), at(LD, ONE), at(ST, ONE), "", AR), {"grid": 3},
    ),
    "chain whose middle has the scope of a block": (
        chain(through(at(ADD, ONE))), chain(through(at(ADD, ".relaxed.cta"))), {"grid": 3},
    ),
}  # fmt: skip
SCHEDULES = [{}, *({"schedule": "random", "seed": seed} for seed in range(3))]


@pytest.mark.sampled(6)
@pytest.mark.parametrize("name", TWINS)
def test_a_kernel_that_the_memory_model_orders_has_no_finding_and_its_spoilt_twin_a_race(name):
    right, spoilt, launch = TWINS[name]
    for schedule in SCHEDULES:
        done = run(right, **launch, **schedule)
        assert (done.findings, done.finished) == ([], True)
    found = [{finding.rule for finding in run(spoilt, **launch, **schedule).findings} for schedule in SCHEDULES]
    assert found[0] == {"race"}
    assert all(rules <= {"race"} for rules in found)


def test_a_reduction_acquires_nothing():
    """PTX ISA, release and acquire patterns: the read of a `red` does not form an acquire pattern."""
    released = f"{ROLES} {WRITE} st.release.gpu.global.u32 [%d0], 1; bra END; NEXT: {GATE.replace('%d0+4', '%d0+8')}"
    body = released.replace("bra END", "st.relaxed.gpu.global.u32 [%d0+8], 1; bra END") + "{} " + GET + " END:"
    assert run(body.format("atom.acquire.gpu.global.add.u32 %r5, [%d0], 1;")).findings == []
    assert run(body.format("atom.relaxed.gpu.global.add.u32 %r5, [%d0], 1; fence.acq_rel.gpu;")).findings == []
    (found,) = run(body.format("red.global.add.u32 [%d0], 1; fence.acq_rel.gpu;")).findings
    assert found.rule == "race"


class Event(NamedTuple):
    """One statement of an actor: `st`, `ld`, `atom`, `red` of one of two places, or `fence`, with order and scope."""

    actor: int
    opcode: str
    place: int
    order: str
    scope: str

    @property
    def text(self):
        operands = {"st": "[%d0+{}], 1", "ld": "%r5, [%d0+{}]", "atom": "%r5, [%d0+{}], 1", "red": "[%d0+{}], 1"}
        if self.opcode == "fence":
            return f"fence.{self.order}.{self.scope};"
        kind = ".global.add.u32" if self.opcode in ("atom", "red") else ".global.u32"
        return f"{self.opcode}.{self.order}.{self.scope}{kind} {operands[self.opcode].format(4 * self.place)};"

    @property
    def writes(self):
        return self.opcode in ("st", "atom", "red")

    @property
    def reads(self):
        return self.opcode in ("ld", "atom", "red")

    @property
    def releases(self):
        return self.order in ("release", "acq_rel")

    @property
    def acquires(self):
        return self.order in ("acquire", "acq_rel")

    def meets(self, other):
        """Morally strong, of blocks each in a cluster of its own."""
        return self.actor == other.actor or {self.scope, other.scope} <= {"gpu", "sys"}


def ordered_by_the_model(events):
    """PTX ISA 8.8 and 8.9, word for word, of events in the order in which they ran: before and after which others
    each is in base causality order.
    """
    count = range(len(events))
    observed = set()
    for r in count:
        writes = [w for w in range(r) if events[w].writes and events[w].place == events[r].place]
        if events[r].reads and writes and events[writes[-1]].meets(events[r]):
            observed.add((writes[-1], r))
            if events[writes[-1]].reads:  # an atomic operation, through which what it observed goes on
                observed |= {(w, r) for w, z in observed if z == writes[-1]}
    after = [(x, y) for x in count for y in range(x + 1, len(events)) if events[x].actor == events[y].actor]
    own = [(x, x) for x in count]
    releases = {
        (x, w) for x, w in own + after if events[w].writes and events[w].opcode != "fence" and events[x].releases
        if x == w or events[x].opcode == "fence" or (events[x].writes and events[x].place == events[w].place)
    }  # fmt: skip
    acquires = {
        (r, y) for r, y in own + after if events[r].reads and events[r].opcode != "red" and events[y].acquires
        if r == y or events[y].opcode == "fence"
        or (events[y].reads and events[y].opcode != "red" and events[y].place == events[r].place)
    }  # fmt: skip
    before = np.eye(len(events), dtype=bool)
    for x, y in after:
        before[x, y] = True
    for x, w in releases:
        for r, y in acquires:
            before[x, y] |= (w, r) in observed and events[x].meets(events[y])
    for z in count:
        before |= before[:, z : z + 1] & before[z]
    return before


ORDERS = {
    "st": ["relaxed", "release"],
    "ld": ["relaxed", "acquire"],
    "atom": ["relaxed", "acquire", "release", "acq_rel"],
    "red": ["relaxed", "release"],
    "fence": ["acq_rel"],
}


@st.composite
def _events(draw):
    """Of three actors, one after the other."""
    made = []
    for actor in range(3):
        for _ in range(draw(st.integers(1, 4))):
            opcode = draw(st.sampled_from(list(ORDERS)))
            scope = draw(st.sampled_from([*["gpu"] * 9, "sys", "cta", "cluster"]))
            made.append(
                Event(actor, opcode, draw(st.sampled_from([0, 0, 0, 1])), draw(st.sampled_from(ORDERS[opcode])), scope)
            )
    return made


@examples(150)
@given(_events())
def test_what_is_ordered_is_what_the_memory_model_says(events):
    """Blocks of 512 threads run one after the other; the first begins with a write of a word that the last reads."""
    lines = [
        "setp.ne.u32 %p1, %r0, 0; @%p1 bra END; setp.eq.u32 %p1, %r1, 1; setp.eq.u32 %p2, %r1, 2;",
        "@%p1 bra NEXT;",
    ]
    lines += ["@%p2 bra THIRD;", "st.global.u32 [%d0+256], 1;"]
    for actor, label in enumerate(("", "bra END; NEXT:", "bra END; THIRD:")):
        lines += [label, *(event.text for event in events if event.actor == actor)]
    done = run("\n".join([*lines, GET, "END:"]), block=512, grid=3)
    last = HEAD.count("\n") + REGISTERS.count("\n") + len(lines) + 2
    raced = any(finding.line == last for finding in done.findings)
    before = ordered_by_the_model([Event(0, "st", 9, "weak", ""), *events, Event(2, "ld", 9, "weak", "")])
    assert raced != before[0, -1]


SHARED = "mov.u32 %r2, s; shl.b32 %r3, %r0, 2; add.u32 %r4, %r2, %r3; st.shared.u32 [%r4], %r0;"
APART = "setp.lt.u32 %p1, %r0, 32; @%p1 bra A;"  # the first warp goes to A
LATE = "mov.u32 %r7, 0; LATE: add.u32 %r7, %r7, 1; setp.lt.u32 %p2, %r7, 5000; @%p2 bra LATE;"
ACROSS = SHARED + "{} xor.b32 %r5, %r4, 128; ld.shared.u32 %r6, [%r5];"  # the neighbouring warp's word


@pytest.mark.parametrize(
    ("barrier", "block", "wanted"),
    [
        ("bar.sync 0;", 64, set()),
        ("bar.sync 0, 64;", 64, set()),
        ("barrier.sync 3, 64;", 64, set()),
        ("bar.sync 0, 32;", 64, {"race"}),  # each warp for itself
        ("bar.sync 1, 64;", 128, set()),  # two warps, and two warps
        ("bar.sync 0; bar.sync 0, 64;", 64, set()),
        ("bar.sync 1, 64;", 48, set()),  # a warp counts as a whole
        (APART + "bar.sync 1, 64; bra B; A: bar.sync 1, 96; B:", 64, {"barrier", "deadlock"}),
        (APART + "bar.sync 1, 64; bra B; A: bar.arrive 1, 64; B:", 64, {"race"}),
        ("bar.sync 1, 48;", 64, {"barrier"}),
        ("bar.sync 16, 64;", 64, {"barrier"}),
        ("setp.lt.u32 %p1, %r0, 64; @!%p1 exit; bar.sync 0;", 96, set()),  # who has ended need not come
        (APART + LATE + "exit; A: bar.sync 0; or.b32 %r4, %r4, 128;", 64, set()),  # nor who ends while others wait
    ],
)  # fmt: skip
def test_a_barrier_ends_when_its_count_has_come_and_orders_those_who_came(barrier, block, wanted):
    done = run(ACROSS.format(barrier), block=block, grid=1)
    assert {finding.rule for finding in done.findings} == wanted


@given(st.lists(st.booleans(), min_size=96, max_size=96), st.sampled_from([32, 96]))
@examples(20)
def test_a_vote_is_of_those_who_came(votes, count):
    """bar.red of every warp for itself, and of all, twice."""
    body = """mul.wide.u32 %d2, %r0, 4; add.u64 %d2, %d0, %d2; ld.global.u32 %r3, [%d2]; setp.ne.u32 %p1, %r3, 0;
    bar.red.popc.u32 %r4, 0, {0}, !%p1; bar.red.popc.u32 %r4, 0, {0}, %p1; bar.red.and.pred %p2, 0, {0}, %p1;
    bar.red.or.pred %p3, 0, {0}, %p1; selp.u32 %r5, 1, 0, %p2; selp.u32 %r6, 1, 0, %p3;
    shl.b32 %r4, %r4, 2; mad.lo.u32 %r4, %r5, 2, %r4; add.u32 %r4, %r4, %r6; st.global.u32 [%d2], %r4;"""
    text = f"{HEAD}.visible .entry k(.param .u64 a) {{\n{REGISTERS}{body.format(count)}\nret;\n}}\n"
    given_ = np.array(votes, np.uint32)
    done = tcprobe.emulate(text, launch={"block": [96], "arguments": [given_]})
    rows = given_.reshape(-1, count)
    wanted = 4 * rows.sum(axis=1) + 2 * rows.all(axis=1) + rows.any(axis=1)
    assert (done.findings, done.arrays[0].tolist()) == ([], wanted.repeat(count).tolist())


CLUSTER = "barrier.cluster.arrive{0}.aligned; barrier.cluster.wait.aligned;"
REMOTE = """mov.u32 %r9, 1; mapa.shared::cluster.u32 %r10, %r4, %r9; setp.ne.u32 %p2, %r1, 0; setp.ne.u32 %p1, %r0, 0;
@%p1 bra I; mbarrier.init.shared.b64 [bar], 1; fence.mbarrier_init.release.cluster; I: {first}
@%p2 bra END; {visit} END: {last}"""
ARRIVE = """@%p1 bra END; mov.u32 %r7, bar; mapa.shared::cluster.u32 %r11, %r7, %r9;
mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r11];"""
AWAITED = "@!%p2 bra OVER; AGAIN: mbarrier.try_wait.parity.shared.b64 %p4, [bar], 0; @!%p4 bra AGAIN; OVER:"


@pytest.mark.parametrize(
    ("visit", "last", "wanted"),
    [
        ("ld.shared::cluster.u32 %r6, [%r10];", CLUSTER.format(""), set()),
        ("ld.shared::cluster.u32 %r6, [%r10];", CLUSTER.format(".relaxed"), set()),  # that it came is enough
        ("ld.shared::cluster.u32 %r6, [%r10];", "", {"ended"}),
        ("st.shared::cluster.u32 [%r10], %r6;", "", {"ended"}),
        ("atom.shared::cluster.add.u32 %r6, [%r10], 1;", "", {"ended"}),
        ("ld.shared::cluster.u32 %r6, [%r10];", "barrier.cluster.arrive.aligned;", {"ended"}),
        (ARRIVE, AWAITED, set()),
        (ARRIVE, CLUSTER.format(""), set()),
        (ARRIVE, "", {"ended"}),
    ],
)
@pytest.mark.parametrize("schedule", ["late", "random"])
def test_a_block_stays_until_others_have_left_its_shared_memory(visit, last, wanted, schedule):
    first = SHARED.split("st.shared", maxsplit=1)[0] + REMOTE.format(first=CLUSTER.format(""), visit=visit, last=last)
    done = run(first, block=64, cluster=[2], schedule=schedule)
    assert {finding.rule for finding in done.findings} - {"uninitialised"} == wanted


def test_an_mbarrier_of_a_block_that_a_relaxed_barrier_hands_on_is_known_by_its_fence():
    """As CUTLASS begins: fence.mbarrier_init, then the cluster's barrier, `.relaxed`."""
    body = SHARED + REMOTE.format(first=CLUSTER.format(".relaxed"), visit=ARRIVE, last=CLUSTER.format(""))
    assert run(body, block=64, cluster=[2]).findings == []
    without = body.replace("fence.mbarrier_init.release.cluster;", "")
    assert {finding.rule for finding in run(without, block=64, cluster=[2]).findings} == {"race"}


@pytest.mark.parametrize("fence", ["fence.acq_rel.cluster;", ""])
def test_a_relaxed_barrier_of_a_cluster_orders_memory_by_fences(fence):
    relaxed = CLUSTER.format(".relaxed")
    visit = "ld.shared::cluster.u32 %r6, [%r10];"
    body = SHARED + REMOTE.format(first=f"{fence} {relaxed} {fence}", visit=visit, last=relaxed)
    assert [finding.rule for finding in run(body, block=64, cluster=[2]).findings] == ([] if fence else ["race"])


@pytest.mark.parametrize(
    ("value", "rule", "severity"), [("7", "same-value", "note"), ("%r1", "race", "error"), ("%r0", "race", "error")]
)
def test_equal_values_of_two_threads_are_a_note(value, rule, severity):
    """Of one warp, of blocks side by side, of blocks one after the other; a note is no error."""
    for place in ("[%d0]", "[%d0+4]"):
        done = run(f"mov.u32 %r5, {value}; st.global.u32 {place}, %r5;", block=64)
        assert {(finding.rule, finding.severity) for finding in done.findings} == {(rule, severity)}
        assert done.report.wrong == (severity == "error")
    earlier = run(f"mov.u32 %r5, {value}; st.global.u32 [%d0], %r5;", block=512)  # one block after the other
    assert (rule, severity) in {(finding.rule, finding.severity) for finding in earlier.findings}


def test_a_kernel_that_did_not_end_is_no_success(tmp_path):
    (tmp_path / "k.ptx").write_text(f"{HEAD}.visible .entry k() {{\nLOOP: bra LOOP;\n}}\n")
    (tmp_path / "l.json").write_text("{}")
    words = ["emulate", str(tmp_path / "k.ptx"), "--launch", str(tmp_path / "l.json"), "--most", "100"]
    done = CliRunner().invoke(main, [*words, "--json"])
    assert (done.exit_code, json.loads(done.stdout)["finished"]) == (1, False)
    assert CliRunner().invoke(main, words).exit_code == 1


LOCATED = """.loc 1 0 3
mov.u32 %r3, 0;
.loc 1 16 5
st.global.u32 [%d0+4096], %r3;
.loc 2 77 3, function_name $L__info_string0, inlined_at 1 22 5
.loc 2 21 3, function_name $L__info_string0 + 4, inlined_at 2 77 3
st.global.u32 [%d0+4100], %r3;
.loc 1 30 5
.loc 2 21 3, function_name $L__info_string0, inlined_at 1 30 5
st.global.u32 [%d0+4104], %r3;
.loc 3 7 1
st.global.u32 [%d0+4108], %r3;"""


def test_a_finding_has_its_line_of_the_source_wherever_file_stands():
    """Triton's .file stands behind the kernel; what is inlined twice has the call that .loc names."""
    files = '.file 1 "/home/somebody/kernel.py"\n.file 2 "/lib/standard.py"\n'
    text = f"{HEAD}.visible .entry k(.param .u64 a) {{\n{REGISTERS}{LOCATED}\nret;\n}}\n"
    launch = {"arguments": [np.zeros(1024, np.uint32)]}
    for whole in (text + files, text.replace(".visible", files + ".visible")):
        found = tcprobe.emulate(whole, launch=launch).findings
        assert [(each.file, each.source_line) for each in found] == [
            ("kernel.py", 16), ("standard.py", 21), ("standard.py", 21), (None, None),
        ]  # fmt: skip
        assert [found[n].to_json()["source_line"] for n in (0, 3)] == [16, None]
        assert "(kernel.py:16)" in found[0].in_words
        assert "(standard.py:21, inlined at standard.py:77, inlined at kernel.py:22)" in found[1].in_words
        assert "(standard.py:21, inlined at kernel.py:30)" in found[2].in_words


def test_a_fence_in_a_loop_costs_the_same_in_each_round():
    """Calls of functions grow with the polls, not with their square."""
    body = f"""{ROLES} st.release.gpu.global.u32 [%d0], 1; bra END; NEXT: {COME} mov.u32 %r3, 0;
    LOOP: ld.relaxed.gpu.global.u32 %r5, [%d0]; fence.acq_rel.gpu; add.u32 %r3, %r3, 1; setp.lt.u32 %p2, %r3, {{}};
    @%p2 bra LOOP; END:"""
    run(body.format(1))  # what is cached
    calls = []
    for polls in (100, 200, 300):
        profile = cProfile.Profile()
        profile.runcall(run, body.format(polls))
        calls.append(sum(entry.callcount for entry in profile.getstats()))
    assert calls[2] - calls[1] < 1.1 * (calls[1] - calls[0])
