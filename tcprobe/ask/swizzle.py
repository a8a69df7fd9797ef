"""Which layout an address map has, and by which names it is known: in words, and as JSON for other programs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tcprobe.errors import TcprobeError
from tcprobe.fit.affine import Affine
from tcprobe.fit.swizzle import COORDINATE, SWIZZLE, XOR, AddressFit, fit_address, is_proven
from tcprobe.layout.address import AddressMap, runs
from tcprobe.references.shared_memory.catalogue import names_of
from tcprobe.text import Described


@dataclass(frozen=True, repr=False)
class Answer(Described):
    """The layout of an address map in elements; `bits` is the width of an element, if it is known."""

    address: AddressMap
    found: AddressFit
    names: list[str]
    bits: int | None

    @property
    def in_words(self) -> Iterator[str]:
        """The layout as CuTe writes it, what else fits, names, proof, and what is missing."""
        return words(self)


def layout_of(address_map: AddressMap, bits: int | None) -> Answer:
    """The layout of a map that may lack elements; TcprobeError if it is none of the four kinds."""
    fit = fit_address(address_map)
    if fit is None:
        raise TcprobeError(
            f"{address_map.cells} elements, but no layout: neither shape:stride, nor a swizzle of one, nor a "
            "coordinate swizzle, nor several swizzles."
        )
    return Answer(address_map, fit, names_of(address_map, fit, bits), bits)


def as_json(answer: Answer) -> dict[str, object]:
    """What docs/shared_memory.md states; `missing` names the elements without an offset, if there are any."""
    address, fit = answer.address, answer.found
    modes = [fit.affine.first.to_json(), fit.affine.second.to_json()]
    plain: dict[str, object] = {
        "kind": fit.kind,
        "swizzle": fit.swizzle.to_json() if fit.swizzle else None,
        "unit": "elements",
        "shape": [shape for shape, _ in modes],
        "stride": [stride for _, stride in modes],
        "base": fit.affine.base,
        "cells": fit.cells,
        "proven": is_proven(fit, address),
        "others": [swizzle.to_json() for swizzle in fit.others],
        "names": answer.names,
    }
    if fit.coordinate:
        plain["coordinate"] = list(fit.coordinate)
    if fit.kind == XOR:
        plain["swizzles"] = [swizzle.to_json() for swizzle in fit.swizzles]
        plain["fewest"] = fit.fewest
    if answer.bits:
        in_bytes = fit.swizzle.in_bytes(answer.bits) if fit.swizzle else None
        plain["bytes"] = in_bytes.to_json() if in_bytes else None
    if address.missing:
        plain["missing"] = runs(address.missing)
    return plain


def words(answer: Answer) -> Iterator[str]:
    """Lines: the layout as CuTe writes it, what else fits, names, proof, and what is missing."""
    address, fit = answer.address, answer.found
    yield f"{fit.kind}: {expression(fit)}"
    if fit.kind == COORDINATE and fit.coordinate:
        which, bits, base, shift = fit.coordinate
        other = "second" if which == "first" else "first"
        yield f"with {which} ^= (({other} >> {shift}) & {(1 << bits) - 1}) << {base}"
    if fit.kind == SWIZZLE and answer.bits and fit.swizzle:
        in_bytes = fit.swizzle.in_bytes(answer.bits)
        yield f"in bytes: {in_bytes.name if in_bytes else 'it acts inside a byte'}"
    if fit.kind == XOR and not fit.fewest:
        yield "fewer swizzles may do: not all shorter sequences were tried"
    if fit.others:
        yield f"also fits: {', '.join(swizzle.name for swizzle in fit.others)}"
    if answer.names:
        yield f"known as: {', '.join(answer.names)}"
    yield f"proven on {fit.cells} of {address.shape[0] * address.shape[1]} elements"
    if address.missing:
        yield f"missing: {', '.join(runs(address.missing))}"


def expression(fit: AddressFit) -> str:
    """CuTe's way of writing: Sw<2,3,3> o 0 o (32,32):(1,32)."""
    swizzles = "".join(f"{swizzle.name} o " for swizzle in reversed(fit.swizzles))
    base = f"{fit.affine.base} o " if fit.affine.base or swizzles else ""
    return f"{swizzles}{base}{_shape(fit.affine)}"


def _shape(affine: Affine) -> str:
    both = (affine.first, affine.second)
    return f"({','.join(_tuple(m.sizes) for m in both)}):({','.join(_tuple(m.strides) for m in both)})"


def _tuple(values: Sequence[int]) -> str:
    return str(values[0]) if len(values) == 1 else f"({','.join(map(str, values))})"
