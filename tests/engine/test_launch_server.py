"""The user's own command, `python -m sglang.launch_server`, with main's sizing put in."""

import json

import pytest

from eagerbuf.engine.environment import differs
from eagerbuf.engine.interrupts import Interrupts
from eagerbuf.engine.run import Run

pytestmark = pytest.mark.xdist_group("engine")
COMMAND = """--pp-size 2 --enable-dynamic-chunking --chunked-prefill-size 512
    --max-running-requests 16"""
# what a machine without a GPU needs, as in eagerbuf/engine/inside/arguments.py
CPU = """--device cpu --load-format dummy --dtype float32 --attention-backend torch_native
    --sampling-backend pytorch --grammar-backend none --disable-cuda-graph --skip-tokenizer-init
    --max-total-tokens 20000 --mem-fraction-static 0.3 --port 31917"""
MODEL = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 64,
    "intermediate_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 8,
    "num_key_value_heads": 8,
    "head_dim": 16,
    "vocab_size": 32_000,
    "max_position_embeddings": 8_192,
    "rms_norm_eps": 1e-5,
    "hidden_act": "silu",
    "torch_dtype": "float32",
    "bos_token_id": 1,
    "eos_token_id": 2,
}


@pytest.mark.slow
def test_the_users_own_command_hangs_with_a_buffer_of_one_chunk(needs, tmp_path):
    needs("0.5.14")
    model = tmp_path / "model"
    model.mkdir()
    (model / "config.json").write_text(json.dumps(MODEL), "utf-8")
    asked = {
        "folder": str(tmp_path),
        "entry_for": differs("0.5.14").entry_for,
        "switches": {"sizes": "pr28386"},
    }
    program = ["-m", "sglang.launch_server", "--model-path", str(model)]
    run = Run("0.5.14", asked, Interrupts(), [*program, *COMMAND.split(), *CPU.split()])
    try:
        assert run.watch(stall_s=4, limit_s=240) == "hang"
        stacks = run.stacks()
    finally:
        run.session.end()
    assert "The size of tensor a (512) must match the size of tensor b (640)" in run.log.failure
    assert "event_loop_pp" in stacks["PP0"]
    assert "broadcast_object_list" in stacks["PP1"]
