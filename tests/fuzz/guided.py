"""One reader fed by atheris, which keeps what reaches new code: `python -m tests.fuzz.guided`."""

from __future__ import annotations

import sys
from itertools import islice
from pathlib import Path

import atheris

with atheris.instrument_imports(include=["eagerbuf"]):
    from tests.fuzz import mutate, targets

    targets.warm({sys.argv[1]: islice(mutate.inputs(sys.argv[1], -1), 90)})


def quoted(word: bytes) -> str:
    """A line of libFuzzer's dictionary."""
    return '"' + "".join(f"\\x{byte:02x}" for byte in word[:60]) + '"\n'


def main(target: str, seconds: str, folder: str) -> None:
    """Feed `target` that long; `folder`/corpus keeps inputs, `folder`/crash-* what broke it."""
    place = Path(folder)
    corpus = place / "corpus"
    corpus.mkdir(parents=True, exist_ok=True)
    for number, data in enumerate(mutate.seeds(target)):
        (corpus / f"seed-{number}").write_bytes(data)
    (place / "words").write_text("".join(map(quoted, mutate.words())))
    limits = [f"-max_total_time={seconds}", f"-max_len={mutate.LONGEST}", "-timeout=20"]
    kept = [f"-artifact_prefix={place}/", f"-dict={place / 'words'}", str(corpus)]
    atheris.Setup([sys.argv[0], *limits, "-rss_limit_mb=4096", *kept], targets.TARGETS[target])
    atheris.Fuzz()


if __name__ == "__main__":
    main(*sys.argv[1:])
