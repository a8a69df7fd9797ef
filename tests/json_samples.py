"""One or more calls of every command that prints JSON, and the schema that each line must follow."""

import json
from pathlib import Path

import emulated_bench
import fatbins
import numpy as np

ROOT = Path(__file__).parent.parent
SCHEMA = ROOT / "docs" / "schema.json"
MULTIPLY = "mma.m16n8k16.row.col.f32.f16.f16.f32"
D, A = f"{MULTIPLY}.d", f"{MULTIPLY}.a"
S4 = "mma.m16n8k32.row.col.s32.s4.s4.s32.b"
SPARSE = "mma.sp.m16n8k32.row.col.f32.f16.f16.f32"
WGMMA = "wgmma.mma_async.m64n8k16.f32.f16.f16"
SCALED = "mma.m16n8k64.row.col.kind::mxf4nvf4.block_scale.scale_vec::4X.f32.e2m1.e2m1.f32.ue4m3"
SCALED_ONCE = "mma.m16n8k32.row.col.kind::mxf8f6f4.block_scale.scale_vec::1X.f32.e3m2.e4m3.f32.ue8m0"
TENSOR = "tcgen05.mma.cta_group::2.kind::mxf4nvf4"
FP8 = "mma.m16n8k32.row.col.f32.e4m3.e4m3.f32"
MAPS = [  # one tiled, one im2col: first bytes of a line of tests/data/tensor_map_bits_h200.csv
    (Path(__file__).parent / "data" / "tensor_map_bits_h200.csv").read_text().splitlines()[at].rpartition(",")[2]
    for at in (0, -1)
]
PATTERN = json.dumps({"op": "ld.shared.b32", "address": [4 * lane for lane in range(32)]})
TILE = ("banks", "ldmatrix.m8n8.x4.shared.b16.d", "--tile", "64x64", "--global", "row", "--with", "ldmatrix.x4")
STORE = str(ROOT / "examples" / "emulate" / "store.ptx")
COSTS = ("--results", str(ROOT / "tests" / "data" / "costs"), "--only")
# command -> calls; {folder} is an empty folder, {csv} a table of A, {patterns} lines of addresses, {offsets} a map,
# {code} and {loop} PTX, {tables} a folder with a table of A, {order} and {other} orders of sums, {left}, {right} and
# {result} matrices
CALLS = {
    "list": [("list",), ("list", "--family", "tcgen05")],
    "show": [
        ("show", "wmma.m16n16k16.?.row.f16", "--arch", "all"),
        ("show", MULTIPLY),
        ("show", "ldmatrix.m8n8.x1.shared.b16.*"),
        ("show", f"{MULTIPLY}.b", "--arch", "sm_120"),
        ("show", "mma.m8n8k4.row.col.f32.f16.f16.f32.d"),
        ("show", A, "--arch", "a100,h100"),
        ("show", SPARSE),
        ("show", f"{SCALED}.?cale_?"),
        ("show", f"{SCALED_ONCE}.scale_a"),
        ("show", "movmatrix.m8n8.trans.b16.d"),
        ("show", A, "--why"),
        ("show", f"{WGMMA}.b_smem", "--swizzle", "32"),
        ("show", f"{WGMMA}.d"),
        ("show", TENSOR),
        ("show", f"{TENSOR}.k96"),
        ("show", "tcgen05.cp.64x128b"),
        ("show", "tcgen05.shift.down"),
        ("show", "((4,8),(2,2,2)):((32,1),(16,8,128))", "--tile", "16x16"),
        ("show", "S<3,3,3> o 0 o (8,64):(64,1)"),
        ("show", "#ttg.nvidia_mma<{versionMajor = 2, warpsPerCTA = [2, 2], instrShape = [16, 8]}>", "--tile", "32x32"),
        ("show", f"{MULTIPLY}.d", "--warps", "3x1", "--tile", "48x8x16"),
    ],
    "where": [
        ("where", D, "--row", "0"),
        ("where", "ldmatrix.m8n8.x1.shared.b16.address", "--lane", "0-3"),
        ("where", "mma.m8n8k4.row.col.f32.f16.f16.f32.d", "--lane", "5", "--arch", "sm_70"),
        ("where", f"{WGMMA}.b_smem", "--row", "3", "--col", "5"),
        ("where", f"{WGMMA}.a_smem", "--byte", "7"),
        ("where", D, "--warps", "2x4", "--tile", "128x128x64", "--row", "35", "--col", "9"),
        ("where", "((4,8),2):((16,1),8)", "--tile", "8x8", "--lane", "3"),
        ("where", "tcgen05.mma.cta_group::1.kind::f16.d", "--row", "70", "--col", "200", "--ld", "32x32b.x32"),
        ("where", "tcgen05.ld.16x256b.x4.d", "--lane", "3", "--i", "5"),
        ("where", f"{TENSOR}.scale_b", "--m", "128", "--row", "1", "--col", "70", "--scale-vec", "4"),
        ("where", f"{TENSOR}.a", "--lane", "3", "--column", "0-20"),
    ],
    "agree": [
        ("agree", "tma:bf16,64x64,128B", f"ldmatrix:{A},64x64,plain"),
        ("agree", "scales:sfatom,128x8", "numpy:u8,128x8,.reshape(4,32,2,4).transpose(2,1,0,3)"),
    ],
    "plan": [
        ("plan", "--arch", "sm_80", "--tile", "128x128x64", "--type", "f16"),
        ("plan", "--arch", "sm_100", "--tile", "128x256x256", "--type", "e2m1", "--scale-block", "16"),
    ],
    "find": [("find", "hide latency"), ("find", "LBO")],
    "layouts": [("layouts",)],
    "trace": [
        ("trace", MULTIPLY, "--row", "0-1", "--col", "2"),
        ("trace", MULTIPLY, "--operand", "a", "--lane", "1", "--i", "0"),
        ("trace", MULTIPLY, "--operand", "c", "--lane", "1", "--i", "0"),
        ("trace", SPARSE, "--row", "3", "--col", "2", "--selector", "1"),
        ("trace", WGMMA, "--row", "3", "--col", "5", "--swizzle", "128"),
        ("trace", WGMMA, "--operand", "a_smem", "--byte", "9"),
        ("trace", "tcgen05.mma.sp.cta_group::1.kind::mxf8f6f4", "--row", "3", "--col", "5", "--a-in", "tensor"),
        ("trace", WGMMA, "--operand", "a", "--lane", "9", "--i", "1"),
    ],
    "convert": [
        ("convert", D, A),
        ("convert", f"{FP8}.d", f"{FP8}.a", "--permute-k"),
        ("convert", S4, S4, "--transpose"),
        ("convert", f"{WGMMA}.d", "stmatrix", "--type", "f16"),
    ],
    "scales": [
        ("scales", "nvfp4", "scale_a", "--line", "3"),
        ("scales", f"{TENSOR}.scale_a", "--m", "256", "--scale-vec", "4", "--line", "0-1", "--block", "2"),
    ],
    "reduce": [("reduce", D, "--over", "row")],
    "mask": [("reduce", D, "--mask", "row >= col"), ("reduce", D, "--fill", "row")],
    "banks": [
        (*TILE, "--propose"),
        (*TILE, "--explain"),
        (*TILE, "--shared", "sw:3,4,3"),
        ("banks", "--tile", "32x32", "--type", "f32", "--global", "row", "--with", "st.shared.b32@rows"),
    ],
    "banks --rule": [("banks", "--rule"), ("banks", "--rule", "--arch", "sm_70")],
    "path": [
        ("path", A, "--tile", "64x64", "--global", "row", "--shared", "sw:3,4,3", "--with", "ldmatrix.x4"),
        ("path", f"{WGMMA}.b_smem", "--tile", "64x16", "--global", "col", "--shared", "SWIZZLE_128B"),
        ("path", f"{WGMMA}.a_smem", "--tile", "64x64", "--shared", "SWIZZLE_64B", "--fill", "tma"),
        ("path", f"{WGMMA}.d", "--tile", "64x64", "--with", "st.shared.b64"),
        ("path", A, "--tile", "16x32", "--ld", "36", "--fill", "plain", "--with", "ld.shared.b32"),
    ],
    "load": [("load", A)],
    "load --repack": [
        ("load", f"{MULTIPLY}.b", "--repack", "--type", "s4", "--group", "64"),
        ("load", f"{MULTIPLY}.b", "--repack", "--type", "u4", "--group", "64", "--zeros"),
        ("load", f"{WGMMA}.a", "--repack", "--type", "e4m3"),
        ("load", "mma.m16n8k32.row.col.s32.s8.s8.s32.b", "--repack", "--type", "s4", "--arch", "sm_90"),
        ("load", f"{FP8}.b", "--repack", "--type", "e4m3", "--group", "64"),
    ],
    "kernel gemm": [
        ("kernel", "gemm", "--arch", "sm_80", "--type", "bf16", "--explain", "1", "2", "3"),
        ("kernel", "gemm", "--arch", "sm_80", "--type", "bf16", "--budget"),
        ("kernel", "gemm", "--arch", "sm_90", "--type", "e4m3", "--size", "512x512x512"),
    ],
    "tensormap": [
        ("tensormap", "--type", "bf16", "--tile", "64x64", "--swizzle", "128B"),
        ("tensormap", "--type", "u8", "--box", "32,8,2", "--interleave", "16B"),
    ],
    "tensormap --decode": [("tensormap", "--decode", raw) for raw in MAPS],
    "pattern": [
        ("banks", "--patterns", "{patterns}"),
        ("banks", "--address", "lane * 8", "--with", "ld.shared.b64"),
        ("banks", "--address", "lane * 4", "--with", "cp.async.ca.4", "--source", "lane * 128", "--explain"),
    ],
    "compare": [("compare", "wmma.m16n16k16.d.f32"), ("compare", "mma.m16n8k256.row.col.s32.b1.b1.s32.and.popc.a")],
    "compare FILE": [("compare", "docs/found.csv", A)],
    "lower": [("lower", MULTIPLY, "--arch", "sm_90"), ("lower", "wmma.mma.row.col.m16n16k16.f32.bf16.bf16.f32")],
    "compilers": [("compilers", "wmma.m8n8k4.*", "--arch", "sm_80")],
    "read": [("read", "{code}"), ("read", "{code}", "--arch", "sm_86"), ("read", "{code}", "--tables")],
    "check": [("check", "{code}"), ("check", "{code}", "--min", "error")],
    "check --rules": [("check", "--rules")],
    "emulate": [("emulate", STORE, "--launch", STORE.replace("ptx", "json"), "--trace", "18,5")],
    "predict": [("predict", "{loop}"), ("predict", "{loop}", "--warps", "2")],
    "audit": [("audit", "{tables}")],
    "cost": [
        ("cost", MULTIPLY, *COSTS, "--with", "ldmatrix.x4"),
        ("cost", "ldmatrix.x4", *COSTS),
        ("cost", "wgmma.*", "cp.async.bulk.*", *COSTS),
        ("cost", "--table", *COSTS),
        ("cost", MULTIPLY, "--arch", "sm_80"),
    ],
    "cost OPCODE": [("cost", "FFMA", "MUFU.*"), ("cost", "--opcodes")],
    "compare --cost": [("compare", "--cost", *COSTS)],
    "diff": [
        ("diff", "sm_70", "sm_75", "wmma.m16n16k16.*"),
        ("diff", "sm_70", "sm_75", "wmma.m16n16k16.*", "--changed"),
    ],
    "numerics": [("numerics", MULTIPLY, "--arch", name) for name in ("sm_80", "sm_110")],
    "diff --numerics": [("diff", "--numerics", "sm_80", "sm_89")],
    "run": [("run", "wmma.m8n8k4.*", "--arch", "sm_80", "--method", "sass", "--results", "{folder}")],
    "fit": [("fit", "{csv}"), ("fit",)],
    "doctor": [("doctor",)],
    "descriptor": [
        ("descriptor", "--tile", "128x64", "--type", "bf16"),
        ("descriptor", "--tile", "8x16", "--type", "bf16", "--swizzle", "none"),
        ("descriptor", "0x4000004000010000"),
        ("descriptor", "--tcgen05", "--tile", "128x64", "--type", "bf16"),
        ("descriptor", "0x6020404000010000"),
        ("descriptor", "--idesc", "--kind", "tf32", "--m", "64", "--n", "24"),
        ("descriptor", "--idesc", "0x08c00490"),
        ("descriptor", "--zero-mask", "--m", "64", "--n", "128", "--set", "skip_span=3", "--set", "use_span=4"),
    ],
    "order": [
        ("order", "--file", "{order}", "--bound"),
        ("order", "--file", "{order}", "--a", "{left}", "--b", "{right}", "--d", "{result}"),
    ],
    "order CALL": [
        ("order", "examples/orders/by_hand.py:two_parts", "--shape", shape, "--type", "f32", "--on", "cpu")
        for shape in ("2x32x4", "1..2x32x4")
    ]
    + [
        ("order", "examples/orders/by_hand.py:whole_blocks", "--shape", shape, "--type", "f32", "--on", "cpu")
        for shape in ("2x32x20", "2x32x16,20")
    ],
    "diff ORDER": [("diff", "{order}", "{other}"), ("diff", "{order}", "{order}")],
    "why-not": [("why-not", A, "--arch", "sm_75"), ("why-not", A, "--arch", "sm_86")],
    "merge": [("merge", "results", "--results", "{folder}")],
    "swizzle fit": [
        ("swizzle", "fit", "{crosswise}"),
        ("swizzle", "fit", "{offsets}"),
        ("swizzle", "fit", "{offsets}", "--bits", "16"),
    ],
    "swizzle apply": [("swizzle", "apply", "3,4,3", "0..9")],
    "swizzle table": [("swizzle", "table", "SWIZZLE_128B", "--extent", "64,8", "--bits", "16")],
    "swizzle table help": [("swizzle", "table", "help")],
    "swizzle draw": [("swizzle", "draw", "SWIZZLE_128B", "--extent", "64,8", "--bits", "16")],
    "swizzle claims": [
        (
            "swizzle",
            "claims",
        )
    ],
}


