"""Functions of `tcprobe.api`, `tcprobe.order` and `tcprobe.numerics`: a value that a parameter does not take is refused
in words that name it, whatever it is.
"""

import inspect
from collections.abc import Iterator
from functools import cache, partial
from pathlib import Path

import numpy as np
import pytest

import tcprobe
from tcprobe import api
from tcprobe.ask.tensor_memory import OperandVariant
from tcprobe.ask.trace_tensor_memory import TensorTraceRequest
from tcprobe.errors import InternalError, TcprobeError, UsageError
from tcprobe.isa.arch import arch
from tcprobe.isa.names import resolve
from tcprobe.layout.banks import Picture
from tcprobe.references.shared_memory.catalogue import Options
from tcprobe.store.choose import layers
from tcprobe.store.results import Results

FORM = "mma.m16n8k16.row.col.f32.f16.f16.f32"
TENSOR = "tcgen05.mma.cta_group::1.kind::f16"
MXF4 = "tcgen05.mma.cta_group::1.kind::mxf4"
SCALES = "mma.m16n8k64.row.col.kind::mxf4.block_scale.scale_vec::2X.f32.e2m1.e2m1.f32.ue8m0.scale_a"
WGMMA = "wgmma.mma_async.m64n64k16.f32.f16.f16"
ORDER = Path(__file__).parent.parent / "examples" / "orders" / "chain.json"
MODULES = {"api": api, "order": tcprobe.order, "numerics": tcprobe.numerics}


def functions():
    """Public functions by name, but for those without a parameter; `api.list` is `api.fragments`."""
    for name, module in MODULES.items():
        for one in dict.fromkeys([*module.__all__, *getattr(module, "LATER", ())]):
            found = getattr(module, one)
            if inspect.isfunction(found) and inspect.signature(found).parameters and one != "list":
                yield f"{name}.{one}", found


FUNCTIONS = dict(functions())


class StandIn:
    """Of no kind that a parameter takes."""


def fitting(annotation):
    """Something of a parameter's kind as far as its class says: it gets past the check of another parameter."""
    text = str(annotation).partition(" | ")[0].replace("'", "")
    if inspect.isclass(annotation):
        text = annotation.__name__
    outer = text.partition("[")[0]
    plain = {"str": "x", "int": 1, "float": 1.0, "bool": True, "Path": "x", "Json": {}, "ArrayLike": [[1.0]]}
    plain |= {"Pair": (1, 1), "ProductSize": (1, 1, 1), "Chosen": None}
    if text in plain:
        return plain[text]
    if text == "Order":
        return tcprobe.order.load(ORDER)
    if text == "Cell":
        return api.load(f"{FORM}.d")
    if "Annotated" in outer or outer.endswith(("Sequence", "Iterable", "list", "tuple")):
        return "x" if "Annotated" in outer else []
    if outer.endswith("Mapping"):
        return {}
    return type(outer.rpartition(".")[2], (), {})()


def error_of(ask):
    """What a call raises, also as what it gives is gone through; None where it answers."""
    try:
        found = ask()
        if isinstance(found, Iterator):
            list(found)
    except Exception as error:
        return error
    return None


def parameters_of(name):
    return inspect.signature(FUNCTIONS[name]).parameters


def given(name, wrong, value):
    """Arguments and keywords of a call in which the parameter `wrong` has this value."""
    plain, named = [], {}
    for key, parameter in parameters_of(name).items():
        if parameter.kind is parameter.VAR_POSITIONAL:
            plain += [value] if key == wrong else []
        elif parameter.kind is parameter.VAR_KEYWORD:
            named |= {"lbo": value} if key == wrong else {}
        elif key == wrong:
            named[key] = value
        elif parameter.default is parameter.empty:
            named[key] = fitting(parameter.annotation)
    return plain, named


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_value_of_no_kind_is_refused_by_the_name_of_its_parameter(name):
    """Before anything is done: the other arguments stand in for others of their kinds."""
    for parameter in parameters_of(name):
        for value in (StandIn(), b"x"):
            plain, named = given(name, parameter, value)
            error = error_of(partial(FUNCTIONS[name], *plain, **named))
            assert type(error) is UsageError, (parameter, value, repr(error))
            assert f"`{'lbo' if parameter == 'given' else parameter}`" in str(error), (parameter, str(error))


