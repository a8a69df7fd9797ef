"""What repacks weights before a kernel runs, and back: a module of Python with NumPy or PyTorch."""

from __future__ import annotations

import re

from tcprobe import __version__
from tcprobe.ask.repack import Repacking, lane_formula
from tcprobe.code.cuda import origin
from tcprobe.isa.dtypes import dtype
from tcprobe.layout.arrays import Ints
from tcprobe.text import comment

MODULE = '''# made by tcprobe {version}: weights of {type} for {fragment}
# {origin}; the order is proven to be one to one
{imported}

PLACES, STEPS, SLOTS, WORDS = {places}, {steps}, {slots}, {words}  # lanes with their own words; of a place
K, LINES = {k}, {lines}  # of a block
CODES, BITS, FLIP = {codes}, {bits}, {flip:#x}  # codes of a word; of a code, and those that are stored inverted
# where the bits of a word's codes are in it, from the lowest on
AT = {module}.{array}({at})

_lane = {module}.arange(PLACES)[:, None, None]
_step = {module}.arange(STEPS)[:, None]
_slot = {module}.arange(SLOTS)
_none = 0 * (_lane + _step + _slot)
DEPTH = {depth} + _step * K // STEPS + _none  # k in a block, of (place, step, slot)
LINE = {line} + _none  # {axis} in a block


def repack(weights):
    """The words of weights, ({shape}), {holds}: (k / K, {axis} / LINES, PLACES, WORDS), {word}.

    ValueError if k is not a multiple of K, {axis} not one of LINES, or a weight is not of {type}.
    """
    given = {given}
    if {fraction}:
        raise ValueError("weights are whole numbers, not {{}}{viewed}".format(given.dtype))
    codes = given{wide}{turned}
    k, lines = _whole(codes.shape)
    if 0 not in codes.shape and not {least} <= int(codes.min()) <= int(codes.max()) <= {most}:
        raise ValueError("weights of {type} are from {least} to {most}")
{refused}    blocks = ((codes & {mask:#x}) ^ FLIP).reshape(k // K, K, lines // LINES, LINES).swapaxes(1, 2)
    held = blocks[:, :, DEPTH, LINE].reshape(k // K, lines // LINES, PLACES, WORDS, CODES)
    words = sum(((held >> bit & 1) << AT[:, bit]).sum(-1) for bit in range(BITS))
    return {returned}


def unpack(words):
    """The weights that `repack` made words of."""
    words = {taken}
    if words.ndim != 4 or words.shape[2:] != (PLACES, WORDS):
        shape = f"(k / K, {axis} / LINES, {{PLACES}}, {{WORDS}})"
        raise ValueError(f"words are of shape {{shape}}, not {{tuple(words.shape)}}")
    down, across = words.shape[:2]
    held = sum((words[..., None] >> AT[:, bit] & 1) << bit for bit in range(BITS))
    blocks = {module}.zeros((down, across, K, LINES), dtype={module}.int64)
    blocks[:, :, DEPTH, LINE] = held.reshape(down, across, PLACES, STEPS, SLOTS)
    codes = (blocks ^ FLIP).swapaxes(1, 2).reshape(down * K, across * LINES)
    return {signed}{turned_back}


{zeros}def _whole(shape):
    """(k, {axis}); ValueError with the nearest that works where it is not a whole number of blocks."""
    if len(shape) != 2:
        raise ValueError(f"weights are a matrix, not of shape {{tuple(shape)}}")
    for name, size, block in (("k", shape[0], K), ("{axis}", shape[1], LINES)):
        if size % block:
            below = size // block * block
            near = below if below and size - below <= block // 2 else below + block
            raise ValueError(f"{{name}} is {{size}}, not a multiple of {{block}}; the nearest is {{near}}: pad or cut")
    return shape
'''
NUMPY = {
    "imported": "import numpy as np",
    "module": "np",
    "array": "array",
    "word": "uint32",
    "given": "np.asarray(weights)",
    "fraction": 'given.dtype.kind not in "iu"',
    "wide": ".astype(np.int64)",
    "returned": "words.astype(np.uint32)",
    "bytes": "(given + {flip}).astype(np.uint8)",
    "from_bytes": "np.asarray(packed).astype(np.int64) - {flip}",
    "taken": "np.asarray(words).astype(np.int64) & 0xFFFFFFFF",
}
TORCH = {
    "imported": "import torch",
    "module": "torch",
    "array": "tensor",
    "word": "int32, on the CPU",
    "given": "torch.as_tensor(weights).cpu()",
    "fraction": "given.is_floating_point()",
    "wide": ".to(torch.int64)",
    "returned": "((words ^ 1 << 31) - (1 << 31)).to(torch.int32)",
    "bytes": "(given + {flip}).to(torch.uint8)",
    "from_bytes": "torch.as_tensor(packed).cpu().to(torch.int64) - {flip}",
    "taken": "torch.as_tensor(words).cpu().to(torch.int64) & 0xFFFFFFFF",
}
ZEROS = '''def pack_zeros(zeros):
    """Zero points of {type}, (k / GROUP, {axis}), whole numbers from {least} to {most}: as bytes{added}.

    A weight is (code - zero point) scale. ValueError where one is not a whole number or out of range.
    """
    given = {given}
    if {fraction}:
        raise ValueError("zero points are whole numbers, not {{}}".format(given.dtype))
    given = given{wide}
    if len(given.shape) != 2:
        raise ValueError(f"zero points are a matrix, not of shape {{tuple(given.shape)}}")
    if 0 not in given.shape and not {least} <= int(given.min()) <= int(given.max()) <= {most}:
        raise ValueError("zero points of {type} are from {least} to {most}")
    return {bytes}


def unpack_zeros(packed):
    """The zero points that `pack_zeros` made bytes of."""
    return {from_bytes}


'''
NAN = """    if bool(((codes & 0x7F) == 0x7F).any()):
        raise ValueError("there is a NaN among the weights: codes 0x7f and 0xff")
"""


