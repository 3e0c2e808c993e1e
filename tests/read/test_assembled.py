"""Commands in pieces: what a variable holds, what is added to it, and where it is used."""

from __future__ import annotations

import pytest

from eagerbuf import check, read_config

PROGRAM = "python -m sglang.launch_server"
BASE = f"{PROGRAM} --model-path m --max-running-requests 64"
MORE = "--pp-size 2 --enable-dynamic-chunking --chunked-prefill-size -1"
LIST = 'cmd = ["python3", "-m", "sglang.launch_server", "--model-path", "m"]\n'
DYNAMIC = "--enable-dynamic-chunking --chunked-prefill-size -1"
MORE_LIST = '["--pp-size", "2", "--enable-dynamic-chunking", "--chunked-prefill-size", "-1"]'
HANGS = f"{LIST.strip()} + {MORE_LIST}".replace('] + ["--pp-size", "2"', "")
CONDITION = "--pp-size: may be set or not"
APPENDED = "".join(f"cmd.append({word!r})\n" for word in MORE.split())


def verdict(text: str) -> str:
    return check(read_config(text, release="0.5.14", max_running_requests=64)).verdict


@pytest.mark.parametrize(
    "text",
    [
        f'SGL="{PROGRAM}"\n$SGL --model-path m {MORE}',
        f'CMD="{BASE} --chunked-prefill-size 8192"\nCMD+=" {MORE}"\neval $CMD',
        f'CMD="{BASE} "\nCMD+="{MORE}"\neval "$CMD"',
        f'CMD="{BASE}"\n$CMD {MORE}',
        f'CMD="{BASE}"\necho "Starting: $CMD"\nCMD="$CMD {MORE}"\nexec ${{CMD}}',
        f'export CMD="{BASE}"\nA=1 nohup $CMD {MORE} > log 2>&1 &',
        f'CMD="{BASE}"\nssh host "cd /x && $CMD {MORE}"',
        f'CMD=({BASE})\nCMD+=({MORE})\n"${{CMD[@]}}"',
        f'CMD=(\n  {PROGRAM}  # ours\n  --model-path m\n)\n"${{CMD[@]}}" {MORE} | tee log',
        f'if a; then\n  b\nfi\nCMD="{BASE}"\nif a; then\n  b\nfi\nCMD+=" {MORE}"\n$CMD',
        f"{LIST}cmd += {MORE_LIST}\nrun(cmd)",
        f"{LIST}if a:\n    b()\ncmd.extend({MORE_LIST})\nrun(cmd)",
        f"{LIST}{APPENDED}run(cmd)",
        f"{LIST}cmd = cmd + {MORE_LIST}",
        f"{LIST.strip()} + {MORE_LIST}\n",
        f'{LIST}cmd += "{MORE}".split()',
        f'cmd = "{BASE}"\ncmd += " {MORE}"\nos.system(cmd)',
        f'os.system("{BASE} " + "{MORE}")',
        f'os.system("{BASE} "\n    "{MORE} "\n    "--port 1")',
        f'run("{BASE} "\n    "{MORE}", shell=True)',
        f'cmd = "{BASE} " \\\n    "{MORE}"',
        f'CMD="{BASE}"\nCMD="numactl -N 0 $CMD"\nCMD="$CMD {MORE}"\nexec $CMD',
        f'CMD="{BASE}"\nFULL="$CMD {MORE}"\n$FULL',
        f'CMD="{BASE} {MORE}"\n[ "$A" ] && CMD="env $CMD"\n$CMD',
        f"{LIST}run(cmd + {MORE_LIST})",
        f"{LIST}cmd = ['numactl'] + cmd\ncmd += {MORE_LIST}",
        f"{LIST}cmd = [*cmd, *{MORE_LIST}]",
        f"{LIST}args = {MORE_LIST}\nrun(cmd + args)",
        f"{LIST}run(' '.join(cmd + {MORE_LIST}))",
        f"SGL := {PROGRAM}\nrun:\n\t$(SGL) --model-path m {MORE}\n",
        f'ARGS="{MORE}"\n{BASE} $ARGS',
        f'COMMON="--model-path m"\nARGS=($COMMON)\nARGS+=({MORE})\n{PROGRAM} "${{ARGS[@]}}"',
        f'CMD=({BASE})\nCMD=(numactl -N 0 "${{CMD[@]}}")\nCMD+=({MORE})\n"${{CMD[@]}}"',
        f"{LIST.strip()[:-1]}, '--model' '-path', 'm']\ncmd += {MORE_LIST}\n",
        f'cmd = ("{PROGRAM} "\n       f"--model-path {{m}} "\n       "{MORE}")',
    ],
)
def test_pieces_that_are_all_in_the_text_are_joined(text: str) -> None:
    assert verdict(text) == "hangs"