def fine():
    """Arguments that work, of functions that neither need a GPU nor take long."""
    d, a = api.load(f"{FORM}.d"), api.load(f"{FORM}.a")
    row, cells = api.multiply(FORM)
    order, over = tcprobe.order.load(ORDER), layers(None)
    array = np.ones((16, 16), np.float16)
    costs = tcprobe.cost(FORM)
    repacking = tcprobe.repack(f"{FORM}.b", "s4", group=128)
    scales = api.scales(api.load(SCALES))
    in_memory = api.memory_operand(f"{MXF4}.scale_b")
    [shared] = resolve(f"{WGMMA}.b_smem").shared
    return {
        "api.archs": {},
        "api.convert": {"from_": d, "to": a},
        "api.emit": {"name": "csv", "cells": [d]},
        "api.feeds": {"instruction": row, "operands": cells, "operand": "a", "lane": 0, "i": 0},
        "api.fit": {"table": d.table},
        "api.fragments": {"patterns": (FORM,)},
        "api.held": {"cell": d, "lanes": [0]},
        "api.load": {"name": f"{FORM}.d"},
        "api.multiply": {"name": FORM},
        "api.reduce": {"cell": d, "over": "row"},
        "api.selection": {"cell": d},
        "api.trace": {"instruction": row, "operands": cells, "row": 0, "col": 0, "product": None},
        "api.where": {"cell": d, "rows": [0], "cols": [0]},
        "api.ablate": {"cubin": "none", "launch": "none"},
        "api.predict": {"cubin": "none"},
        "api.commands_for": {"text": "mma"},
        "api.address_map": {"name": "SWIZZLE_128B", "extent": (64, 8), "options": Options(bits=16)},
        "api.bank_rules": {"name": None, "results": over},
        "api.code_of_load": {"loads": api.straight_load(a, "row")},
        "api.code_of_path": {"plan": tcprobe.path(f"{FORM}.a", (64, 64))},
        "api.cost_words": {"cost": costs[0]},
        "api.cost_table": {"instruction_costs": costs},
        "api.costs_beside": {"instruction_costs": costs},
        "api.diff": {"names": [f"{FORM}.d"], "arch_name": "sm_80", "layers": over},
        "api.draw_banks": {"picture": Picture(np.arange(64).reshape(8, 8) * 16, 1, 16, ("x", "y")), "title": ""},
        "api.draw_cost": {"points": [], "title": ""},
        "api.draw_conflicts": {"phases": [], "title": ""},
        "api.draw_fragment": {"cell": d},
        "api.in_namespace": {"text": "int x;", "namespace": "a"},
        "api.instruction_descriptor": {"kind": "f16", "field_values": {}},
        "api.instruction_descriptor_fields": {"bits": 0, "kind": "f16"},
        "api.memory_operand": {"name": f"{TENSOR}.d"},
        "api.merge": {"paths": [], "into": Results("merged")},
        "api.merge_check": {"paths": [], "into": Results("merged")},
        "api.numerics_header": {"instruction": row, "arch": None, "layers": over},
        "api.placement": {"in_memory": api.memory_operand(f"{TENSOR}.d")},
        "api.rename": {"text": "int x;", "old": "x", "name": "y"},
        "api.repack": {"cell": api.load(f"{FORM}.b"), "stored_type": "s4"},
        "api.sarif": {"checks": [], "rules": api.check_rules()},
        "api.straight_load": {"cell": a, "contiguous": "row"},
        "api.trace_tensor_memory": {
            "instruction": resolve(TENSOR).instruction,
            "trace_request": TensorTraceRequest(),
            "row": 0,
            "col": 0,
        },
        "api.lower": {"instructions": [row], "name": "sm_80"},
        "api.numerics_diff": {"names": ("sm_80", "sm_90"), "layers": over},
        "api.packer": {"weights": repacking, "packer": "numpy"},
        "api.pages": {"results": Results("none")},
        "api.read_patterns": {"path": "none"},
        "api.scale_json": {"scale_path": scales, "line": 0, "block": 0, "blocks": 4},
        "api.scales": {"cell": api.load(SCALES)},
        "api.scales_in_tensor_memory": {"in_memory": in_memory, "variant": OperandVariant()},
        "api.with_zeros": {"weights": repacking},
        "api.behind": {"operand": shared, "layers": over},
        "api.why_not": {"fragment": d.fragment, "arch": arch("sm_70"), "layers": over},
        "api.zero_mask": {"bits": 0, "m": 128, "n": 64},
        "order.difference": {"first": order, "second": order},
        "order.error_bound": {"order": order},
        "order.load": {"path": ORDER},
        "order.multiply": {"order": order, "a": np.ones((1, order.k)), "b": np.ones((order.k, 1))},
        "order.svg": {"order": order},
        "order.text": {"order": order},
        "numerics.dot": {"form": FORM, "a": np.ones(16), "b": np.ones(16), "c": 0.0},
        "numerics.measured": {"instruction": row, "arch": "sm_90"},
        "numerics.model": {"instruction": row},
        "numerics.multiply": {"form": FORM, "a": array, "b": array, "c": np.zeros((16, 16), np.float32)},
    }