def filled(call, folder):
    """The arguments of a call, with its files made in a folder."""
    (folder / "patterns.jsonl").write_text(PATTERN + "\n")
    (folder / "offsets.csv").write_text(
        "row,col,offset\n" + "".join(f"{r},{c},{(r * 64 + c) ^ (r % 8) * 8}\n" for r in range(8) for c in range(64))
    )
    (folder / "crosswise.csv").write_text(
        "row,col,offset\n"
        + "".join(f"{r},{c},{r * 96 + (c ^ (r >> 1 & 3) << 3)}\n" for r in range(40) for c in range(32))
    )
    (folder / "k.ptx").write_text(fatbins.ptx())
    (folder / "loop.ptx").write_text(emulated_bench.PTX)
    (folder / "a.csv").write_text((ROOT / "docs" / "found.csv").read_text())
    (folder / "tables").mkdir(exist_ok=True)
    (folder / "tables" / f"{A}.csv").write_text((ROOT / "docs" / "found.csv").read_text())
    for name, cut in (("order", 16), ("other", 32)):
        chains = [{"form": MULTIPLY, "k": [[0, cut]]}, {"fma": "f32", "k": [[cut, 40, 2], [cut + 1, 40, 2]]}]
        types = dict.fromkeys("ab", "f16") | {"d": "f32"}
        made_order = {"arch": "sm_90", "types": types, "k": 40, "inputs": "exact", "sum": {"add": chains}}
        (folder / f"{name}.json").write_text(json.dumps(made_order))
    for name, shape in (("left", (3, 40)), ("right", (40, 2)), ("result", (3, 2))):
        np.save(folder / f"{name}.npy", np.ones(shape, np.float32))
    made = {
        **{name: folder / f"{name}.json" for name in ("order", "other")},
        **{name: folder / f"{name}.npy" for name in ("left", "right", "result")},
        "folder": folder / "results",
        "csv": folder / "a.csv",
        "patterns": folder / "patterns.jsonl",
        "offsets": folder / "offsets.csv",
        "crosswise": folder / "crosswise.csv",
        "code": folder / "k.ptx",
        "loop": folder / "loop.ptx",
        "tables": folder / "tables",
    }
    return [part.format(**made) if part[:1] == "{" and part[-1:] == "}" and '"' not in part else part for part in call]


def objects(text):
    """The objects that a command printed: one a line, or for `list` the entries of one array."""
    data = text.strip()
    if data.startswith("["):
        return json.loads(data)
    return [json.loads(line) for line in data.splitlines()]
