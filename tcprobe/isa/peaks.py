"""Multiply-adds a cycle that an SM can do at most, dense, by arch and type of A, as NVIDIA states them.

>>> from tcprobe.isa.arch import arch
>>> peak(arch("sm_90"), "f16"), peak(arch("sm_90"), "e4m3"), peak(arch("sm_90"), "s4")
(2048, 4096, None)

Source: NVIDIA's architecture whitepapers: Tesla V100, Turing TU102, A100, GA102, Ada AD102, H100 (peak rates over SMs,
boost clock and two operations). A sparse multiply counts the products that it forms, so its peak is the dense one.
"""

from __future__ import annotations

from tcprobe.isa.arch import Arch

_HALVES = ("f16", "bf16")
_BYTES = ("s8", "u8")
_FP8 = ("e4m3", "e5m2")


def _rates(halves: int, **others: int) -> dict[str, int]:
    rates = dict.fromkeys(_HALVES, halves)
    groups = {"bytes": _BYTES, "fp8": _FP8, "nibbles": ("s4", "u4")}
    return rates | {name: rate for kind, rate in others.items() for name in groups.get(kind, (kind,))}


NONE_STATED: dict[str, int] = {}  # no whitepaper above has rates of its SM
PEAKS = {
    70: {"f16": 512},
    72: NONE_STATED,
    75: {"f16": 512, **_rates(512, bytes=1024, nibbles=2048), "bf16": 0},
    80: _rates(1024, tf32=512, f64=64, bytes=2048, nibbles=4096, b1=16384),
    86: _rates(512, tf32=256, bytes=1024, nibbles=2048),
    87: NONE_STATED,
    88: NONE_STATED,
    89: _rates(512, tf32=256, bytes=1024, nibbles=2048, fp8=1024),
    90: _rates(2048, tf32=1024, f64=128, bytes=4096, fp8=4096),
    **dict.fromkeys((100, 103, 107, 110, 120, 121), NONE_STATED),
}


def peak(device: Arch, kind: str) -> int | None:
    """The most multiply-adds a cycle of an SM with A of a type; None where nothing is stated."""
    return PEAKS[device.number].get(kind) or None
