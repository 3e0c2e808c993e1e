"""What stands in for a GPU is pinned: nothing of the scheduler, caches or runner is ours."""

import ast
from pathlib import Path

import pytest

from eagerbuf import run_engine
from eagerbuf.engine.environment import INSIDE, release_folder

FOREIGN = Path(__file__).parent / "foreign.py"
REPLACED = {
    "TorchNativeAttnBackend.get_cpu_graph_seq_len_fill_value",
    "TorchNativeAttnBackend.get_cuda_graph_seq_len_fill_value",
    "sglang.srt.configs.janus_pro.register_image_processor",
    "sglang.srt.configs.utils.register_image_processor",
    "sglang.srt.models.deepseek_janus_pro.register_image_processor",
    "sglang.srt.layers.dp_attention.memcpy_triton",
}
EMPTY = {  # what the empty triton's decorators and constants return: no kernel of these runs here
    "sglang.srt.layers.attention.triton_ops.kv_indices.FLASHMLA_CREATE_KV_BLOCK_SIZE_TRITON",
    "sglang.srt.layers.elementwise.rmsnorm_autotune",
    "sglang.srt.layers.quantization.fp8_kernel.fp8_autotune",
    "sglang.srt.layers.triton_ops.softcap.softcap_out_autotune",
}
WRITTEN = {  # what the file of stand-ins assigns to anything that is not its own
    "module.__version__",
    "module.cdiv",
    "module.memcpy_triton",
    "module.next_power_of_2",
    "module.register_image_processor",
    "setattr(module, name, defaultdict(lambda run=run: run))",  # two kernels of the paged pool
    "setattr(module.TorchNativeAttnBackend, name, lambda self: 1)",
    "spec.loader.exec_module",
    "torch.library.Library.impl",
    "torch.tensor",
}


def test_the_stand_ins_do_not_grow_unseen():
    tree = ast.parse((INSIDE / "sitecustomize.py").read_text(encoding="utf-8"))
    written = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign):
            written |= {ast.unparse(t) for t in node.targets if isinstance(t, ast.Attribute)}
        elif isinstance(node, ast.Call) and getattr(node.func, "id", "") == "setattr":
            written.add(ast.unparse(node))
    own = {"self.__path__", "setattr(self, name, made)"}
    assert written - own == WRITTEN


@pytest.mark.xdist_group("engine")
def test_all_that_ran_came_from_the_wheel_but_for_the_listed_names(needs):
    needs("0.5.14")
    flags = ("--chunked-prefill-size", "256", "--max-running-requests", "8")
    folder = str(release_folder("0.5.14"))
    report = run_engine("0.5.14", flags=flags, requests=2, switches={str(FOREIGN): folder})
    assert report.outcome == "completed"
    (foreign,) = report.written.told("foreign")
    assert set(foreign) == REPLACED | EMPTY
    assert report.written.told("files") == [[]]
    named = " ".join(report.stand_ins)
    assert all(name.rpartition(".")[2] in named for name in REPLACED)
