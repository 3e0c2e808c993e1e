"""`python -m tests.upstream.released_rank`: a rank of `startup.run_released`, guarded at once."""

from __future__ import annotations

from functools import partial

from eagerbuf.repro.hang.dist_env import Place
from eagerbuf.repro.hang.options import options_parser
from eagerbuf.repro.hang.settings import Settings
from eagerbuf.repro.launch.child import launched_rank
from eagerbuf.repro.launch.event_log import Journal
from eagerbuf.sizing import BufferSize
from tests.upstream.wheels import Wheel, sglang


def main() -> None:
    """Be the rank that the environment names; arguments: Settings, release, buffer size."""
    parser = options_parser("python -m tests.upstream.released_rank", __doc__)
    parser.add_argument("release")
    parser.add_argument("max_bs", type=int)
    parser.add_argument("max_num_tokens", type=int)
    options = vars(parser.parse_args())
    wheel = sglang(options.pop("release"))
    size = BufferSize(options.pop("max_bs"), options.pop("max_num_tokens"))
    place = Place.from_environment()
    settings = Settings(**options | {"ranks": place.ranks})
    launched_rank(partial(_live, settings, wheel, size, place))


def _live(
    settings: Settings,
    wheel: Wheel,
    size: BufferSize,
    place: Place,
    journal: Journal,
    listen: int | None,
) -> None:
    from tests.upstream.released_life import run_rank  # loads torch, which takes seconds

    run_rank(settings, wheel, size, place, journal, listen)


if __name__ == "__main__":
    main()
