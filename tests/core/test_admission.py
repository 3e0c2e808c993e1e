"""Prefill batches worked out by hand: what each budget lets in, and at which token it stops."""

import pytest

from eagerbuf import EngineConfig, admit


def batch(prompts, chunk=100, requests=9, *, pool=None, page=1, prefill=16384, **more):
    """What is admitted under these budgets; `more` for `admit`, `off` with the radix cache off."""
    config = EngineConfig(
        chunk,
        requests,
        max_prefill_tokens=prefill,
        max_total_num_tokens=pool,
        page_size=page,
        disable_radix_cache=more.pop("off", False),
    )
    return admit(prompts, config, **more)


@pytest.mark.parametrize(
    ("prompts", "chunk", "page", "taken"),
    [
        ([8, 1], 8, 1, [8]),
        ([7, 1, 1], 8, 1, [7, 1]),
        ([5, 2, 3, 1], 8, 1, [5, 2, 1]),
        ([10, 5], 8, 1, [8]),
        ([5, 1], 8, 4, [5]),  # charged as 8
        ([3, 20], 10, 4, [3, 4]),  # 6 left, one whole page of them
        ([3, 20], 6, 4, [3]),  # 2 left, less than a page
        ([20], 3, 4, []),
        ([4, 4, 4], 12, 4, [4, 4, 4]),
        ([], 8, 1, []),
    ],
)
def test_the_chunk_is_charged_in_whole_pages(prompts, chunk, page, taken):
    assert batch(prompts, chunk, page=page) == taken


@pytest.mark.parametrize(
    ("prompts", "pool", "page", "taken"),
    [
        ([9], 10, 1, []),  # 9 and a page are all of it
        ([8, 1], 10, 1, [8]),  # 1 left, and 1 + 1 is not under it
        ([10, 8], 20, 1, [10]),
        ([10, 7, 1], 20, 1, [10, 7]),
        ([4, 3], 12, 4, [4]),  # 4 left
        ([3, 3], 17, 4, [3, 3]),  # 8 each: 9 left
        ([1], 1, 1, []),
        ([6, 2], 12, 1, [6, 2]),  # 7 taken, 5 left, over 2 + 1
    ],
)
def test_the_pool_keeps_a_page_for_each_request(prompts, pool, page, taken):
    assert batch(prompts, pool=pool, page=page) == taken


@pytest.mark.parametrize(
    ("prompts", "prefill", "page", "taken"),
    [
        ([30, 4], 10, 1, [30]),  # the first one is always taken
        ([4, 5, 1], 10, 1, [4, 5]),  # 1 left, and another 1 is not less
        ([4, 6], 10, 1, [4]),
        ([4, 5], 12, 4, [4]),  # 8 charged, 8 left
        ([4, 3], 12, 4, [4, 3]),
        ([10, 1], 10, 1, [10]),
    ],
)
def test_whole_prompts_share_the_prefill_budget(prompts, prefill, page, taken):
    assert batch(prompts, None, prefill=prefill, page=page, pool=1000) == taken


def test_a_chunk_ends_where_the_prefill_budget_does():
    assert batch([5, 5, 5], 100, prefill=10) == [5, 5]
    assert batch([5, 6, 5], 100, prefill=10) == [5, 6]
    assert batch([9, 1, 1], 100, prefill=10) == [9, 1]


def test_requests_are_bounded():
    assert batch([1] * 5, requests=3) == [1, 1, 1]
    assert batch([1] * 5, requests=3, mixed_decode=2) == [1]
    for riding in (3, 4):
        for late in (False, True):
            assert batch([1] * 5, requests=3, mixed_decode=riding, off=late, ignore_eos=late) == []


def test_riding_requests_take_a_token_of_every_budget():
    assert batch([9], 8, mixed_decode=3) == [5]
    assert batch([9], 8, mixed_decode=8) == []
    assert batch([9], 8, mixed_decode=7) == [1]
    assert batch([5], pool=10, mixed_decode=3) == [5]  # 7 left, over 5 + 1
    assert batch([6], pool=10, mixed_decode=3) == []
    assert batch([3, 4, 1], 100, prefill=10, mixed_decode=3) == [3, 4]  # 7 left


@pytest.mark.parametrize(
    ("carried", "pool", "page", "taken"),
    [
        (20, None, 1, [8]),
        (8, None, 1, [8]),
        (3, None, 1, [3, 5]),
        (3, None, 4, [3, 4]),  # 4 charged, 4 left
        (5, None, 4, [5]),
        (20, 6, 1, [6]),  # what the pool has
        (20, 1, 1, [1]),
        (3, 12, 1, [3, 5]),  # 4 charged, 8 left, over 5 + 1
        (3, 10, 1, [3]),  # 6 left: the 9 of the next one need 10
    ],
)
def test_a_half_done_request_goes_on_first(carried, pool, page, taken):
    prompts = [9] if pool is None or page > 1 or pool < 12 else [5]
    assert batch(prompts, 8, pool=pool, page=page, carried=carried) == taken


