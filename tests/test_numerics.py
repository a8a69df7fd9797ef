"""The arithmetic of multiplies: directed products read back whatever parameters an emulated core has."""

import sys
from pathlib import Path

import msgspec
import numeric_core as core
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tcprobe.arithmetic.gemm import error_bound, gemm
from tcprobe.arithmetic.model import dot
from tcprobe.arithmetic.parameters import (
    AFTER,
    IN_GROUP,
    NEAREST,
    TOWARD_ZERO,
    Arithmetic,
    ElementTypes,
    Subnormals,
    chained,
    forms_alike,
    subject,
    types_of,
)
from tcprobe.errors import DataError, ProbeError, UsageError
from tcprobe.isa import names
from tcprobe.probes.numerics import MultiplySize, floats
from tcprobe.probes.numerics_directed import parameters
from tcprobe.probes.numerics_dots import Directed
from tcprobe.probes.numerics_kernels import kernel
from tcprobe.run.backend import Worker
from tcprobe.run.runner import Session, measure
from tcprobe.store import findings, kinds
from tcprobe.store.results import Results

replaced = msgspec.structs.replace


@pytest.mark.sampled(7)
@pytest.mark.parametrize("id_", core.RULES)
def test_parameters_are_read_back_and_every_case_follows(id_):
    body = core.measured(id_, core.RULES[id_], forms=2)
    assert (body.floats or body.integers) == core.RULES[id_]
    assert (body.wrong, body.shown) == (0, [])
    assert body.random >= 1024
    assert len(body.forms) == 1 or body.compared > 0


def directed(kinds_, rule):
    kind = ElementTypes(*kinds_)
    return Directed(kind, rule.products, lambda a, b, c: dot(kind, rule, (a, b, c)))


@st.composite
def rules(draw):
    """Parameters of forms with f32 results, of any group in any order of k."""
    kind = draw(st.sampled_from(["f16", "bf16", "tf32", "e5m2"]))
    count = draw(st.sampled_from([4, 8, 16]))
    order = draw(st.permutations(range(count)))
    size = draw(st.sampled_from([n for n in (4, 8, 16) if n <= count]))
    groups = tuple(tuple(sorted(order[at : at + size])) for at in range(0, count, size))
    low = kind in ("bf16", "tf32")
    more = (
        {"exponent_floor": draw(st.sampled_from([None, -131, -132, -133, -134])), "overflow": "infinity"} if low else {}
    )
    more |= {"unread_bits": draw(st.integers(0, 13))} if kind == "tf32" else {}
    kept, place = draw(st.integers(23, 27)), draw(st.sampled_from([IN_GROUP, AFTER]))
    if place == AFTER and size == 4:
        kept = max(kept, 25)
    lost = draw(st.sampled_from([Subnormals(), Subnormals(a=False), Subnormals(b=False)]))
    rule = Arithmetic(
        groups, kept, 23, TOWARD_ZERO, place, nan=core.SINGLE, negative_zero=False, subnormals=lost, **more
    )
    return (kind, kind, "f32", "f32"), rule


@pytest.mark.full
@given(rules())
@settings(max_examples=60, deadline=None)
def test_any_parameters_are_read_back(form):
    kinds_, rule = form
    assert parameters(directed(kinds_, rule)) == rule


