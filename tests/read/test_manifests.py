"""Manifests beyond plain Kubernetes lists: ECS, docker inspect, kubectl get, Helm and Jinja."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml

from eagerbuf import check, read_config

PROGRAM = ["python3", "-m", "sglang.launch_server"]
FLAGS = ["--model-path", "m", "--tp", "8", "--pp-size", "2", "--max-running-requests", "64"]
IMAGE = "lmsysorg/sglang:v0.5.14"
VARIABLE = "SGLANG_EAGER_INPUT_NO_COPY"


def ecs(variables: list[dict[str, str]]) -> dict[str, Any]:
    container = {"entryPoint": PROGRAM, "command": FLAGS, "image": IMAGE, "environment": variables}
    return {"family": "x", "containerDefinitions": [{"name": "a", **container}]}


def inspected(entry: list[str] | None, command: list[str], env: list[str]) -> list[dict[str, Any]]:
    config = {"Env": env, "Cmd": command, "Entrypoint": entry, "Image": IMAGE}
    run = [*(entry or []), *command]
    return [{"Path": run[0], "Args": run[1:], "Image": "sha256:1", "Name": "/a", "Config": config}]


@pytest.mark.parametrize("indent", [None, 2])
@pytest.mark.parametrize(
    "document",
    [
        ecs([{"name": VARIABLE, "value": "1"}]),
        inspected(PROGRAM, FLAGS, [f"{VARIABLE}=1", "PATH=/x"]),
        inspected(None, [*PROGRAM, *FLAGS], [f"{VARIABLE}=1"]),
        inspected(["bash", "-c"], [" ".join(["exec", *PROGRAM, *FLAGS])], [f"{VARIABLE}=1"]),
    ],
)
def test_a_container_in_json(document: object, indent: int | None) -> None:
    got = read_config(json.dumps(document, indent=indent))
    assert (got.values["tp_size"], got.values["pp_size"], got.release) == (8, 2, "0.5.14")
    assert (got.no_copy, got.notes) == (True, ())
    assert read_config(json.dumps(document).replace(f"{VARIABLE}=1", "A=1")).values["pp_size"] == 2


def test_a_part_of_a_task_definition() -> None:
    text = json.dumps(ecs([])["containerDefinitions"][0], indent=1).strip("{}")
    assert read_config(text).values["pp_size"] == 2


def test_a_secret_of_a_task_is_not_known() -> None:
    task = ecs([])
    task["containerDefinitions"][0]["secrets"] = [{"name": VARIABLE, "valueFrom": "arn"}]
    got = read_config(json.dumps(task))
    assert not got.no_copy
    assert [note.split(":")[0] for note in got.notes] == [VARIABLE]


def test_what_was_applied_before_is_no_second_launch() -> None:
    def deployment(args: list[str]) -> dict[str, Any]:
        container = {"name": "a", "image": IMAGE, "command": PROGRAM, "args": args}
        return {"metadata": {"name": "x"}, "spec": {"containers": [container]}}

    live = deployment(FLAGS)
    before = json.dumps(deployment(["--model-path", "m", "--tp", "4"])) + "\n"
    live["metadata"]["annotations"] = {"kubectl.kubernetes.io/last-applied-configuration": before}
    assert read_config(yaml.safe_dump(live)).values["tp_size"] == 8
    assert read_config(json.dumps(live)).values["tp_size"] == 8


HELM = """spec:
  {{- include "labels" . | nindent 2 }}
  containers:
  - name: a
    command: ["python3", "-m", "sglang.launch_server"]
    {{/* its flags */}}
    args:
    - --model-path=m
    - --tp=8
    - --max-running-requests=64
    MORE
    resources:
    {{- toYaml .Values.resources | nindent 4 }}
"""
DYNAMIC = "- --enable-dynamic-chunking\n    - --pp-size=4"


@pytest.mark.parametrize(
    ("more", "note"),
    [
        (f"{{{{- if .Values.dc }}}}\n    {DYNAMIC}\n    {{{{- end }}}}", "--pp-size: may be set"),
        (f"{{% if dc %}}\n    {DYNAMIC}\n    {{% endif %}}", "--pp-size: may be set"),
        ("{{- if .a }}\n    - --pp-size=4\n    {{- else }}\n    - --pp-size=2\n    {{- end }}",
         "--pp-size: may be set"),
        ("{{- with .a }}\n    {{- toYaml . | nindent 4 }}\n    {{- end }}", "{{- toYaml ."),
        ("{{- range .a }}\n    - {{ . }}\n    {{- end }}", "{{ . }}: not expanded"),
        ("{{- toYaml .Values.extraArgs | nindent 4 }}", "{{- toYaml .Values.extraArgs"),
    ],
)  # fmt: skip
def test_a_template_leaves_open_what_it_decides(more: str, note: str) -> None:
    got = read_config(HELM.replace("MORE", more), release="0.5.14")
    assert check(got).verdict == "unknown"
    assert (got.values["tp_size"], got.values["pp_size"]) == (8, None)
    assert any(one.startswith(note) for one in got.unread)


@pytest.mark.parametrize(
    "more",
    [
        "- --port={{ .Values.port }}",
        "{{- if .Values.trust }}\n    - --trust-remote-code\n    {{- end }}",
        "{{- $x := 1 }}\n    {# a comment #}",
    ],
)
def test_a_template_that_sizes_nothing_leaves_the_rest_known(more: str) -> None:
    got = read_config(HELM.replace("MORE", more), release="0.5.14")
    assert (check(got).verdict, got.values["pp_size"], got.notes) == ("fits", 1, ())


def test_one_condition_around_all_flags_is_taken_to_hold() -> None:
    one = "args:\n{{- if .a }}\n- --tp\n- '8'\n- --pp-size=2\n{{- end }}\n- --port\n- {{ .p }}\n"
    assert read_config(one).values["pp_size"] == 2
    two = one.replace("- --pp-size=2", "{{- end }}\n{{- if .b }}\n- --pp-size=2")
    assert read_config(two).values["pp_size"] is None


@pytest.mark.parametrize("text", ["model_path: m\ntp_size: 8\npp_size: 4", "tp_size: 8"])
def test_names_in_a_config_file_have_dashes(text: str) -> None:
    with pytest.raises(ValueError, match="names in a config file have dashes; write"):
        read_config(text)
