"""FlashInfer's table before the payloads, computed by its own C++ on a CPU, against ours.

`python -m tests.upstream.table FILE.whl`: `calculateOffsets` is cut out of a released wheel,
compiled with g++ (it is plain host code) and asked for every ep_size and many token counts.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

from eagerbuf.consumers.workspace import MOST_RANKS, table_bytes

CSRC = "flashinfer/data/csrc"
SOURCE = f"{CSRC}/trtllm_moe_alltoall.cu"
KERNELS = (
    f"{CSRC}/nv_internal/tensorrt_llm/kernels/communicationKernels/moeAlltoAllKernels.h",
    f"{CSRC}/nv_internal/tensorrt_llm/thop/moeAlltoAllMeta.h",
)
ASK = """
int main() {
  for (int ranks = 1; ranks <= %d; ++ranks)
    for (int tokens = 1; tokens < 40000; tokens += tokens < 300 ? 1 : 997)
      printf("%%d %%d %%lld\\n", ranks, tokens,
             (long long)getMoeA2AAuxDataSize(ranks, tokens%s));
}
"""


def program(wheel: Path) -> str:
    """The C++ that asks the released function."""
    with zipfile.ZipFile(wheel) as zipped:
        source, kernels, meta = (zipped.read(n).decode("utf-8") for n in (SOURCE, *KERNELS))
    aligned = source[source.index("constexpr size_t kCachelineAlignment") :]
    aligned = aligned[: aligned.index("\n}\n") + 3]
    offsets = source[source.index("fi_throughput::MoeA2ADataOffsets calculateOffsets") :]
    offsets = offsets[: offsets.index("\nTensor ")]
    most = re.search(r"static constexpr int kMaxTopK = \d+;", kernels)
    assert most is not None, "kMaxTopK is not where it was"
    eplb = ", 0" if "eplbStatsNumExperts" in offsets else ""
    return (
        f"#include <cstddef>\n#include <cstdio>\n{meta.replace('#pragma once', '')}\n"
        f"namespace tl_throughput {{ {most[0]} }}\n"
        "namespace fi_throughput = torch_ext::moe_alltoall;\n"
        f"{aligned}{offsets}{ASK % (MOST_RANKS, eplb)}"
    )


def differences(wheel: Path) -> tuple[int, int]:
    """(points asked, points where ours differs)."""
    with tempfile.TemporaryDirectory() as folder:
        source, binary = Path(folder) / "table.cpp", Path(folder) / "table"
        source.write_text(program(wheel), "utf-8")
        subprocess.run(["g++", "-std=c++17", "-o", binary, source], check=True)
        lines = subprocess.run([binary], check=True, capture_output=True, text=True).stdout
    points = [tuple(map(int, line.split())) for line in lines.splitlines()]
    return len(points), sum(table_bytes(ranks, n) != size for ranks, n, size in points)


if __name__ == "__main__":
    asked, differ = differences(Path(sys.argv[1]))
    print(f"{Path(sys.argv[1]).name}: {differ} of {asked:,} differ")
    sys.exit(int(differ > 0))
