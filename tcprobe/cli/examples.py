"""Commands to paste: six by task for `tcprobe` alone, and two of each command for its help. The tests run them all."""

from __future__ import annotations

import re

TASKS = {
    "Who holds an element?": "where m16n8k16 bf16 f32 a --row 3 --col 9",
    "A fragment: formula, picture, evidence": "show m16n8k16 bf16 f32 a",
    "The accumulator as the next A operand": "convert m16n8k16 f16 f32 d m16n8k16 f16 f32 a",
    "Bank conflicts, and the swizzle that avoids them": "banks m16n8k16 f16 f32 a --tile 64x64 "
    "--with ldmatrix.x4 --propose",
    "The descriptor of a wgmma tile": "descriptor --tile 128x64 --type bf16",
    "A whole kernel": "kernel gemm --arch sm_90 --type bf16 -o gemm.cu",
}

EXAMPLES = {
    "ablate": ("ablate loop.ptx --launch launch.py", "ablate loop.ptx --launch launch.py --kernel 'loop*' --json"),
    "agree": (
        "agree tma:bf16,64x64,128B 'ldmatrix:mma m16n8k16 bf16 a,64x64,plain'",
        "agree scales:sfatom,128x8 scales:linear,128x8 --json",
    ),
    "audit": ("audit tensor-layouts", "audit tensor-layouts --json"),
    "banks": (
        "banks m16n8k16 f16 f32 a --tile 64x64 --with ldmatrix.x4 --propose",
        "banks --address 'lane * 128' --with ld.shared.b32",
    ),
    "check": ("check kernel.ptx", "check --rules"),
    "compare": ("compare m16n8k16 bf16 f32", "compare mine.csv m16n8k16 bf16 f32 a"),
    "compilers": ("compilers --cuda cuda-12.9 --cuda cuda-13.0 'wmma.m8n8k4.*'", "compilers 'wmma.m8n8k4.*'"),
    "contribute": ("contribute --minutes 10", "contribute -o mine.json.gz --json"),
    "convert": (
        "convert m16n8k16 f16 f32 d m16n8k16 f16 f32 a",
        "convert m16n8k16 f16 f32 d stmatrix --type f16 --swizzle 128",
    ),
    "cost": ("cost mma.m16n8k16.row.col.f32.bf16.bf16.f32 --arch h100", "cost --table"),
    "descriptor": ("descriptor --tile 128x64 --type bf16", "descriptor 0x4000004000010000"),
    "diff": ("diff sm_80 sm_90 'mma.m16n8k16.*'", "diff v100 a100 'wmma.m16n16k16.*' --changed"),
    "doctor": ("doctor", "doctor --json"),
    "emulate": (
        "emulate examples/emulate/store.ptx --launch examples/emulate/store.json",
        "emulate examples/emulate/store.ptx --launch examples/emulate/store.json --break 18,5",
    ),
    "emit": ("emit m16n8k16 bf16 f32 --to cuda", "emit m16n8k16 bf16 f32 a --to svg -o a.svg"),
    "find": ("find hide latency", "find causal"),
    "fit": ("fit mine.csv", "fit mine.csv --latex"),
    "kernel": (
        "kernel gemm --arch sm_90 --type bf16 -o gemm.cu",
        "kernel gemm --arch sm_80 --type f16 --explain 200 150 77",
    ),
    "layouts": ("layouts --of triton", "layouts --json"),
    "list": ("list", "list 'm16n8k16*bf16*' --arch sm_80"),
    "load": (
        "load m16n8k16 f16 f32 b --global col --ld 4096",
        "load m16n8k16 f16 f32 a --ld 4096 --code",
        "load m16n8k16 f16 f32 b --repack --type s4 --group 128 --zeros --packer torch",
    ),
    "lower": ("lower mma.m16n8k16.row.col.f32.e4m3.e4m3.f32 --arch h100", "lower 'movmatrix.*' --arch sm_80"),
    "merge": ("merge theirs --results results", "merge theirs --contributor 'A. Name' --results results"),
    "numerics": (
        "numerics mma.m16n8k16.row.col.f32.f16.f16.f32",
        "numerics mma.m16n8k16.row.col.f32.f16.f16.f32 --bound 4096",
    ),
    "order": (
        "order --file order.json --a a.npy --b b.npy -o d.npy",
        "order --file order.json --bound --svg order.svg",
    ),
    "predict": ("predict loop.ptx", "predict loop.ptx --warps 4 --svg round.svg"),
    "pages": ("pages --results theirs", "pages --results theirs --check"),
    "path": (
        "path m16n8k16 f16 f32 a --tile 64x64 --shared 128B",
        "path m16n8k16 f16 f32 a --tile 64x64 --shared 128B --code cuda",
    ),
    "plan": (
        "plan --arch sm_90 --tile 128x256x64 --type bf16 --stages 4",
        "plan --arch b200 --tile 128x256x64 --type bf16 --stages 4 --accumulators 2",
    ),
    "read": ("read kernel.ptx", "read kernel.ptx --json"),
    "reduce": ("reduce m16n8k16 f16 f32 d --over row --op max", "reduce m16n8k16 f16 f32 d --mask 'row >= col'"),
    "run": ("run --arch sm_80 --method sass 'wmma.m16n16k16.d.*'", "run --method live --family banks"),
    "show": (
        "show m16n8k16 bf16 f32 a",
        "show wgmma.m64n256k16.f32.f16.f16.d --lanes",
        "show m16n8k16 bf16 f32 d --warps 2x4 --tile 128x128x64",
        "show '((4,8),(2,2,2)):((32,1),(16,8,128))' --tile 16x16",
    ),
    "site": ("site -o pages", "site --results theirs -o pages"),
    "swizzle": ("swizzle fit offsets.csv", "swizzle table SWIZZLE_128B --extent 128,8"),
    "scales": ("scales nvfp4 scale_a --line 3 --block 2", "scales nvfp4 scale_a --line 3 --block 2 --json"),
    "tensormap": (
        "tensormap --type bf16 --tile 128x64 --swizzle 128B",
        "tensormap --type u8 --box 128,64 --dims 4096,4096",
    ),
    "trace": ("trace m16n8k16 bf16 f32 --row 3 --col 2", "trace m16n8k16 bf16 f32 --operand a --lane 12 --i 5"),
    "verify": ("verify", "verify mma.m16n8k16.row.col.f32.bf16.bf16.f32"),
    "where": ("where m16n8k16 bf16 f32 a --row 3 --col 9", "where m16n8k16 bf16 f32 d --lane 5 --arch a100,h100"),
    "why-not": (
        "why-not mma.m16n8k32.row.col.f32.e4m3.e4m3.f32.a --arch a100",
        "why-not wgmma.m64n8k16.f32.f16.f16.d --arch sm_120",
    ),
}


def tasks() -> str:
    """What `tcprobe` alone prints."""
    lines = ["tcprobe: which lane and register holds which element of a tensor-core fragment", ""]
    for what, words in TASKS.items():
        lines += [f"  {what}", f"    {_fold(words)}"]
    return "\n".join([*lines, "", "tcprobe --help lists all commands; tcprobe COMMAND --help explains one."])


def epilog(name: str) -> str:
    """The examples at the end of a command's help."""
    return "\n".join(["\b", "Examples:", *(f"  {_fold(words)}" for words in EXAMPLES.get(name, ()))])


def _fold(words: str) -> str:
    """A command line, in two where it is too long for a terminal: before an option, or else before a word."""
    text = f"tcprobe {words}"
    if len(text) <= 74:
        return text
    bare = re.sub("'[^']*'", lambda quoted: "'" * len(quoted[0]), text)[:70]  # a quoted word stays whole
    cut = bare.rfind(" --") if " --" in bare else bare.rfind(" ")
    return f"{text[:cut]} \\\n      {text[cut + 1 :]}"
