"""Flags as each release's argparse reads them: prefixes, repeats, suffixes, what is gone."""

from __future__ import annotations

from itertools import pairwise

import pytest

from eagerbuf.read import read_config
from eagerbuf.read.flags import UNREAD, newest_that_takes, parse
from eagerbuf.read.options import is_option, list_for, names_sizing, options, table, version
from eagerbuf.releases import releases
from tests.quickest import within


def values(flags: str, release: str | None = "0.5.14") -> dict[str, object]:
    return dict(parse(flags.split(), release).values)


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        ("--tp 8", {"tp_size": 8}),
        ("--tensor-parallel-size 8", {"tp_size": 8}),
        ("--tensor 8", {"tp_size": 8}),
        ("--dp 8 --enable-dp-attention", {"dp_size": 8, "enable_dp_attention": True}),
        ("--pp-size=2", {"pp_size": 2}),
        ("--pipeline-parallel-size 2", {"pp_size": 2}),
        ("--max-prefill 8192", {"max_prefill_tokens": 8192}),
        ("--speculative-algo EAGLE", {"speculative_algorithm": "EAGLE"}),
        ("--attention-context-parallel-size 2", {"attn_cp_size": 2}),
        ("--chunked-prefill-size -1", {"chunked_prefill_size": -1}),
        ("--chunked-prefill-size=-1", {"chunked_prefill_size": -1}),
        ("--tp 4 --port 1 --tp-size 8", {"tp_size": 8}),
        ("--context-length 25.6k", {"context_length": 25600}),
        ("--context-length 0.0005k", {"context_length": 0}),
        ("--max-total-tokens 1M", {"max_total_tokens": 1_000_000}),
        ("--max-total-tokens 32Ki", {"max_total_tokens": 32768}),
        ("--max-prefill-tokens 2Gi", {"max_prefill_tokens": 2**31}),
        ("--max-prefill-tokens 16_384", {"max_prefill_tokens": 16384}),
        ("--model-path m --port 3 --trust-remote-code", {}),
        ("--cuda-graph-bs 1 2 4 --tp 2", {"tp_size": 2}),
        ("--tp 2 --host", {"tp_size": 2}),
    ],
)
def test_flags_that_argparse_accepts(flags: str, expected: dict[str, object]) -> None:
    assert values(flags) == expected


@pytest.mark.parametrize(
    ("flags", "release", "words"),
    [
        ("--pp 2", "0.5.9", ("--pp", "ambiguous", "--pp-size", "--pp-max-micro-batch-size")),
        ("--pp 2", "0.5.14", ("--pp", "ambiguous", "--pp-async-batch-depth")),
        ("--pp 2", "0.5.23", ("--pp", "ambiguous")),
        ("--context 5", "0.5.21", ("--context", "ambiguous", "--context-bucket")),
        ("--tp eight", "0.5.14", ("--tp-size", "eight")),
        ("--tp", "0.5.14", ("--tp-size", "expected one argument")),
        ("--tp 2.0", "0.5.14", ("--tp-size", "2.0")),
        ("--chunked-prefill-size 8k", "0.5.14", ("--chunked-prefill-size", "8k")),
        ("--max-running-requests 1k", "0.5.14", ("--max-running-requests", "1k")),
        ("--context-length 1.5Ki", "0.5.14", ("--context-length", "1.5Ki", "whole numbers")),
        ("--context-length 8K", "0.5.14", ("--context-length", "8K")),
        ("--context-length 8k", "0.5.9", ("--context-length", "8k")),
        ("--context-length -8k", "0.5.14", ("--context-length",)),
        ("--cp-strategy ring", "0.5.14", ("--cp-strategy", "ring", "zigzag", "interleave")),
        ("--nsa-prefill-cp-mode x", "0.5.14", ("--nsa-prefill-cp-mode", "x")),
        ("--tp 2 --tp " + "9" * 5000, "0.5.14", ("--tp-size", "over 18 digits")),
        ("--max-total-tokens " + "9" * 19, "0.5.14", ("--max-total-tokens", "over 18 digits")),
    ],
)
def test_flags_that_argparse_refuses(flags: str, release: str, words: tuple[str, ...]) -> None:
    with pytest.raises(ValueError, match=r"^[^\n]{1,400}$") as refusal:
        values(flags, release)
    assert all(word in str(refusal.value) for word in words)


