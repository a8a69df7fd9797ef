"""What would make a cost wrong: every loop is mutated, really compiled, and refused."""

from dataclasses import replace

import pytest
from cost_model import FP8, HOPPER, LOAD, MMA, WGMMA, Clock, codes

from tcprobe.errors import ProbeError
from tcprobe.probes import dialogues
from tcprobe.probes.experiment import Context
from tcprobe.store.kinds.cost import FULL_LOAD

WORDS = {
    MMA: "mma.sync",
    "wmma.mma.row.col.m16n16k16.f32.f32": "wmma.mma",
    LOAD: "ldmatrix",
    WGMMA: "wgmma.mma_async",
    "movmatrix.m8n8.trans.b16": "movmatrix",
    "ld.shared.b128": "ld.volatile",
    FP8: "mma.sync",
    "shfl.sync.idx.b32": "shfl",
    "cp.async.ca.16": "cp.async.ca",
    "mma.sp.m16n8k32.row.col.f32.f16.f16.f32": "mma.sp",
    "mma.m16n8k8.row.col.f64.f64.f64.f64": "mma.sync",
    "wgmma.mma_async.sp.m64n64k32.f32.f16.f16": "wgmma.mma_async",
    "stmatrix.m8n8.x4.shared.b16": "stmatrix",
    "st.shared.b32": "st.volatile",
    "cp.async.bulk.shared.global": "cp.async.bulk.shared",
    "cp.async.bulk.tensor.2d.global.shared": "cp.async.bulk.tensor",
    f"{FULL_LOAD}.{MMA}": "mma.sync",
    f"{FULL_LOAD}.wgmma.mma_async.m64n256k16.f32.f16.f16": "wgmma.mma_async",
}
# volatile, or they write memory: there is nothing to drop
KEPT_WHOEVER_WANTS = ("cp.async", "ld.shared", "st.shared", "stmatrix", "wgmma", f"{FULL_LOAD}.wgmma")


def mutated(kernel, change):
    text = change(kernel.text)
    assert text != kernel.text
    return replace(kernel, text=text)


def lines_with(text, word):
    loop = text[text.index("ROUND:") : text.index("@%more bra ROUND")]
    return [line for line in loop.splitlines() if word in line]


def emptied(word):
    def change(text):
        for line in set(lines_with(text, word)):
            text = text.replace(line + "\n", "")
        return text

    return change


def halved(word):
    def change(text):
        head, rest = text.split("ROUND:", 1)
        lines, kept = rest.splitlines(), 0
        out = []
        for line in lines:
            kept += word in line
            if not (word in line and kept % 2):
                out.append(line)
        return head + "ROUND:" + "\n".join(out) + "\n"

    return change


def hoisted(word):
    """The loop's work once before it, as a compiler would that finds it the same every round."""

    def change(text):
        work = "\n".join(lines_with(text, word))
        return emptied(word)(text).replace("    ROUND:", work + "\n    ROUND:", 1)

    return change


def dropped(_):
    """Nobody wants what the loop makes."""
    return lambda text: text.replace("setp.eq.u32 %first, %sum,", "mov.u32 %sum, 0; setp.eq.u32 %first, %sum,")


def once(_):
    """The loop runs once, so that it is none."""
    return lambda text: text.replace("@%more bra ROUND;", "", 1)


def kept(id_, change):
    return change is dropped and id_.startswith(KEPT_WHOEVER_WANTS)


def shown(id_, change):
    """The kernels of a form: a second one and one that runs once as they are, all others mutated."""
    made = []
    for kernel in dialogues("cost")[id_].kernels():
        variant = kernel.op.variant
        if "once" in variant or "second." in variant:
            made.append(kernel)
        elif ".second" not in variant:
            made.append(mutated(kernel, change(WORDS[id_])))
    return made


@pytest.mark.full
@pytest.mark.parametrize("change", [emptied, halved, hoisted, dropped, once], ids=lambda f: f.__name__)
@pytest.mark.parametrize("id_", WORDS)
def test_no_mutation_gives_a_number(id_, change, law):
    """Every loop of a form is mutated, really compiled, and refused; with all of them refused there is no body."""
    if kept(id_, change):
        pytest.skip("volatile: it stays, whoever wants what comes")
    taken = [params["id_"] for params in law if params["change"] is change]
    codes([k for other in taken if not kept(other, change) for k in shown(other, change)])  # nvdisasm runs once
    experiment = dialogues("cost")[id_]
    reading = experiment.measure(Clock(lambda op, row: 2000.0, codes(shown(id_, change))))
    with pytest.raises(ProbeError, match=r"should hold|beside the loop|taken out"):
        experiment.conclude(reading, Context(HOPPER, lambda _: None))
