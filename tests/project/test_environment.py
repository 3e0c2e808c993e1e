"""The lists of packages agree: pyproject, environment.yml and the constraints of the set-up."""

import re
from pathlib import Path

import pytest
import yaml

try:
    import tomllib
except ModuleNotFoundError:  # Python 3.10, where pytest brings the same by this name
    import tomli as tomllib

ROOT = Path(__file__).parents[2]
CONDA_NAMES = {"torch": "pytorch", "kaleido": "python-kaleido"}
PYPI_ONLY = {"atheris", "playwright", "axe-playwright-python"}  # make fuzz, make browser get them
CONDA_ONLY = {"python>=3.11", "make", "pip"}


def project():
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def requirements():
    extras = project()["optional-dependencies"]
    return [*project()["dependencies"], *(name for extra in extras.values() for name in extra)]


def test_conda_has_the_same_packages_and_bounds():
    listed = yaml.safe_load((ROOT / "environment.yml").read_text(encoding="utf-8"))["dependencies"]
    conda = {entry for entry in listed if isinstance(entry, str)} - CONDA_ONLY
    wanted = set()
    for requirement in requirements():
        name, bound = re.fullmatch(r"([\w-]+)(>=.*)", requirement).groups()
        if name not in PYPI_ONLY:
            wanted.add(CONDA_NAMES.get(name, name) + bound)
    assert conda == wanted
    assert {"pip": ["-e ."]} in listed


def locked(extra):
    """name -> (versions, number of hashes) of one lock."""
    text = (ROOT / "locks" / f"{extra}.txt").read_text(encoding="utf-8")
    found = {}
    for block in re.split(r"\n(?=[a-z])", text):
        name, version = re.match(r"([\w.-]+)==([^ ;]+)", block).groups()
        versions, hashes = found.get(name, ((), 0))
        found[name] = ((*versions, version), hashes + block.count("--hash=sha256:"))
    return found


@pytest.mark.parametrize("extra", project()["optional-dependencies"])
def test_every_requirement_is_pinned_with_hashes(extra):
    wanted = [*project()["dependencies"], *project()["optional-dependencies"][extra]]
    names = {re.match(r"[\w-]+", requirement)[0] for requirement in wanted} - {"torch"}
    lock = locked(extra)
    assert names | {"hatchling", "editables"} <= set(lock)
    assert "torch" not in lock
    assert all(hashes >= len(versions) for versions, hashes in lock.values())
    assert not [v for versions, _ in lock.values() for v in versions if "+" in v or "://" in v]


def test_the_locks_agree():
    versions = {}
    for extra in project()["optional-dependencies"]:
        for name, (pins, _) in locked(extra).items():
            assert versions.setdefault(name, pins) == pins, f"{name} in locks/{extra}.txt"


def test_torch_is_pinned_by_version_alone():
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    assert [line for line in lines if not line.startswith("#")] == ["torch==2.13.0"]


def test_what_was_asked_for_is_there():
    names = {re.match(r"[\w-]+", requirement)[0] for requirement in requirements()}
    assert {"jupyterlab", "torch", "pandas", "plotly", "nbval"} <= names


def test_the_top_level_is_what_people_see():
    for name in ("notebooks", "eagerbuf", "data", "tests", "environment.yml", "README.md"):
        assert (ROOT / name).exists()


def test_the_readme_is_made_from_the_notebooks():
    from notebooks.site.readme import END, PICTURE, START, picture, table

    text = (ROOT / "README.md").read_text(encoding="utf-8")
    stored = text.split(START)[1].split(END)[0].strip()
    assert stored == table(ROOT / "notebooks")
    assert (ROOT / "notebooks" / PICTURE).read_bytes() == picture(ROOT / "notebooks")


def test_the_readme_speaks_true():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert 60 <= len(text.splitlines()) <= 120
    code = text.split("```python\n")[1].split("```")[0]
    scope = {}
    exec(code, scope)
    assert scope["report"].verdict == "fits"
    for path in re.findall(r"eagerbuf/[\w/]+(?:\.py|/)", text):
        assert (ROOT / path).exists(), path
