"""Straight loads of a fragment as a CUDA device function."""

from __future__ import annotations

from collections.abc import Iterator

from tcprobe import __version__
from tcprobe.ask.load import Move, StraightLoad
from tcprobe.code.cuda import holder, of_holder, once, origin
from tcprobe.code.names import identifier
from tcprobe.errors import UsageError
from tcprobe.text import comment


def source(loads: StraightLoad) -> str:
    """The header; UsageError where addresses have no closed form."""
    cell, tile = loads.cell, loads.tile
    fragment, (line, byte) = cell.fragment, loads.formulas
    if line is None or byte is None:
        raise UsageError(f"{fragment.id}: its addresses have no closed form, so there is no code.", "no code")
    name = identifier(f"load_{fragment.id}_{tile.contiguous}_ld{loads.ld}")
    lines = [
        f"// made by tcprobe {__version__}: {fragment.id}, {tile.contiguous}s contiguous, {len(loads.moves)} loads",
        f"// {comment(origin(cell))}; its loads are proven on every slot",
        "",
        *once(_struct(loads, name)),
        "",
    ]
    return "\n".join(lines)


def _struct(loads: StraightLoad, name: str) -> list[str]:
    fragment, (line, byte) = (
        loads.cell.fragment,
        (of_holder(str(f), loads.cell.fragment.threads) for f in loads.formulas),
    )
    word = "unsigned long long" if fragment.register_bits == 64 else "unsigned"
    widest = max(move.width for move in loads.moves)
    return [
        f"struct {name} {{",
        f"  using Word = {word};",
        f"  static constexpr int REGISTERS = {fragment.registers};",
        f"  static constexpr long long LD = {loads.ld_bytes};  // bytes from line to line",
        "",
        "  /// `global`: the fragment's first element; it and `ld` are multiples of " + str(widest) + " bytes.",
        f"  /// `{holder(fragment.threads)}`: 0 to {fragment.threads - 1}",
        f"  __device__ static inline void load(const void* global, unsigned {holder(fragment.threads)}, "
        "Word (&registers)[REGISTERS], "
        "long long ld = LD) {",
        "    const char* start = static_cast<const char*>(global);",
        f"    const auto at = [=](unsigned issue) {{ return start + ({line}) * ld + ({byte}); }};",
        *(f"    Word v{number}[{_words(loads, move)}];" for number, move in enumerate(loads.moves)),
        *(f"    {_read(loads, number, move)}" for number, move in enumerate(loads.moves)),
        *(f"    registers[{number}] = {text};" for number, text in enumerate(_register_expressions(loads))),
        "  }",
        "};",
    ]


def _words(loads: StraightLoad, fetch: Move) -> int:
    return max(1, 8 * fetch.width // loads.cell.fragment.register_bits)


def _read(loads: StraightLoad, number: int, fetch: Move) -> str:
    count, wide = _words(loads, fetch), loads.cell.fragment.register_bits == 64
    letter = "l" if wide else "r"
    places = ", ".join(f"%{j}" for j in range(count))
    outputs = ", ".join(f'"={letter}"(v{number}[{j}])' for j in range(count))
    braced = f"{{{places}}}" if count > 1 else places
    return f'asm volatile("{fetch.instruction} {braced}, [%{count}];" : {outputs} : "l"(at({number})));'


def _register_expressions(loads: StraightLoad) -> Iterator[str]:
    """Every register from the pieces that were loaded."""
    bits, register_bits = loads.tile.bits, loads.cell.fragment.register_bits
    parts: dict[int, list[str]] = {}
    for number, move in enumerate(loads.moves):
        size = min(move.run * bits, register_bits)  # of a piece within one register
        for index in range(0, len(move.order), size // bits):
            register, to = divmod(move.order[index] * bits, register_bits)
            word, from_bit = divmod(index * bits, register_bits)
            parts.setdefault(register, []).append(
                _bit_expression(f"v{number}[{word}]", from_bit, to, size, register_bits)
            )
    yield from (" | ".join(parts[register]) for register in sorted(parts))


def _bit_expression(text: str, from_bit: int, to_bit: int, size: int, register_bits: int) -> str:
    """`size` bits from bit `from_bit` of a word to bit `to_bit` of a register."""
    if size == register_bits:
        return text
    text = f"{text} >> {from_bit}" if from_bit else text
    return f"({text} & {(1 << size) - 1:#x}u) << {to_bit}" if to_bit else f"({text} & {(1 << size) - 1:#x}u)"
