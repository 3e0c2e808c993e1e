"""Which variables of a text are in effect for the command in it: exports, units, images, code."""

from __future__ import annotations

import json

import pytest

from eagerbuf import check, read_config, read_servers

NC = "SGLANG_EAGER_INPUT_NO_COPY"
PROGRAM = "python -m sglang.launch_server"
FLAGS = (
    "--model-path m --tp 8 --chunked-prefill-size 8100 --enable-attn-tp-input-scattered "
    "--max-running-requests 128"
)
RUN = f"{PROGRAM} {FLAGS}"  # overflows where batches are copied, fits where they are not
LIST = json.dumps(RUN.split())
CALL = (
    'sgl.Engine(model_path="m", tp_size=8, chunked_prefill_size=8100, '
    "enable_attn_tp_input_scattered=True, max_running_requests=128)"
)


def container(rest: str) -> str:
    return f"containers:\n- name: a\n  command: [sglang, serve]\n  args: {FLAGS.split()}\n{rest}"


@pytest.mark.parametrize(
    "text",
    [
        f"export {NC}=1\nif a; then\n  b\nfi\n{RUN}",
        f"if a; then\n  export {NC}=1\n  {RUN}\nfi",
        f"{NC}=1\nexport {NC}\n{RUN}",
        f"set -a\n{NC}=1\nset +a\n{RUN}",
        f"unset {NC}\nexport {NC}=1\n{RUN}",
        f"cd /x && export {NC}=1 && {RUN}",
        f'bash -c "export {NC}=1; {RUN}"',
        f"export {NC}=1\nbash -c 'exec {RUN}'",
        f"export {NC}=1\ndocker run -e {NC} i {RUN}",
        f"export {NC}=1\nsudo -E {RUN}",
        f'CMD="{PROGRAM}"\nexport {NC}=1\n$CMD {FLAGS}',
        f"cd /x && . env.sh && export {NC}=1 && exec {RUN}",
        f"cat > run.sh <<'EOF'\nexport {NC}=1\n{RUN}\nEOF\nbash run.sh",
        f"setup() {{\n  export {NC}=1\n}}\nsetup\n{RUN}",
        f"main() {{\n  export {NC}=1\n  {RUN}\n}}\nmain",
        f"(export {NC}=1; {RUN} )",
        f"export {NC}=1\nsrun --export=ALL,A=1 {RUN}",
        f"srun --export=ALL,{NC}=1 {RUN}",
        f"$env:{NC} = '1'\n{RUN}".replace(" = ", "="),
        f"[Service]\nEnvironment={NC}=1\nExecStart=/usr/bin/{RUN}",
        f'[Service]\nExecStart=/usr/bin/{RUN}\nEnvironment="A=b" "{NC}=1"',
        f'[program:a]\nenvironment=A="b",{NC}="1",B="2"\ncommand={RUN}',
        f"[program:a]\ncommand={RUN}\nenvironment = {NC}=1,B=2",
        f"FROM a\nENV A=1 \\\n    {NC}=1\nCMD {LIST}",
        f"FROM a\nCMD {LIST}\nENV {NC} 1",
        f'os.environ["{NC}"] = "1"\nsubprocess.run({LIST})',
        f'import os\n\nos.environ.setdefault("{NC}", "1")\nllm = {CALL}',
        f'def main():\n    os.environ["{NC}"] = "1"\n    llm = {CALL}',
        container(f"  env: [{{name: {NC}, value: '1'}}]"),
        f'containers:\n- command: [bash, -c]\n  args: ["export {NC}=1 && exec {RUN}"]',
        f"containers:\n- command: [bash, -c]\n  args:\n  - |\n    export {NC}=1\n    exec {RUN}\n",
    ],
)
def test_a_variable_that_is_in_effect(text: str) -> None:
    got = read_config(text, release="0.5.14")
    assert (got.no_copy, check(got).verdict, got.notes) == (True, "fits", ())