def variants(rule):
    """Every parameter one off."""
    if rule.fraction_bits:
        yield from (replaced(rule, fraction_bits=rule.fraction_bits + by) for by in (-1, 1))
    yield replaced(rule, result_bits=rule.result_bits - 1)
    yield replaced(rule, rounding=NEAREST if rule.rounding == TOWARD_ZERO else TOWARD_ZERO)
    count = rule.products
    yield replaced(rule, groups=chained(count, count // 2 if len(rule.groups) == 1 else count))
    yield replaced(rule, c=IN_GROUP if rule.c == AFTER else AFTER)
    if rule.exponent_floor is not None:
        yield from (
            replaced(rule, exponent_floor=floor) for floor in (None, rule.exponent_floor - 1, rule.exponent_floor + 1)
        )
    if rule.unread_bits:
        yield replaced(rule, unread_bits=rule.unread_bits - 1)
    if rule.through_f32:
        yield replaced(rule, through_f32=None)
    yield from (replaced(rule, subnormals=replaced(rule.subnormals, **{name: False})) for name in "ab")


@pytest.mark.parametrize(
    "id_", [id_ for id_, rule in core.RULES.items() if isinstance(rule, Arithmetic) and rule.fraction_bits]
)
def test_a_parameter_one_off_is_rejected_within_1000_cases(id_):
    row, rule = names.resolve(id_).instruction, core.RULES[id_]
    made = floats(types_of(row), MultiplySize(1, 8, 8, row.stored), 15, seed=2)
    shape = (15, 1, 8, 8, row.stored)
    a, b = (np.broadcast_to(x, shape) for x in (made.a[..., :, None, :], made.b[..., None, :, :]))
    right = dot(types_of(row), rule, (a, b, made.c))
    for wrong in variants(rule):
        assert (dot(types_of(row), wrong, (a, b, made.c)) != right).any(), wrong


def test_an_arithmetic_outside_the_model_is_no_finding():
    """Sums in two trees that are added: no chain of groups."""
    kind = ElementTypes("f16", "f16", "f32", "f32")
    half = Arithmetic(chained(8, 8), 25, 23, TOWARD_ZERO)

    def trees(a, b, c):
        zero = np.zeros_like(c)
        parts = [dot(kind, half, (a[:, at : at + 8], b[:, at : at + 8], zero)).view(np.float32) for at in (0, 8)]
        with np.errstate(all="ignore"):
            return (parts[0] + parts[1] + c.view(np.float32)).view(np.uint32)

    with pytest.raises(ProbeError):
        parameters(Directed(kind, 16, trees))


def test_a_gemm_is_multiplies_one_after_another():
    kind, rule = ElementTypes("f16", "f16", "f32", "f32"), core.RULES[core.MMA]
    rng = np.random.default_rng(3)
    a, b = (rng.normal(size=s).astype(np.float16).view(np.uint16) for s in ((20, 48), (48, 12)))
    c = rng.normal(size=(20, 12)).astype(np.float32).view(np.uint32)
    d = c
    for at in (0, 16, 32):
        full = (20, 12, 16)
        pair = np.broadcast_to(a[:, None, at : at + 16], full), np.broadcast_to(b.T[None, :, at : at + 16], full)
        d = dot(kind, rule, (*pair, d))
    assert (gemm(kind, rule, (a, b, c)) == d).all()


@pytest.mark.full
@pytest.mark.parametrize("parts", [1, 4])
def test_no_dot_product_is_beyond_its_bound(parts):
    from tcprobe.ask.numeric_steps import bound_error

    for id_ in (core.MMA, core.MMA_FP8, core.WGMMA_FP8, "mma.m16n8k16.row.col.f16.f16.f16.f16"):
        found = bound_error(names.resolve(id_).instruction, core.RULES[id_], 512, parts)
        assert 0 < found["measured"] <= found["factor"]
        assert (found["changed"] > 0) == (parts > 1)
    with pytest.raises(UsageError):
        error_bound(types_of(names.resolve(core.MMA).instruction), core.RULES[core.MMA], 24)


def test_every_form_is_of_one_arithmetic_and_has_a_kernel():
    for first, rows in forms_alike().items():
        assert {subject(row) for row in rows} == {first}
        assert len({kernel(row).name for row in rows}) == len(rows)


@pytest.mark.parametrize(
    "change",
    [
        lambda body: replaced(body, floats=None),
        lambda body: replaced(body, floats=replaced(body.floats, groups=chained(16, 8)[:1])),
        lambda body: replaced(body, forms=[core.S8]),
        lambda body: replaced(body, wrong=body.random + 1),
    ],
)
def test_a_body_that_cannot_be_true(change):
    found = core.finding(core.MMA, core.RULES[core.MMA])
    object.__setattr__(found, "body", change(found.body))
    with pytest.raises(DataError):
        kinds.check(found)


@pytest.mark.full
def test_a_run_saves_what_an_emulated_core_has(tmp_path):
    """Through the worker, as a GPU would: planned, run, concluded, saved and read back."""
    worker = Worker((sys.executable, str(Path(__file__).parent / "numeric_worker.py")))
    results, todo = Results(tmp_path), [core.experiment(id_) for id_ in (core.MMA, core.S8)]
    with Session(worker) as session:
        found = [item for item in measure(session, session.devices[0], todo, results) if not hasattr(item, "stages")]
    assert [(item.status, item.words) for item in found] == [("measured", None)] * 2
    saved = findings.read(results, found[0].key)
    assert saved.method == "emulated"
    assert saved.body.floats == core.RULES[core.MMA]
    assert saved.body.random >= 100_000
    assert kinds.essence(saved)["fraction_bits"] == 25
