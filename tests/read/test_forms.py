"""One command in every form people paste it: all forms must read the same."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable
from random import Random

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from eagerbuf import check
from eagerbuf.read import Reading, read_config, read_servers

PROGRAM = ["python3", "-m", "sglang.launch_server"]
FLAGS_TEXT = (
    "--model-path /data/my-model --tp 8 --dp 2 --enable-dp-attention --chunked-prefill-size 8192 "
    "--max-running-requests 250 --page-size 64 --context-length 32768"
)
ARGV = FLAGS_TEXT.split()
JSON_VALUE = ["--json-model-override-args", '{"a": {"tp_size": 3}, "b": "it\'s"}']
SETS = {
    "tp_size": 8,
    "dp_size": 2,
    "enable_dp_attention": True,
    "chunked_prefill_size": 4096,
    "max_running_requests": 125,
    "page_size": 64,
    "context_len": 32768,
}

Form = Callable[[list[str]], str]


def pairs(argv: list[str]) -> list[str]:
    """Flags with their values, one string each: ["--tp 8", "--enable-dp-attention"]."""
    lines: list[str] = []
    for word in argv:
        if word.startswith("--"):
            lines.append(word)
        else:
            lines[-1] += " " + shlex.quote(word)
    return lines


def manifest(command: list[str], args: list[str]) -> str:
    container = {"name": "a", "command": command, "args": args, "ports": [{"containerPort": 1}]}
    kind = {"apiVersion": "v1", "kind": "Pod", "spec": {"containers": [container]}}
    return yaml.safe_dump(kind)


def shell(argv: list[str]) -> str:
    return shlex.join(PROGRAM + argv)


def lines(argv: list[str], between: str, first: str = "sglang serve") -> str:
    """The command with `between` before each flag."""
    return "".join([first, *(between + pair for pair in pairs(argv))])


def equals(argv: list[str]) -> list[str]:
    return [pair.replace(" ", "=", 1) for pair in pairs(argv)]


def dashed(argv: list[str], before: str = "", after: str = "") -> str:
    return "".join(f"{before}- {word}{after}\n" for word in argv)


def quoted(argv: list[str]) -> list[str]:
    return [json.dumps(word) for word in argv]


def plainly(argv: list[str]) -> list[str]:
    """Without the value that needs quotes."""
    return argv[: len(ARGV)]


HERE_DOCUMENT = """cat > /tmp/c.yaml << 'EOF'
model-path: m
tensor-parallel-size: 8
dp-size: 2
enable-dp-attention: true
chunked-prefill-size: 8192
EOF
sglang serve --config c.yaml --max-running-requests 250 --page-size 64 --context-length 32768
"""
FORMS: dict[str, Form] = {
    "one line": shell,
    "equals": lambda a: " ".join([*PROGRAM, *equals(a)]),
    "continued": lambda a: lines(a, " \\\n  ", "python3 -m sglang.launch_server"),
    "no blank": lambda a: lines(a, "\\\n  "),
    "no blank, no indent": lambda a: lines(a, "\\\n"),
    "blank after": lambda a: lines(a, " \\  \n  ") + " \\ \n\nnext",
    "missing": lambda a: lines(a, "\n  ") + "\nnext one",
    "missing at the margin": lambda a: lines(a, "\n") + "\n\nIt hangs.",
    "carriage returns": lambda a: lines(a, " \\\r\n") + "\r\n",
    "powershell": lambda a: lines(a, " `\n"),
    "prompt": lambda a: f"user@host:~# ${shell(a)}\n[2026-01-01] Started",
    "root prompt": lambda a: f"# {shell(a)}",
    "conda prompt": lambda a: f"(base) [root@host ~]$ {shell(a)}",
    "nohup": lambda a: f"nohup {shell(a)} > log.txt 2>&1 &\ntail -f log.txt",
    "after cd": lambda a: f"cd /x && A=1 {shell(a)} | tee --append log",
    "script path": lambda a: shlex.join(["python", "/x/python/sglang/launch_server.py", *a]),
    "positional": lambda a: shlex.join(["sglang", "serve", "my/model", *a[2:]]),
    "docker": lambda a: (
        f"docker run --gpus all -v a:/b --ipc=host lmsysorg/sglang:latest {shell(a)}"
    ),
    "docker sh": lambda a: f"docker run -it img bash -c {shlex.quote(shell(a))}",
    "script": lambda a: (
        f"sudo bash -lc '\n cd /x\n {lines(plainly(a), chr(92) + chr(10))}\n'\necho 'x'"
    ),
    "ssh": lambda a: f'ssh host "cd /x && nohup {shell(plainly(a))} > log 2>&1 &"',
    "markdown": lambda a: f"Run `{shell(plainly(a))}` and it's fine.",
    "prose": lambda a: f"Here's what I ran:\n\n```bash\n{shell(a)}\n```\nIt's bad",
    "word processor": lambda a: shell(plainly(a)).replace("--", "\u2013"),
    "python list": lambda a: f"cmd = {[*PROGRAM, *a]!r}\nsubprocess.Popen(cmd)",
    "python lines": lambda a: (
        f"run(\n [\n{', # --tp 3'.join(quoted([*PROGRAM, *a]))},\n ], env=e)".replace(
            "# --tp 3", "# --tp 3\n"
        )
    ),
    "json": lambda a: json.dumps({"command": PROGRAM, "args": a}),
    "json command": lambda a: json.dumps({"x": [{"cmd": shell(a)}]}),
    "dockerfile": lambda a: f"ENTRYPOINT {json.dumps(PROGRAM)}\nCMD {json.dumps(a)}\n",
    "kubernetes": lambda a: manifest(PROGRAM, a),
    "kubernetes, flags": lambda a: manifest([], a),
    "kubernetes, sh": lambda a: manifest(["/bin/sh", "-c"], [shell(a)]),
    "kubernetes, script": lambda a: manifest(
        ["bash", "-c"], [f"set -e\n{lines(a, ' ' + chr(92) + chr(10))}\n"]
    ),
    "kubernetes, two in one": lambda a: manifest(PROGRAM, pairs(plainly(a))),
    "kubernetes, equals": lambda a: manifest(PROGRAM, equals(plainly(a))),
    "list": lambda a: dashed(quoted(PROGRAM + a)),
    "list of flags": lambda a: f"args:\n{dashed(quoted(a), '  ', ' # note')}",
    "bad indent": lambda a: (
        "  - command:\n    - python3\n   - -m\n  - sglang.launch_server\n"
        + "".join(dashed([word], " " * (i % 3)) for i, word in enumerate(plainly(a)))
    ),
    "template": lambda a: (
        f"args:\n{{{{- if .x }}}}\n{dashed(plainly(a), '  ')}{{{{- end }}}}\n"
        "  - --host\n  - {{ .host }}"
    ),
    "flow list": lambda a: f"args: [{', '.join(quoted(a))}]",
    "compose": lambda a: (
        "services:\n  s:\n    image: lmsysorg/sglang:latest\n    command: >\n      "
        f"{lines(plainly(a), chr(10) + '      ')}\n    ports: ['1:1']\n"
    ),
    "entry point": lambda a: (
        "services:\n  s:\n    entrypoint: python3 -m sglang.launch_server\n"
        f"    command: {' '.join(plainly(a))}"
    ),
    "flags alone": shlex.join,
    "slurm": lambda a: (
        f"#!/bin/bash\n#SBATCH -N 2\nsrun bash -c '{shell(plainly(a))} --nnodes $N'\n"
    ),
    "here-document": lambda _: HERE_DOCUMENT,
    "here-document, logged": lambda _: HERE_DOCUMENT.strip() + " > c.yaml.log 2>&1\n",
}


def sets(reading: Reading) -> dict[str, object]:
    """What the text sets: the values that are no defaults."""
    return {name: reading.values[name] for name, s in reading.sources.items() if s == "flag"}


@pytest.mark.parametrize("form", FORMS)
def test_every_form_reads_the_same(form: str) -> None:
    assert sets(read_config(FORMS[form](ARGV + JSON_VALUE))) == SETS


@pytest.mark.parametrize(
    "again",
    [
        "cat >> c.yaml << EOF\npage-size: 1\nEOF\n",
        "echo 'page-size: 1' >> /tmp/c.yaml\n",
        "sed -i s/8192/-1/ /tmp/c.yaml\n",
    ],
)
def test_a_config_file_that_is_written_again_is_not_known(again: str) -> None:
    written, started = HERE_DOCUMENT.split("sglang serve")
    got = read_config(f"{written}{again}sglang serve{started}")
    assert "chunked_prefill_size" in got.unknown
    assert any("--config c.yaml: not in the text" in note for note in got.notes)


@pytest.mark.parametrize("module", ["launch_sever", "bench_serving", "launch_router"])
def test_flags_of_a_module_that_starts_no_engine_are_refused(module: str) -> None:
    with pytest.raises(ValueError, match=f"^sglang.{module}: no module that starts"):
        read_config(f"python -m sglang.{module} --tp 8 --chunked-prefill-size 8192")


FLAGS = st.fixed_dictionaries(
    {},
    optional={
        "--tp-size": st.integers(1, 64),
        "--pp-size": st.integers(1, 16),
        "--chunked-prefill-size": st.one_of(st.just(-1), st.integers(1, 2**20)),
        "--max-running-requests": st.integers(1, 10**5),
        "--max-prefill-tokens": st.integers(1, 2**20),
        "--enable-dynamic-chunking": st.none(),
        "--disable-radix-cache": st.none(),
        "--model-path": st.text("abcXYZ0123456789/_.- '\"\\$#", min_size=1, max_size=12).filter(
            lambda path: not path.startswith("-")  # no value, for argparse
        ),
    },
)
QUOTED = (
    "one line",
    "nohup",
    "docker",
    "docker sh",
    "kubernetes",
    "json",
    "kubernetes, sh",
    "list",
)


@settings(deadline=None, max_examples=60)
@given(FLAGS, st.sampled_from(QUOTED), st.randoms(use_true_random=False))
def test_any_flags_read_the_same_in_forms_that_keep_quotes(
    flags: dict[str, int | str | None], form: str, random: Random
) -> None:
    names = list(flags)
    random.shuffle(names)
    argv = ["--trust-remote-code"]
    for name in names:
        argv += [name] if flags[name] is None else [name, str(flags[name])]
    expected = {n: v for n, v in flags.items() if n != "--model-path"}
    got = sets(read_config(FORMS[form](argv), max_total_num_tokens=10**6))
    wanted = {n.removeprefix("--").replace("-", "_"): v is None or v for n, v in expected.items()}
    assert got == wanted


@pytest.mark.parametrize("width", [*range(60, 131, 5), 160, 213])
def test_a_terminal_that_broke_the_lines(width: int) -> None:
    text = shlex.join(PROGRAM + ARGV + ["--host", "0.0.0.0", "--trust-remote-code"])
    broken = "\n".join(text[i : i + width] for i in range(0, len(text), width))
    assert sets(read_config(broken + "\n\nThen it hangs.")) == SETS


@pytest.mark.parametrize(
    "prose",
    [
        "With --pp-size 2 it hangs.",
        "When I add --pp-size 2 --enable-dynamic-chunking",
        "Adding --pp-size 2 fails",
        "curl --data x",
        "\n--pp-size 2 would make it hang.",
        "\n--chunked-prefill-size -1 did not help.",
        "\n--pp-size=2: pipeline parallelism",
        "\n- --pp-size 4: pipeline\n- --tp 2",
        "\n# note\n\n  --pp-size 2 is what it needs",
        "64 GPUs in all",
    ],
)
def test_prose_after_a_command_is_no_part_of_it(prose: str) -> None:
    long = shell(plainly(ARGV)) + " --host 0.0.0.0"
    assert sets(read_config(f"{long}\n{prose}\n")) == SETS


@pytest.mark.parametrize(
    ("text", "env"),
    [
        ("SGLANG_X=1 {}", {"SGLANG_X": "1"}),
        ("export SGLANG_X=0.65\n{}", {"SGLANG_X": "0.65"}),
        ("export A=1 SGLANG_X='a b'; B=2\n{}", {"SGLANG_X": "a b"}),
        ("# export SGLANG_X=1\n{}", {}),
        ("$ export SGLANG_X=1\n$ {}", {"SGLANG_X": "1"}),
        ("export SGLANG_X=1\nexport SGLANG_X=2\n{}", {"SGLANG_X": "2"}),
        ("export SGLANG_X=1\nSGLANG_X=3 SGLANG_Y=2 {}", {"SGLANG_X": "3", "SGLANG_Y": "2"}),
        ("env SGLANG_X=1 {}", {"SGLANG_X": "1"}),
        ('SGLANG_X="31,30" \\\nnohup {}', {"SGLANG_X": "31,30"}),
        ("docker run -e SGLANG_X=1 --env SGLANG_Y=2 --env=SGLANG_Z=3 i {}",
         {"SGLANG_X": "1", "SGLANG_Y": "2", "SGLANG_Z": "3"}),
        ("docker run -e SGLANG_X=1 i bash -c 'SGLANG_Y=2 {}'", {"SGLANG_X": "1", "SGLANG_Y": "2"}),
        ("FROM a\nENV SGLANG_X 1\nRUN {}", {"SGLANG_X": "1"}),
        ("You may set SGLANG_X=1 then\n{}", {}),
        ("HF_TOKEN=secret {}", {}),
    ],
)  # fmt: skip
def test_environment_variables(text: str, env: dict[str, str]) -> None:
    assert read_config(text.format("sglang serve --tp 2 --model-path m")).env == env


def test_environment_of_a_container() -> None:
    text = """
    - name: a
      image: lmsysorg/sglang:v0.5.14-cu126
      command: [sglang, serve, --tp, "2"]
      env:
      - {name: SGLANG_EAGER_INPUT_NO_COPY, value: "1"}
      - name: SGLANG_DYNAMIC_CHUNKING_SMOOTH_FACTOR
        value: 0.6
      - name: SGLANG_SECRET
        valueFrom: {secretKeyRef: {name: a, key: b}}
    """
    got = read_config(text)
    assert got.env == {
        "SGLANG_EAGER_INPUT_NO_COPY": "1",
        "SGLANG_DYNAMIC_CHUNKING_SMOOTH_FACTOR": "0.6",
    }
    assert (got.no_copy, got.smooth_factor, got.release) == (True, 0.6, "0.5.14")


@pytest.mark.parametrize(
    ("value", "on", "factor"),
    [
        ("1", True, 1.0),
        ("TRUE", True, 0.75),
        ("0", False, 0.0),
        ("no", False, 0.75),
        ("", False, 0.75),
    ],
)
def test_what_variables_mean(value: str, on: bool, factor: float) -> None:
    text = f"SGLANG_EAGER_INPUT_NO_COPY={value} SGLANG_DYNAMIC_CHUNKING_SMOOTH_FACTOR={value} "
    got = read_config(text + "sglang serve --tp 2")
    assert (got.no_copy, got.smooth_factor) == (on, factor)


@pytest.mark.parametrize(
    ("image", "release"),
    [
        ("lmsysorg/sglang:v0.5.14", "0.5.14"),
        ("docker.io/lmsysorg/sglang:v0.5.15.post1-cu129-amd64", "0.5.15.post1"),
        ("lmsysorg/sglang:0.5.20", "0.5.20"),
        ("ghcr.io/x/sglang:nightly_0.5.16-abc", "0.5.16"),
        ("lmsysorg/sglang:v0.4.6-cu124", "0.4.6"),
        ("lmsysorg/sglang:latest", None),
        ("lmsysorg/sglang:v0.5.14rc0", None),
        ("lmsysorg/sglang:v0.9.0", None),
        ("lmsysorg/sglang:v0.5.14rc1-cu129", None),
        ("rocm/sgl-dev:v0.5.14-rocm700-mi35x", None),
        ("lmsysorg/sglang:dev-cu13", None),
        ("vllm/vllm:v0.5.14", None),
    ],
)
def test_an_image_tag_may_tell_the_release(image: str, release: str | None) -> None:
    got = read_config(f"docker run {image} sglang serve --tp 2")
    assert got.release == release
    assert (
        read_config(f"docker run {image} sglang serve --tp 2", release="0.5.19").release == "0.5.19"
    )
    tag = image.partition(":")[2]
    assert any(tag in note or tag[1:] in note for note in got.notes) is (
        release is None and tag != "latest" and "vllm" not in image
    )


def test_other_ways_to_name_the_release() -> None:
    assert read_config("pip install 'sglang[all]==0.5.14'\nsglang serve --tp 2").release == "0.5.14"
    with pytest.raises(ValueError, match=r"release='9\.9\.9'"):
        read_config("sglang serve --tp 2", release="9.9.9")


@pytest.mark.parametrize("name", ["sglang.bench_one_batch", "sglang.benchmark.one_batch"])
def test_the_benchmark_in_both_module_names(name: str) -> None:
    text = f"python -m {name} --model-path m --batch-size 1 12 \\\n 14 --input-len 256 512 --tp 2"
    got = read_config(text)
    assert got.bench == ((1, 12, 14), (256, 512))
    assert got.values["tp_size"] == 2
    assert read_config(f"python -m {name} --tp 2").bench == ((1,), (1024,))
    assert read_config("python -m sglang.launch_server --tp 2").bench is None


def test_launches_that_agree_and_launches_that_do_not() -> None:
    same = "sglang serve --tp 8 --node-rank 0\n\nsglang serve --node-rank 1 --tp-size=8\n"
    assert read_config(same).values["tp_size"] == 8
    with pytest.raises(ValueError, match="2 servers that differ in tp_size, pp_size"):
        read_config("sglang serve --tp 8 --pp-size 2\nsglang serve --tp 4\n")
    modes = "sglang serve --tp 8 --disaggregation-mode {}\n"
    pair = read_servers(modes.format("prefill") + modes.format("decode"))
    assert [reading.name for reading in pair] == ["prefill", "decode"]
    assert [reading.values["disable_radix_cache"] for reading in pair] == [False, True]
    commented = "# sglang serve --tp 2\nsglang serve --tp 8\n"
    assert read_config(commented).values["tp_size"] == 8


@pytest.mark.parametrize(
    "other",
    [
        "python -m sglang_router.launch_router --worker-urls http://x --port 8000\n",
        "python3 -m sglang.bench_serving --backend sglang --num-prompts 10 --request-rate 4\n",
        "The `sglang.launch_server` module, or sglang serve, starts it.\n",
        '  File "/x/sglang/launch_server.py", line 51, in <module>\n    run_server(server_args)\n',
        "/x/sglang/launch_server.py:51: UserWarning: 'python -m sglang.launch_server' is still "
        "supported, but 'sglang serve' is the recommended entrypoint.\n"
        "  Example: sglang serve --model-path <model> [options]\n",
        "from sglang.launch_server import main\n",
        "pkill -f sglang.launch_server\n",
        "while ! pgrep -f 'sglang.launch_server --tp 4'; do sleep 1; done\n",
        "ps aux | grep 'sglang.launch_server --tp 4' | wc -l\n",
        'echo "Running python -m sglang.launch_server --tp 4"\n',
        'print("Running: python -m sglang.launch_server --tp 4")\n',
        'logger.info("python -m sglang.launch_server --tp 4")\n',
        "trap \"pkill -f 'sglang.launch_server --tp 4'\" EXIT\n",
        "# python -m sglang.launch_server --tp 4\n",
        "curl -X POST http://localhost --data '{\"tp\": 1}'\n",
    ],
)
def test_what_is_no_launch_is_passed_over(other: str) -> None:
    text = other + "sglang serve --model-path m --tp 8\n" + other
    assert sets(read_config(text)) == {"tp_size": 8}


def test_config_file() -> None:
    text = (
        "# comment\nmodel-path: m\ntensor-parallel-size: 8\nenable-dp-attention: true\ndp-size: 4\n"
        "disable-radix-cache: false\nmax-prefill-tokens: 25.6k\nlora-paths: [a, b]\n"
        'chunked-prefill-size: 8192\njson-model-override-args: {"a": 1}\n'
    )
    assert sets(read_config(text)) == {
        "tp_size": 8,
        "dp_size": 4,
        "enable_dp_attention": True,
        "max_prefill_tokens": 25600,
        "chunked_prefill_size": 2048,
    }
    with pytest.raises(
        ValueError, match="tp_size: names in a config file have dashes; write tp-size"
    ):
        read_config("model-path: m\ntp_size: 8\n")


def test_a_config_file_that_is_not_there_leaves_the_rest_unknown() -> None:
    got = read_config("sglang serve --config c.yaml --tp 8 --chunked-prefill-size 4096")
    assert got.values["tp_size"] == 8
    assert {"max_running_requests", "pp_size"} <= set(got.unknown)
    assert any("c.yaml" in note for note in got.notes)
    joined = read_config("sglang serve --config=c.yaml --tp 8 --chunked-prefill-size 4096")
    assert joined.values["pp_size"] == 1


def test_engine_in_python() -> None:
    code = (
        "llm = sgl.Engine(\n    model_path='m',\n    tp_size=8,\n    chunked_prefill_size=CHUNK,\n"
        "    enable_dp_attention=True,\n    dp_size=2,\n    disable_radix_cache=False,\n)\n"
    )
    got = read_config(code)
    assert sets(got) == {"tp_size": 8, "dp_size": 2, "enable_dp_attention": True}
    assert "chunked_prefill_size" in got.unknown


def test_a_switch_in_a_call_that_is_a_variable_leaves_the_rest_as_written() -> None:
    code = (
        "sgl.Engine(model_path='m', tp_size=args.tp, pp_size=2, chunked_prefill_size=-1, "
        "max_running_requests=64, max_prefill_tokens=0, enable_dynamic_chunking=args.dc)"
    )
    got = read_config(code)
    assert sets(got) == {
        "pp_size": 2,
        "chunked_prefill_size": -1,
        "max_running_requests": 64,
        "max_prefill_tokens": 0,
    }
    assert (got.values["tp_size"], got.values["enable_dynamic_chunking"]) == (None, None)
    assert got.values["dp_size"] == 1
    assert got.unread == (
        "tp_size: a variable stands there, so its value is not known",
        "enable_dynamic_chunking: a variable stands there, so its value is not known",
    )


@pytest.mark.parametrize("unpacked", ["**kwargs", "**vars(args)", "**{**a, 'b': 1}"])
def test_what_a_call_unpacks_may_set_anything(unpacked: str) -> None:
    for named in ("", "model_path='m', tp_size=8, "):
        got = read_config(f"llm = sgl.Engine({named}{unpacked})\n")
        assert got.values["pp_size"] is None
        assert [note.split(":")[0] for note in got.unread] == [unpacked.split(":")[0]]


def test_names_in_a_python_list_are_not_known() -> None:
    code = 'cmd = ["python3", "-m", "sglang.launch_server", "--tp", str(tp), f"--pp-size={pp}"]'
    got = read_config(code)
    assert (got.values["tp_size"], got.values["pp_size"]) == (None, None)
    assert len(got.notes) == 2


@pytest.mark.parametrize(
    "text",
    [
        "PS C:\\> sglang serve --tp 8",
        "C:\\Users\\me>python -m sglang.launch_server --tp 8",
        "sglang serve --tp 8; echo done --tp 3",
        "sglang serve --tp 8 && sleep 3 || exit --tp 3",
        "  sglang   serve\t--tp\t8  ",
        "sglang serve --tp \\\n8",
        "'sglang' 'serve' \"--tp\" '8'",
        "/opt/venv/bin/sglang serve --tp=8 <input >output",
        "time numactl -N 0 python3 -u -m sglang.launch_server --tp 8",
        "python3 -m sglang.launch_server --dist-init-addr <MASTER NODE IP>:5000 --tp 8",
        "python3 -m sglang.launch_server --node-rank $(hostname | tr -d a-z) --tp 8",
        "python3 -m sglang_router.launch_server --router-policy random --tp 8",
    ],
)
def test_more_ways_to_write_a_command(text: str) -> None:
    assert sets(read_config(text)) == {"tp_size": 8}


def test_a_reading_shows_what_was_set_and_what_is_unknown() -> None:
    html = read_config("sglang serve --tp 8 --chunked-prefill-size $C")._repr_html_()
    assert "tp_size" in html
    assert "unknown" in html
    assert "pp_size" not in html


@pytest.mark.parametrize("text", ["hello world", "--foo --bar", "- a\n- b\n", "{}", "a: b"])
def test_text_without_a_launch_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="no SGLang launch command"):
        read_config(text)


@pytest.mark.parametrize(
    "more",
    [
        "--pp-size 2",
        '\n--pp-size 2 \\\n--json-model-override-args \'{"a": 1, "b": 2}\'',
        "# double spaced\n\n--pp-size 2 &",
    ],
)
def test_flags_alone_below_a_blank_line_leave_the_command_open(more: str) -> None:
    got = read_config(f"sglang serve --tp 8\n\n{more}\n")
    assert sets(got) == {"tp_size": 8}
    assert any("--pp-size 2: below the command" in note for note in got.unread)
    assert check(got).verdict == "unknown"


@pytest.mark.parametrize("between", [" \\\n  # --pp-size 4\n ", " \\\n\n", " \\\n # a \\\n "])
def test_a_comment_or_a_blank_line_after_a_backslash_ends_the_command(between: str) -> None:
    text = "sglang serve --tp 8" + between + "--pp-size 4" + between + "--page-size 2"
    got = read_config(text)
    assert sets(got) == {"tp_size": 8}
    assert any("after a backslash ends the command there, as in a shell" in n for n in got.notes)
    assert check(got).verdict == "fits"


def test_a_command_that_is_only_printed_counts_where_there_is_no_other() -> None:
    text = 'echo "sglang serve --tp 8" > run.sh\nchmod +x run.sh\n'
    assert sets(read_config(text)) == {"tp_size": 8}
    assert sets(read_config("`sglang serve` is run as\n# sglang serve --tp 8\n")) == {"tp_size": 8}


def test_a_command_in_a_comment_does_not_hide_list_items() -> None:
    text = "# as python3 -m sglang.launch_server --tp 2\nargs:\n- --tp\n - '8'\n- --port\n"
    assert sets(read_config(text)) == {"tp_size": 8}