def source(weights: Repacking, packer: str) -> str:
    """The module for "numpy" or "torch"; UsageError where places in memory have no closed form."""
    way, fragment = weights.conversion, weights.cell.fragment
    kind, axis = dtype(way.source), "m" if fragment.operand == "a" else "n"
    counted = not kind.is_float
    least = -(1 << kind.bits - 1) if counted and kind.is_signed and way.source[0] == "s" else 0
    turned = ".T" if fragment.operand == "a" else ""
    sign, viewed = 1 << kind.bits - 1, "" if counted else ": view them as uint8"
    spelled = NUMPY if packer == "numpy" else TORCH
    return MODULE.format(
        **spelled,
        zeros=_zeros(weights, spelled, axis),
        version=__version__,
        type=way.source,
        fragment=fragment.id,
        origin=comment(origin(weights.cell)),
        places=weights.places,
        steps=weights.steps,
        slots=weights.slots,
        words=weights.words,
        depth=_python(weights.depth.T, weights),
        line=_python(weights.line.T, weights),
        k=weights.k,
        lines=weights.lines,
        codes=way.codes,
        bits=kind.bits,
        flip=way.flip,
        at=[list(bits) for bits in way.places],
        axis=axis,
        shape="m, k" if turned else "k, n",
        turned=turned,
        turned_back=turned,
        mask=(1 << kind.bits) - 1,
        viewed=viewed,
        holds="numbers" if counted else f"the bits of {way.source}",
        least=least,
        most=least + (1 << kind.bits) - 1,
        refused=NAN if kind.has_nan and way.source != way.target else "",
        signed=f"((codes ^ {sign}) - {sign})" if least else "codes",
    )


def _zeros(weights: Repacking, spelled: dict[str, str], axis: str) -> str:
    """What packs zero points, "" where there are none."""
    if not weights.zeros:
        return ""
    (least, most), flip = weights.zero_range, weights.conversion.flip
    return ZEROS.format(
        **{key: spelled[key] for key in ("fraction", "wide")},
        **{key: spelled[key].format(flip=flip) for key in ("bytes", "from_bytes")},
        given=spelled["given"].replace("weights", "zeros"),
        least=least,
        most=most,
        type=weights.conversion.source,
        axis=axis,
        added=f", {flip} added" if flip else "",
    )


def _python(values: Ints, weights: Repacking) -> str:
    """A formula of (slots, places) in the module's names."""
    text = lane_formula(values, f"the order of {weights.cell.fragment.id}").replace(" / ", " // ")
    text = re.sub(r"\blane\b", "_lane", re.sub(r"\bissue\b", "_slot", text))
    return f"({text})"