FINE = cache(fine)
# those that need a GPU, toolkits or packages, or take long: what they are given is looked at by the law above
APART = {"api.audit", "api.compilers", "api.contribute", "api.doctor", "api.emulate_product", "api.product", "api.site"}
APART |= {"api.verify"}
WRONG = {
    "nothing": None,
    "negative": -1,
    "zero": 0,
    "no text": "",
    "a text": "x",
    "an empty list": [],
    "an empty dictionary": {},
    "a folder": Path(),
    "a folder's name": ".",
    "bytes": b"",
    "infinite": 1e400,
    "a fraction": 0.5,
    "an object": object(),
    "true": True,
    "huge": 10**30,
    "a list of a list": [[1]],
    "a list of nothing": [None],
    "words": ["a", "b"],
    "an array of nothing": np.zeros((0, 0)),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_wrong_values_are_refused_in_words(name, sample, tmp_path, monkeypatch):
    """Of a kind that a parameter takes or not: an answer, or an error of tcprobe in one line."""
    monkeypatch.chdir(tmp_path)
    works = FINE().get(name)
    assert (works is None) == (name in APART)
    if works is None:
        return
    for parameter in parameters_of(name):
        for kind in sample(WRONG, 9):
            arguments = works | {"lbo" if parameter == "given" else parameter: WRONG[kind]}
            plain = arguments.pop("patterns", ())
            error = error_of(partial(FUNCTIONS[name], *(plain if isinstance(plain, tuple) else (plain,)), **arguments))
            assert isinstance(error, TcprobeError | None), (parameter, kind, repr(error))
            assert not isinstance(error, InternalError), (parameter, kind)
            assert error is None or 0 < len(str(error)) < 2000, (parameter, kind)


TYPES = tcprobe.order.Types("f16", "f16", "f32")
SUM = tcprobe.order.Multiplies(FORM, ((0, 16),))
NODES = {
    "Additions": {"terms": (SUM,)},
    "FusedMultiplyAdds": {"type": "f32", "ranges": ((0, 16),), "c": None},
    "Multiplies": {"form": FORM, "ranges": ((0, 16),), "c": None},
    "Order": {"arch": "sm_80", "types": TYPES, "k": 16, "sum": SUM, "inputs": "exact", "more": {}},
}


@pytest.mark.parametrize("name", NODES)
def test_orders_are_made_of_what_orders_are_made_of(name):
    made = getattr(tcprobe.order, name)
    assert made(**NODES[name])
    for parameter in NODES[name]:
        for value in WRONG.values():
            error = error_of(partial(made, **(NODES[name] | {parameter: value})))
            assert isinstance(error, UsageError | None), (parameter, value, repr(error))


KERNEL = ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry k(.param .u64 a) { ret; }"
ARGUMENTS = [
    {1: 2},
    {"buffer": "."},
    {"buffer": b"x"},
    {"buffer": np.array([object()])},
    {"buffer": np.array(["a"])},
    {"bytes": "00", "pointers": {0: 1}},
    {"tensor_map": None},
    {"tensor_map": {}, "of": 0},
    np.array([1j]),
]


def test_what_is_no_launch_is_refused(tmp_path, monkeypatch):
    """A folder as a buffer, names that are numbers, arrays of something else than numbers."""
    monkeypatch.chdir(tmp_path)
    Path("k.ptx").write_text(KERNEL)
    parts = ("kernel", "grid", "block", "cluster", "shared", "arguments")
    wrong = [{"arguments": [value]} for value in (*ARGUMENTS, *WRONG.values())]
    wrong += [{part: value} for part in parts for value in WRONG.values()]
    for launch in [*wrong, *WRONG.values()]:
        error = error_of(partial(tcprobe.emulate, "k.ptx", launch=launch))
        assert isinstance(error, TcprobeError | None), (launch, repr(error))
        assert not isinstance(error, InternalError), launch
    for argument in ARGUMENTS:
        with pytest.raises(TcprobeError, match=r"argument 0|a launch|tensor map|not a regular file"):
            tcprobe.emulate("k.ptx", launch={"arguments": [argument]})


def test_a_number_has_the_bounds_of_its_option():
    for stages in (0, 65):
        with pytest.raises(UsageError, match=rf"`stages` '{stages}' is out of its range: 1 to 64\."):
            tcprobe.plan("sm_80", (128, 128, 64), "f16", stages)