@pytest.mark.parametrize(
    "text",
    [
        f"export {NC}=1\nunset {NC}\n{RUN}",
        f"export {NC}=1\nexport -n {NC}\n{RUN}",
        f"export {NC}=1\nenv -u {NC} {RUN}",
        f"export {NC}=1\nenv -i {RUN}",
        f"{RUN}\nexport {NC}=1",
        f"{NC}=1\n{RUN}",
        f"{NC}=1 python warm.py\n{RUN}",
        f"if a; then\n  export {NC}=1\nfi\n{RUN}",
        f"if a; then\n  export {NC}=1\nelse\n  b\nfi\n{RUN}",
        f'[ -n "$A" ] && export {NC}=1\n{RUN}',
        f"a || export {NC}=1\n{RUN}",
        f"export {NC}=1\ndocker run i {RUN}",
        f"export {NC}=1\nssh host '{RUN}'",
        f"export {NC}=1\nsudo {RUN}",
        f"export {NC}=1\nsu - me -c '{RUN}'",
        f"export {NC}=1\npdsh -w a[1-2] '{RUN}'",
        f"export {NC}=1\nsrun --export=NONE {RUN}",
        f"export {NC}=1\nsrun --export=PATH,HOME {RUN}",
        f"export {NC}=1\nsrun apptainer exec --cleanenv i {RUN}",
        f"a | grep -q H200 && export {NC}=1\n{RUN}",
        f"cat > run.sh <<'EOF'\nexport {NC}=1\nEOF\n{RUN}",
        f"ssh host <<EOF\nexport {NC}=1\nEOF\n{RUN}",
        f"(export {NC}=1; ./warm.sh)\n{RUN}",
        f"setup() {{\n  export {NC}=1\n}}\n{RUN}",
        f"[Service]\nEnvironment={NC}=1\nExecStart=/bin/a\n[Service]\nExecStart=/usr/bin/{RUN}",
        f'if a:\n    os.environ["{NC}"] = "1"\nllm = {CALL}',
        f'llm = {CALL}\nos.environ["{NC}"] = "1"',
        f"# export {NC}=1\n{RUN}",
        f"You may set {NC}=1 then\n{RUN}",
        f"{NC}=${{NC:-1}} {RUN}",
        f"export {NC}=$A\n{RUN}",
        f"docker run -e {NC} i {RUN}",
        container(f"  env: [{{name: {NC}, valueFrom: {{configMapKeyRef: {{name: a}}}}}}]"),
    ],
)
def test_a_variable_that_is_not_is_named(text: str) -> None:
    got = read_config(text, release="0.5.14")
    assert (got.no_copy, check(got).verdict) == (False, "overflows")
    assert any(note.startswith(f"{NC}: in the text, but not") for note in got.notes)


@pytest.mark.parametrize(
    "text",
    [f"{NC}=1 {RUN} --port 1 &\n{RUN} --port 2", f"{RUN} &\nexport {NC}=1\n{RUN} --port 2"],
)
def test_of_two_servers_the_one_that_copies_is_the_worst(text: str) -> None:
    both = read_servers(text, release="0.5.14")
    assert sorted(reading.no_copy for reading in both) == [False, True]
    assert check(both).verdict == "overflows"


@pytest.mark.parametrize(
    ("text", "what"),
    [
        (f"docker run --env-file f i {RUN}", "--env-file"),
        (f"[Service]\nEnvironmentFile=/a\nExecStart=/usr/bin/{RUN}", "EnvironmentFile"),
        (container("  envFrom: [{configMapRef: {name: a}}]"), "envFrom"),
    ],
)
def test_a_file_of_variables_is_named(text: str, what: str) -> None:
    got = read_config(text, release="0.5.14")
    assert check(got).verdict == "overflows"
    assert got.notes == (f"{what}: what it sets is not known; {NC} is taken as off",)


@pytest.mark.parametrize("text", [RUN, f"export {NC}=0\n{RUN}", f"{NC}=no {RUN}"])
def test_a_variable_that_is_off_needs_no_note(text: str) -> None:
    assert read_config(text, release="0.5.14").notes == ()
