"""What nbval says of an output that changed names the first value that differs."""

from notebooks.conftest import first_difference


def test_the_first_value_that_differs_is_named_by_its_path():
    stored = {"data": [{"x": [1, 2]}, {"x": [3, 4]}], "layout": {"title": {"text": "a"}}}
    now = {"data": [{"x": [1, 2]}, {"x": [3, 5]}], "layout": {"title": {"text": "b"}}}
    assert first_difference(stored, now) == ".data[1].x[1]: stored '4', now '5'"
    assert first_difference({"a": 1}, {"a": 1, "b": 2}) == ".b: stored 'None', now '2'"
    assert first_difference([1], [1, 2]) == "the output: stored '[1]', now '[1, 2]'"
