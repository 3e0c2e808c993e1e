"""What else a command turns on that SGLang sizes by `max_prefill_buffer_tokens`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

from eagerbuf.read.launch import Launch
from eagerbuf.read.reading import ON


def also_sized(launches: Sequence[Launch], env: Mapping[str, str]) -> Iterator[str]:
    """A note for each such consumer, under dynamic chunking, where the number has a spare part."""
    if not any("--enable-dynamic-chunking" in launch.argv for launch in launches):
        return
    from eagerbuf.consumers.known import CONSUMERS

    written = {word.replace("=", " ", 1) for launch in launches for word in launch.argv}
    written |= {f"{flag} {value}" for each in launches for flag, value in pairwise(each.argv)}
    written |= {f"{name}=1" for name, value in env.items() if value.lower() in ON}
    for consumer in CONSUMERS:
        for words in filter(written.__contains__, consumer.flags):
            yield f"{words}: from {consumer.since} max_prefill_tokens also sizes {consumer.name}"
