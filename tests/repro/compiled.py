"""`python -m tests.repro.compiled`: the Triton kernel compiled for sm_90, a line for each tile."""

from __future__ import annotations

from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource, compile

from eagerbuf.repro.autotune import triton_tactics
from eagerbuf.repro.autotune.tactics import LAYERS

POINTERS = {"x": "*bf16", "w": "*bf16", "gate": "*fp32", "out": "*fp32", "order": "*i64"}
SIGNATURE = POINTERS | {"tiles": "*i64", "inter": "i32", "top_k": "i32"}

LAYER = LAYERS["cuda"]

for tile in triton_tactics.TILES:
    sizes = {"hidden": LAYER.hidden, "M": tile.rows, "N": tile.columns, "K": tile.depth}
    signature = SIGNATURE | dict.fromkeys(sizes, "constexpr")
    source = ASTSource(triton_tactics._kernel, signature=signature, constexprs=sizes)
    target, options = GPUTarget("cuda", 90, 32), {"num_warps": tile.warps}
    binary = compile(source, target=target, options=options).asm["cubin"]
    print(binary[1:4].decode(), binary[0x30])  # the architecture is a byte of an ELF header's flags