@pytest.mark.parametrize(
    ("flag", "has_it", "lacks_it", "when"),
    [
        ("--enable-nsa-prefill-context-parallel", "0.5.19", "0.5.20", "0.5.19"),
        ("--nsa-prefill-cp-mode", "0.5.10.post1", "0.5.23", "0.5.19"),
        ("--enable-dsa-prefill-context-parallel", "0.5.13", "0.5.12.post1", "0.5.13"),
        ("--enable-prefill-context-parallel", "0.5.19", "0.5.20", "0.5.19"),
        ("--enable-prefill-cp", "0.5.14", "0.5.13.post1", "0.5.14"),
        ("--cp-strategy", "0.5.23", "0.5.13", "0.5.14"),
        ("--attn-dp-size", "0.5.22", "0.5.21", "0.5.22"),
        ("--dwdp-size", "0.5.17", "0.5.16", "0.5.17"),
    ],
)
def test_a_flag_that_a_release_lacks_is_an_error_naming_it(
    flag: str, has_it: str, lacks_it: str, when: str
) -> None:
    mode = {"--nsa-prefill-cp-mode": " in-seq-split", "--cp-strategy": " zigzag"}.get(flag, "")
    text = flag + (mode or (" 2" if flag.endswith("-size") else ""))
    assert values(text, has_it)
    with pytest.raises(ValueError, match=rf"^{flag}: .*{lacks_it}.*{when}"):
        values(text, lacks_it)


def test_a_flag_of_other_releases_that_sizes_nothing_is_a_note() -> None:
    found = parse(["--tp", "2", "--mamba-scheduler-strategy", "x"], "0.5.23")
    assert found.values == {"tp_size": 2}
    assert found.notes == (
        "--mamba-scheduler-strategy: passed over, no flag of SGLang 0.5.23, which sizes nothing "
        "here",
    )


@pytest.mark.parametrize("value", ["$TP", "${TP:-8}", "`nproc`", "$(nproc)", "<TP>", "{{ .tp }}"])
def test_a_variable_is_there_but_not_known(value: str) -> None:
    found = parse(["--tp", value, "--moe-a2a-backend", value], "0.5.14")
    assert found.values == {"tp_size": UNREAD, "moe_a2a_backend": UNREAD}
    assert "--tp-size" in found.notes[0]


def test_benchmark_lists() -> None:
    text = "--batch-size 1 12 14 --tp 2 --input-len 256 512 --output-len 8 16"
    assert parse(text.split(), "0.5.14", bench=True).bench == ((1, 12, 14), (256, 512))
    assert parse([], "0.5.14", bench=True).bench == ((1,), (1024,))
    assert parse(["--batch-size", "$B"], "0.5.14", bench=True).bench is None
    assert parse([], "0.5.14").bench is None
    with pytest.raises(ValueError, match="--input-len"):
        parse(["--input-len", "0"], "0.5.14", bench=True)


def test_too_many_words_are_refused() -> None:
    with pytest.raises(ValueError, match="5000 words"):
        parse(["--tp"] * 5000, None)


def test_each_release_lists_its_own_flags() -> None:
    counts = {r: len(options(list_for(r), False)) for r in ("0.5.12", "0.5.14", "0.5.19", "0.5.23")}
    assert counts == {"0.5.12": 404, "0.5.14": 435, "0.5.19": 523, "0.5.23": 561}
    assert len(options(list_for("0.5.14"), True)) > counts["0.5.14"]


def test_the_table_covers_every_known_release() -> None:
    numbered = [version(r.release) for r in releases() if r.numbered]
    oldest, newest = (list_for(name) for name in ("0.1.0", None))
    assert oldest <= min(numbered)
    assert version("0.5.23") <= newest <= max(numbered)  # a newer release takes the newest list
    assert {version(o.first) for o in table()} | {version(o.last) for o in table()} <= {
        *numbered,
        oldest,
    }


def test_rows_of_one_option_do_not_overlap() -> None:
    rows: dict[tuple[str, str], list[tuple[tuple[int, ...], tuple[int, ...]]]] = {}
    for option in table():
        assert version(option.first) <= version(option.last), option
        span = version(option.first), version(option.last)
        rows.setdefault((option.name, option.program), []).append(span)
    for spans in rows.values():
        spans.sort()
        assert all(a[1] < b[0] for a, b in pairwise(spans))


