"""Commands of other engines take some of the same flags, but their buffers are not SGLang's."""

from __future__ import annotations

import pytest

from eagerbuf import read_config
from eagerbuf.cli import main

FLAGS = "--tensor-parallel-size 8 --tp-size 8"
CONTAINER = "spec:\n  containers:\n  - name: a\n    image: {}\n    command: {}\n    args:\n"
ITEMS = "    - --tensor-parallel-size\n    - '8'\n"
FOREIGN = {
    f"vllm serve deepseek-ai/DeepSeek-R1 {FLAGS} --max-model-len 8192": "vLLM",
    f"VLLM_USE_V1=1 nohup vllm  serve m \\\n  {FLAGS} &": "vLLM",
    f"python -m vllm.entrypoints.openai.api_server --model m {FLAGS}": "vLLM",
    f"docker run --gpus all vllm/vllm-openai:latest --model m {FLAGS}": "vLLM",
    f'cmd = ["vllm", "serve", "m", {", ".join(map(repr, FLAGS.split()))}]': "vLLM",
    CONTAINER.format("vllm/vllm-openai:v0.9.0", "[]") + ITEMS: "vLLM",
    CONTAINER.format("ours", '["vllm", "serve", "m"]') + ITEMS: "vLLM",
    CONTAINER.format("ours", "\n    - vllm\n    - serve") + ITEMS: "vLLM",
    f"trtllm-serve m {FLAGS}": "TensorRT-LLM",
    f"trtllm-serve m {FLAGS}  # and not SGLang": "TensorRT-LLM",
    "text-generation-launcher --model-id m --num-shard 2": "Text Generation Inference",
    f"lmdeploy serve api_server m {FLAGS}": "LMDeploy",
}


@pytest.mark.parametrize(("text", "engine"), FOREIGN.items(), ids=range(len(FOREIGN)))
def test_a_command_of_another_engine_is_refused_by_name(text: str, engine: str) -> None:
    with pytest.raises(ValueError, match=rf"^text: .* is a command of {engine}, not of SGLang"):
        read_config(text, release="0.5.14")


def test_it_is_one_line_and_ends_with_2(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "--command", f"vllm serve m {FLAGS}"]) == 2
    printed = capsys.readouterr()
    assert printed.err.startswith("eagerbuf: text: vllm serve is a command of vLLM")
    assert printed.err.count("\n") == 1
    assert printed.out == ""


@pytest.mark.parametrize(
    "text",
    [
        f"# was: vllm serve m {FLAGS}\npython -m sglang.launch_server --tp 4 --model-path m",
        "python -m sglang.launch_server --tp 4 --served-model-name vllm/vllm-m",
        "server_args=ServerArgs(model_path='m', tp_size=4)\nnot: vllm serve m",
        "--tp-size 4 --model-path vllm-project/m",
        "# moved from vllm serve to sglang\n--model-path m --tp-size 4",
    ],
)
def test_sglang_beside_another_engine_is_read(text: str) -> None:
    assert read_config(text, release="0.5.14").values["tp_size"] == 4


POD = """\
kind: Pod
spec:
  containers:
  - name: small
    image: lmsysorg/sglang:v0.5.14
    command: [python3, -m, sglang.launch_server]
    args: [--model-path, m, --tp-size, '4']
  - name: large
    command: [sh, -c, "python -m sglang.launch_server --model-path m --tp-size 8"]
"""
SERVICES = """\
services:
  one:
    image: lmsysorg/sglang
    command: python3 -m sglang.launch_server --model-path m --tp-size 4
  two:
    image: lmsysorg/sglang
    command: python3 -m sglang.launch_server --model-path m --tp-size 8
"""
SCRIPT = """\
# two servers
python -m sglang.launch_server --model-path m \\
  --tp-size 4 &
sglang serve --model-path m --tp-size 8
"""


@pytest.mark.parametrize(
    ("text", "named"),
    [
        (POD, " (small, large)"),
        (SERVICES, " (one, two)"),
        (SCRIPT, " (line 2, line 4)"),
        (POD.replace("large", "small"), " (server 1, server 2)"),
        ("cd a; sglang serve --tp 4; sglang serve --tp 8", " (server 1, server 2)"),
    ],
)
def test_commands_that_differ_are_named(text: str, named: str) -> None:
    with pytest.raises(ValueError, match="2 servers") as refusal:
        read_config(text)
    assert str(refusal.value) == (
        f"text: 2 servers that differ in tp_size{named}; give one of them, or take read_servers "
        "for all"
    )
