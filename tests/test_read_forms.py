"""One command in every form people paste it: all forms must read the same."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from eagerbuf.read import Reading, read_config

PROGRAM = ["python3", "-m", "sglang.launch_server"]
ARGV = (
    "--model-path /data/my-model --tp 8 --dp 2 --enable-dp-attention --chunked-prefill-size 8192 "
    "--max-running-requests 250 --page-size 64 --context-length 32768"
).split()
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


FORMS: dict[str, Form] = {
    "one line": lambda a: shlex.join(PROGRAM + a),
    "equals": lambda a: shlex.join(PROGRAM) + " " + " ".join(p.replace(" ", "=", 1) for p in pairs(a)),
    "continued": lambda a: "python3 -m sglang.launch_server \\\n  " + " \\\n  ".join(pairs(a)),
    "no blank": lambda a: "python3 -m sglang.launch_server\\\n  " + "\\\n  ".join(pairs(a)),
    "no blank, no indent": lambda a: "sglang serve\\\n" + "\\\n".join(pairs(a)),
    "blank after": lambda a: "sglang serve \\ \n  " + " \\  \n  ".join(pairs(a)) + " \\ \n\nnext",
    "missing": lambda a: "python -m sglang.launch_server\n  " + "\n  ".join(pairs(a)) + "\nnext one",
    "missing at margin": lambda a: "sglang serve \n" + "\n".join(pairs(a)) + "\n\nIt hangs.",
    "comments": lambda a: "sglang serve \\\n  # --tp 3\n " + " \\\n# --pp-size 4 \n ".join(pairs(a)),
    "double spaced": lambda a: "sglang serve \\\n\n" + " \\\n\n".join(pairs(a)),
    "carriage returns": lambda a: "sglang serve \\\r\n" + " \\\r\n".join(pairs(a)) + "\r\n",
    "powershell": lambda a: "sglang serve `\n" + " `\n".join(pairs(a)),
    "prompt": lambda a: "user@host:~# $" + shlex.join(PROGRAM + a) + "\n[2026-01-01] Started",
    "root prompt": lambda a: "# " + shlex.join(PROGRAM + a),
    "conda prompt": lambda a: "(base) [root@host ~]$ " + shlex.join(PROGRAM + a),
    "nohup": lambda a: "nohup " + shlex.join(PROGRAM + a) + " > log.txt 2>&1 &\ntail -f log.txt",
    "after cd": lambda a: "cd /x && A=1 " + shlex.join(PROGRAM + a) + " | tee --append log",
    "script path": lambda a: shlex.join(["python", "/sgl/python/sglang/launch_server.py", *a]),
    "positional": lambda a: shlex.join(["sglang", "serve", "my/model", *a[2:]]),
    "docker": lambda a: "docker run --gpus all --shm-size 32g -v a:/b -p 1:1 --ipc=host "
    "lmsysorg/sglang:latest " + shlex.join(PROGRAM + a),
    "docker sh": lambda a: "docker run -it img bash -c " + shlex.quote(shlex.join(PROGRAM + a)),
    "script in quotes": lambda a: "sudo bash -lc '\n cd /x\n sglang serve \\\n  "
    + " \\\n  ".join(pairs(a[:15])) + "\n'\necho 'it'",
    "ssh": lambda a: 'ssh host "cd /x && nohup ' + " ".join(PROGRAM + a[:15]) + ' > log 2>&1 &"',
    "markdown": lambda a: "Run `" + " ".join(PROGRAM + a[:15]) + "` and it's fine.",
    "prose": lambda a: "Here's what I ran:\n\n```bash\n" + shlex.join(PROGRAM + a) + "\n```\nIt's bad",
    "dashes of a word processor": lambda a: "sglang serve " + " ".join(a[:15]).replace("--", "\u2013"),
    "python list": lambda a: "cmd = " + repr([*PROGRAM, *a]) + "\nsubprocess.Popen(cmd)",
    "python lines": lambda a: "subprocess.run(\n [\n" + ",\n".join(map(json.dumps, PROGRAM + a))
    + ",  # --tp 3\n ], env=env)",
    "json": lambda a: json.dumps({"command": PROGRAM, "args": a}),
    "json command": lambda a: json.dumps({"x": [{"cmd": shlex.join(PROGRAM + a)}]}),
    "dockerfile": lambda a: f"ENTRYPOINT {json.dumps(PROGRAM)}\nCMD {json.dumps(a)}\n",
    "kubernetes": lambda a: manifest(PROGRAM, a),
    "kubernetes flags": lambda a: manifest([], a),
    "kubernetes sh": lambda a: manifest(["/bin/sh", "-c"], [shlex.join(PROGRAM + a)]),
    "kubernetes sh lines": lambda a: manifest(
        ["bash", "-c"], ["set -e\nsglang serve \\\n  " + " \\\n  ".join(pairs(a)) + "\n"]
    ),
    "kubernetes two in one": lambda a: manifest(PROGRAM, [*pairs(a[:15])]),
    "kubernetes equals": lambda a: manifest(PROGRAM, [p.replace(" ", "=", 1) for p in pairs(a[:15])]),
    "list": lambda a: "\n".join(f"- {json.dumps(word)}" for word in PROGRAM + a),
    "list of flags": lambda a: "args:\n" + "\n".join(f"  - {json.dumps(w)} # note" for w in a),
    "list, badly indented": lambda a: "  - command:\n    - python3\n   - -m\n  - sglang.launch_server\n"
    + "\n".join(" " * (i % 3) + f"- {w}" for i, w in enumerate(a[:15])),
    "list with a template": lambda a: "args:\n{{- if .Values.x }}\n"
    + "\n".join(f"  - {w}" for w in a[:15]) + "\n{{- end }}\n  - --host\n  - {{ .Values.host }}",
    "flow list": lambda a: "args: [" + ", ".join(map(json.dumps, a)) + "]",
    "compose": lambda a: "services:\n  s:\n    image: lmsysorg/sglang:latest\n    command: >\n      "
    + " ".join(PROGRAM) + "\n      " + "\n      ".join(pairs(a[:15])) + "\n    ports: ['1:1']\n",
    "compose entry point": lambda a: "services:\n  s:\n    entrypoint: python3 -m sglang.launch_server\n"
    "    command: " + " ".join(a[:15]),
    "flags alone": lambda a: shlex.join(a),
    "slurm": lambda a: "#!/bin/bash\n#SBATCH -N 2\nsrun --ntasks=2 bash -c '"
    + " ".join(PROGRAM + a[:15]) + " --node-rank $SLURM_PROCID'\n",
    "heredoc config": lambda a: "cat > /tmp/c.yaml << 'EOF'\nmodel-path: m\ntensor-parallel-size: 8\n"
    "dp-size: 2\nenable-dp-attention: true\nchunked-prefill-size: 8192\nEOF\n"
    "sglang serve --config c.yaml --max-running-requests 250 --page-size 64 --context-length 32768",
}  # fmt: skip


def sets(reading: Reading) -> dict[str, object]:
    """What the text sets: the values that are no defaults."""
    return {name: reading.values[name] for name, s in reading.sources.items() if s == "flag"}


@pytest.mark.parametrize("form", FORMS)
def test_every_form_reads_the_same(form: str) -> None:
    assert sets(read_config(FORMS[form](ARGV + JSON_VALUE))) == SETS


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
        "--model-path": st.text("abcXYZ0123456789/_.- '\"\\$#", min_size=1, max_size=12),
    },
)
SAFE = [name for name in FORMS if name not in ("heredoc config", "positional")]
QUOTED = ("one line", "nohup", "docker", "docker sh", "kubernetes", "json", "kubernetes sh", "list")


@settings(deadline=None, max_examples=60)
@given(FLAGS, st.sampled_from(QUOTED), st.randoms(use_true_random=False))
def test_any_flags_read_the_same_in_forms_that_keep_quotes(flags, form, random) -> None:  # type: ignore[no-untyped-def]
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
    [("1", True, 1.0), ("TRUE", True, 0.75), ("0", False, 0.0), ("no", False, 0.75), ("", False, 0.75)],
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
        ("vllm/vllm:v0.5.14", None),
    ],
)
def test_an_image_tag_may_tell_the_release(image: str, release: str | None) -> None:
    got = read_config(f"docker run {image} sglang serve --tp 2")
    assert got.release == release
    assert read_config(f"docker run {image} sglang serve --tp 2", release="0.5.19").release == "0.5.19"
    assert bool(got.notes) is image.endswith("v0.9.0")


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
    with pytest.raises(ValueError, match="2 launch commands that differ in pp_size, tp_size"):
        read_config("sglang serve --tp 8 --pp-size 2\nsglang serve --tp 4\n")
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
    with pytest.raises(ValueError, match="tp_size: names in a config file have dashes; write tp-size"):
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


def test_names_in_a_python_list_are_not_known() -> None:
    code = 'cmd = ["python3", "-m", "sglang.launch_server", "--tp", str(tp), f"--pp-size={pp}"]'
    got = read_config(code)
    assert (got.values["tp_size"], got.values["pp_size"]) == (None, None)
    assert len(got.notes) == 2


@pytest.mark.parametrize("text", ["hello world", "--foo --bar", "- a\n- b\n", "{}", "a: b"])
def test_text_without_a_launch_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="no SGLang launch command"):
        read_config(text)