@pytest.mark.parametrize(
    ("chunk", "pool", "riding", "taken"),
    [
        (8, 3, 3, [5]),  # nothing left of the pool: it must go on all the same
        (8, 2, 3, [5]),
        (8, None, 8, []),
        (8, None, 9, []),
        (1, None, 1, []),
    ],
)
def test_a_half_done_request_beside_riding_ones(chunk, pool, riding, taken):
    assert batch([5], chunk, pool=pool, carried=20, mixed_decode=riding) == taken


def test_a_predicted_chunk_stands_for_the_static_one():
    config = EngineConfig(8, 4)
    assert admit([9], config, chunk=5) == [5]
    assert admit([9], config, chunk=12) == [9]
    assert admit([9], config, chunk=5, carried=20) == [5]
    assert admit([9], config, chunk=1, carried=20) == [1]


@pytest.mark.parametrize(
    ("prompts", "keywords", "taken"),
    [
        ([6, 5, 1], {"prefill": 10, "pool": 100}, [6, 5]),  # looks after adding
        ([6, 4, 1], {"prefill": 10, "pool": 100}, [6, 4]),
        ([6, 3, 9], {"prefill": 10, "pool": 100}, [6, 3, 9]),
        ([10, 1], {"pool": 10}, [10]),  # no page is kept free here
        ([11], {"pool": 10}, []),
        ([4, 5], {"pool": 10}, [4, 5]),  # 5 charged, 5 left
        ([4, 6], {"pool": 10}, [4]),
        ([8, 1], {"pool": 10}, [8, 1]),  # 9 charged, 1 left
        ([4], {"pool": 4, "page": 4}, [4]),
        ([1] * 4, {"requests": 3, "pool": 100}, [1, 1, 1]),
        ([3, 3], {"pool": 12, "page": 4}, [3, 3]),  # 8 charged, 4 left, a page
        ([3, 5], {"pool": 12, "page": 4}, [3]),
    ],
)
def test_ignore_eos_without_a_radix_cache_looks_afterwards(prompts, keywords, taken):
    assert batch(prompts, None, off=True, ignore_eos=True, **keywords) == taken


def test_ignore_eos_takes_what_is_left_of_a_chunk():
    assert batch([5, 9, 1], 8, off=True, ignore_eos=True, pool=100) == [5, 3]
    assert batch([8, 1], 8, off=True, ignore_eos=True, pool=100) == [8]
    assert batch([7, 5], 8, off=True, ignore_eos=True, pool=100) == [7, 1]
    assert batch([9], 8, off=True, ignore_eos=True, pool=100, carried=8) == [8]
    # 8 charged of the 6
    assert batch([5], 6, off=True, ignore_eos=True, pool=100, page=4, carried=20) == [6]
    assert batch([4, 4], 8, off=True, ignore_eos=True, pool=100, page=4) == [4, 4]
    assert batch([4, 30, 4], 100, off=True, ignore_eos=True, pool=20) == [4]
    with_cache = batch([6, 5], None, prefill=10, pool=100, ignore_eos=True)
    assert with_cache == [6]
    assert batch([6, 5], None, prefill=10, pool=100, off=True) == [6]


@pytest.mark.parametrize("late", [False, True])
def test_an_empty_prompt_is_refused(late):
    for prompts in ([0], [1, 0], [1, -4]):
        with pytest.raises(ValueError, match=f"a prompt of {prompts[-1]} tokens; give at least 1"):
            batch(prompts, pool=50, off=late, ignore_eos=late)
    assert batch([1, 1], pool=50, off=late, ignore_eos=late) == [1, 1]


@pytest.mark.parametrize(
    ("keywords", "message"),
    [
        ({"carried": -1}, "carried=-1: must not be negative"),
        ({"mixed_decode": -1}, "mixed_decode=-1: must not be negative"),
        ({"carried": 5, "mixed_decode": -2}, "mixed_decode=-2: must not be negative"),
        ({"carried": 5, "mixed_decode": 2, "chunk": 0}, "chunk=0: must be at least 1 token"),
        ({"chunk": 0}, "chunk=0: must be at least 1 token"),
        ({"chunk": -1}, "chunk=-1: must be at least 1 token"),
        ({"chunk": 0, "mixed_decode": 0, "carried": 0}, "chunk=0: must be"),
    ],
)
def test_a_number_that_makes_no_sense_is_named(keywords, message):
    with pytest.raises(ValueError, match=message):
        admit([5], EngineConfig(8, 4), **keywords)
    with pytest.raises(ValueError, match="carried=3: a half-done request exists only"):
        batch([5], None, pool=50, carried=3)
    assert batch([5], None, pool=50, carried=0) == [5]
