"""tilus: the register layouts of its AtomicMmaConfigs, by their own get_global."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from tcprobe.audit.statement import StatedPlace, Statement, statement, uncompared_statement

PACKAGE = "tilus"
REPORTED: Mapping[str, str] = {}
FORMS = {
    "m16n8k16_f16_f32": "mma.m16n8k16.row.col.f32.f16.f16.f32",
    "m16n8k16_f16_f16": "mma.m16n8k16.row.col.f16.f16.f16.f16",
    "m16n8k16_bf16_f32": "mma.m16n8k16.row.col.f32.bf16.bf16.f32",
    "m8n8k16_i8_i32": "mma.m8n8k16.row.col.s32.s8.s8.s32",
    "m16n8k16_i8_i32": "mma.m16n8k16.row.col.s32.s8.s8.s32",
    "m16n8k32_i8_i32": "mma.m16n8k32.row.col.s32.s8.s8.s32",
}
WIDENED = "its k is of several multiplies, interleaved for wider loads"
WIDTHS = (8, 16, 32, 64, 128, 256)


def statements() -> Iterator[Statement]:
    """A, B and D of each multiply of a warp, and D of a warpgroup."""
    from tilus.ir.instructions.cuda.mma_dot import AtomicMmaConfig

    for name, form in FORMS.items():
        config = getattr(AtomicMmaConfig, name)()
        for operand, layout in (("a", config.la), ("b", config.lb), ("d", config.lc)):
            field = {"d": "lc"}.get(operand, f"l{operand}")
            code = CODE.format(
                imported="mma_dot import AtomicMmaConfig",
                layout=f"AtomicMmaConfig.{name}().{field}",
                module="tilus.ir.instructions.cuda.",
            )
            yield statement(
                f"AtomicMmaConfig.{name}().{field}",
                f"{form}.{operand}",
                (32, layout.local_size),
                _place(layout),
                atom=name,
                code=code,
            )
    for name in AtomicMmaConfig.all_configs():
        if "v1_" not in name:
            yield uncompared_statement(f"AtomicMmaConfig {name}", "", WIDENED)
    yield from _warpgroup_statements()


def _warpgroup_statements() -> Iterator[Statement]:
    from tilus.ir.layout.inference.inference_rules.wgmma import generate_wgmma_register_layout as generate

    for n in WIDTHS:
        layout = generate(64, n, 64, n, 16)
        call = f"generate_wgmma_register_layout(64, {n}, 64, {n}, 16)"
        code = CODE.format(
            module="tilus.ir.layout.inference.inference_rules.",
            layout=call,
            imported="wgmma import generate_wgmma_register_layout",
        )
        yield statement(
            call, f"wgmma.mma_async.m64n{n}k16.f32.f16.f16.d", (128, layout.local_size), _place(layout), code=code
        )


def _place(their_layout: Any) -> Callable[[int, int], StatedPlace]:
    return lambda thread, i: tuple(map(int, their_layout.get_global(local_index=i, spatial_index=thread)))  # type: ignore[return-value]


CODE = """\
from {module}{imported}
layout = {layout}
def stated(thread, i):
    return tuple(map(int, layout.get_global(local_index=i, spatial_index=thread)))"""