@pytest.mark.parametrize(
    ("text", "note"),
    [
        (
            f'CMD="{BASE}"\nif a; then\n  CMD+=" {MORE}"\nfi\n$CMD',
            CONDITION,
        ),
        (f'CMD="{BASE}"\nif a; then\nCMD+=" {MORE}"\nfi\n$CMD', CONDITION),
        (f'CMD="{BASE}"\n[ -n "$A" ] && CMD+=" {MORE}"\n$CMD', CONDITION),
        (f'CMD="{BASE}"\nCMD+=" $ARGS"\n$CMD', "$ARGS: not expanded"),
        (f'CMD="{BASE}"\nCMD+=$ARGS\n$CMD', "$ARGS: not expanded"),
        (f"{LIST}if a:\n    cmd += {MORE_LIST}\nrun(cmd)", CONDITION),
        (f"{LIST}if a:\n    cmd += extra\nrun(cmd)", "$extra: not expanded"),
        (f"{LIST}cmd.append(extra)", "$extra: not expanded"),
        (f"{LIST}cmd.insert(3, extra)", "$_: not expanded"),
        (f"{LIST}for k in x:\n    cmd += [f'--{{k}}', x[k]]\nrun(cmd)", "$_: not expanded"),
        (
            f"N=1\nfor i in 1 2; do {BASE} {DYNAMIC} --pp-size $N; N=2; done",
            "--pp-size: a variable",
        ),
        (f"source a.sh\n{BASE} {DYNAMIC} --pp-size $PP", "--pp-size: a variable"),
        (f"PP=1\nsource a.sh\n{BASE} {DYNAMIC} --pp-size $PP", "--pp-size: a variable"),
        (f"read PP\n{BASE} {DYNAMIC} --pp-size $PP", "--pp-size: a variable"),
        (f"PP=$(nproc)\n{BASE} {DYNAMIC} --pp-size $PP", "--pp-size: a variable"),
        (f"PP=$((1+1))\n{BASE} {DYNAMIC} --pp-size $PP", "--pp-size: a variable"),
        (f'PP=1\n[ "$A" ] && PP=2\n{BASE} {DYNAMIC} --pp-size $PP', "--pp-size: a variable"),
        (
            f"case $A in a) PP=1;; *) PP=2;; esac\n{BASE} {DYNAMIC} --pp-size $PP",
            "--pp-size: a variable",
        ),
        (f"PP=${{1:-4}}\n{BASE} {DYNAMIC} --pp-size $PP", "--pp-size: a variable"),
        (f"{LIST.strip()} + extra + {MORE_LIST}\n", "$extra: not expanded"),
        (f"{LIST.strip()} + more(a, [b]) + {MORE_LIST}\n", "$more: not expanded"),
        (f'os.system("{BASE} " + extra)', "$extra: not expanded"),
        (f'cmd = ("{BASE} " "--port 1 "\n  + ("{MORE}" if a else ""))', "$a: not expanded"),
        (f"{LIST}cmd.extend({MORE_LIST} if a else [])", "$a: not expanded"),
        (f"{LIST}cmd[cmd.index('--x') + 1] = '-1'", "$_: not expanded"),
        (f"{LIST}cmd += {MORE_LIST}\ncmd.remove('--pp-size')", "$_: not expanded"),
        (f"{HANGS[:-1]}, '--pp-size', '2' if a else '1']", "--pp-size: a variable"),
        (f"{HANGS[:-1]}, '--pp-size=' + pp]", "--pp-size: a variable"),
        (f"{HANGS[:-1]}, '--pp-size=%s' % pp]", "$pp: not expanded"),
        (f"{HANGS[:-1]}, '--pp-size=2' if a else '--port=1']", "$a: not expanded"),
    ],
)
def test_pieces_that_are_not_leave_the_verdict_open(text: str, note: str) -> None:
    got = read_config(text, release="0.5.14", max_running_requests=64)
    assert check(got).verdict == "unknown"
    assert any(one.startswith(note) for one in got.unread)


@pytest.mark.parametrize(
    "text",
    [
        f'CMD="{BASE}"\nif a; then\n  CMD+=" --trust-remote-code"\nfi\necho "$CMD"\n$CMD &',
        f'CMD="{BASE}"\n$CMD --node-rank 0 &\n$CMD --node-rank 1',
        f"CMD=\"{BASE}\"\n$CMD\nCMD='sleep 1'\n$CMD --pp-size 2",
        f'{LIST}cmd += ["--tp-size", "1"]\nif a:\n    cmd.append("--trust-remote-code")\nrun(cmd)\n'
        'cmd = ["--pp-size", "2"]',
        f'CMD="{BASE}"\n',
    ],
)
def test_pieces_that_size_nothing_change_nothing(text: str) -> None:
    got = read_config(text, release="0.5.14")
    assert (got.values["pp_size"], got.notes) == (1, ())


def test_each_use_of_a_variable_is_a_launch() -> None:
    with pytest.raises(ValueError, match=r"2 servers that differ in pp_size \(line 2, line 3\)"):
        read_config(f'CMD="{BASE}"\n$CMD --pp-size 2 &\n$CMD --pp-size 4')