def test_releases_without_a_list_use_the_nearest() -> None:
    assert list_for("main between #28386 and #28677") == version("0.5.14")
    assert list_for("0.4.6") == version("0.5.9")
    assert list_for("0.5.12.post1") == version("0.5.12.post1")
    assert list_for("9.0.0") == list_for(None)


def test_option_names() -> None:
    assert is_option("--tp-size=8")
    assert not is_option("--tp")
    assert names_sizing("--tp")
    assert names_sizing("--model")
    assert not names_sizing("--port")
    assert not names_sizing("--")


def test_an_unknown_flag_says_that_sglang_refuses_it_and_what_it_may_be_meant_for() -> None:
    refuses = "SGLang 0.5.23 has no such flag and refuses to start with it"
    for flag, guess in (("--pp-szie", "; did you mean --pp-size?"), ("--zzz", "")):
        with pytest.raises(ValueError, match="has no such flag") as refusal:
            parse([flag, "2", "--tp", "2"], "0.5.23")
        assert str(refusal.value) == f"{flag}: {refuses}{guess}"


@pytest.mark.parametrize("module", ["bench_offline_throughput", "bench_one_batch_server"])
def test_programs_with_flags_of_their_own_are_not_said_to_refuse_them(module: str) -> None:
    got = read_config(f"python -m sglang.{module} --num-prompts 10 --tp 2")
    assert got.notes == (
        "--num-prompts: passed over, no flag of SGLang 0.5.23, and the program has flags of its "
        "own",
    )


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        ("--tp 8 4", "4"),
        ("junk --tp 2", "junk"),
        ("--enable-dynamic-chunking true", "true"),
        ("--tp 2 and it fails.", "and it fails."),
        ("-x --tp 2 3", "-x 3"),
        ("--tp 2 [MODEL]", "[MODEL]"),
        ("--tp 2 -- --pp-size 4", "-- --pp-size 4"),
    ],
)
def test_words_that_are_neither_flags_nor_values_are_named(flags: str, words: str) -> None:
    with pytest.raises(ValueError, match=r"SGLang 0\.5\.14 refuses to start") as refusal:
        parse(flags.split(), "0.5.14")
    assert str(refusal.value).startswith(f"{words}: no flag and no value of one")
    why = "passed over, no flag and no value of one"
    assert parse(flags.split(), "0.5.14", strict=False).notes == (f"{words}: {why}",)


@pytest.mark.parametrize("flags", ["--foo 3 4 --tp 2", "--tp 2 --foo=3", "--foo a --tp 2 )"])
def test_values_of_unknown_flags_are_not_named_again(flags: str) -> None:
    (note,) = parse(flags.split(), "0.5.14", strict=False).notes
    assert note.startswith("--foo: ")


def test_a_model_behind_sglang_serve_is_one() -> None:
    got = read_config("sglang serve my/model --tp 2")
    assert (got.model, got.notes) == ("my/model", ())


def test_many_unknown_flags_take_little_time() -> None:
    argv = [word for i in range(1500) for word in (f"--unknown-flag-{i}", str(i))]
    parse(argv[:2], "0.5.14", strict=False)
    assert within(1.0, lambda: parse(argv, "0.5.14", strict=False))
    assert len(parse(argv, "0.5.14", strict=False).notes) == 1500


@pytest.mark.parametrize("word", ["m --pp-size 4", "x\n--tp 2", "a b --chunked-prefill-size=-1"])
def test_a_word_that_holds_flags_is_one_quote_too_few_or_too_many(word: str) -> None:
    with pytest.raises(ValueError, match="one word that holds flags; is a quote missing"):
        parse(["--model-path", word, "--tp", "2"], "0.5.14")


@pytest.mark.parametrize(
    ("argv", "found"),
    [
        (["--tp", "2"], None),
        (["--cuda-graph-max-bs", "8"], ("0.5.19", "--cuda-graph-max-bs")),
        (["--cuda-graph-max-bs=8", "--zzz"], ("0.5.19", "--cuda-graph-max-bs")),
        (["--nsa-prefill-cp-mode", "in-seq-split"], ("0.5.19", "--nsa-prefill-cp-mode")),
        (["--cuda-graph-max-bs", "8", "--attn-dp-size", "2"], None),
        (["--zzz", "8"], None),
    ],
)
def test_the_newest_release_that_takes_all_flags(
    argv: list[str], found: tuple[str, str] | None
) -> None:
    assert newest_that_takes(argv, bench=False) == found
