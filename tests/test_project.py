"""What a project needs beside its code: metadata, a site without warnings, whole packages, files that people look for."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from importlib.util import find_spec
from pathlib import Path

import pytest
import yaml

import se_rl

REPOSITORY = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]
HOME = "https://github.com/se-rl/se-rl"


def git_files() -> set[str]:
    """The files of the repository; a source package without git has them all."""
    asked = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    told = subprocess.run(asked, cwd=REPOSITORY, capture_output=True, text=True)
    if told.returncode:
        pytest.skip("this is no git clone")
    return {name for name in told.stdout.splitlines() if (REPOSITORY / name).is_file()}


def test_metadata() -> None:
    assert PROJECT["authors"] == [{"name": "SE-RL contributors"}]
    assert PROJECT["version"] == se_rl.__version__
    assert len(PROJECT["keywords"]) >= 5 and "Typing :: Typed" in PROJECT["classifiers"]
    assert all(url.startswith(HOME) for url in PROJECT["urls"].values())
    cited = yaml.safe_load((REPOSITORY / "CITATION.cff").read_text())
    assert cited["version"] == PROJECT["version"] and cited["repository-code"] == HOME
    assert cited["cff-version"] == "1.2.0" and cited["authors"] == [{"name": "SE-RL contributors"}]


@pytest.mark.parametrize(
    "name", ["CONTRIBUTING.md", "SECURITY.md", "CODE_OF_CONDUCT.md", "LICENSE", "CHANGELOG.md"]
)
def test_files_that_people_look_for(name: str) -> None:
    path = REPOSITORY / name
    assert len(path.read_text()) > 500
    for target in re.findall(r"\]\(([^)#]+)\)", path.read_text()):
        assert "://" in target or (REPOSITORY / target).exists(), target


def test_templates_hooks_and_workflow_are_sound() -> None:
    for form in (REPOSITORY / ".github" / "ISSUE_TEMPLATE").glob("[!c]*.yml"):
        read = yaml.safe_load(form.read_text())
        assert read["name"] and read["description"] and read["body"]
    hooks = yaml.safe_load((REPOSITORY / ".pre-commit-config.yaml").read_text())["repos"][0][
        "hooks"
    ]
    assert {"ruff-check", "ruff-format", "lint-imports", "house-limits"} == {h["id"] for h in hooks}
    [job] = yaml.safe_load((REPOSITORY / ".github/workflows/ci.yml").read_text())["jobs"].values()
    assert job["steps"][-1] == {"run": ".ci/run"}
    assert os.access(REPOSITORY / ".ci" / "run", os.X_OK)


def test_it_is_said_first_where_it_runs_and_how_to_do_without_cuda() -> None:
    readme = (REPOSITORY / "README.md").read_text()
    install = (REPOSITORY / "docs" / "install.md").read_text()
    assert "runs on Linux" in readme[:1500] and "source .venv/bin/activate" in readme
    assert install.index("Linux first") < 200
    assert "## Without CUDA" in install and "CPU build first" in install


def test_pictures_of_the_readme_are_seen_everywhere() -> None:
    """A package index shows the README without the repository beside it."""
    pictures = re.findall(r"!\[.*?\]\((.+?)\)", (REPOSITORY / "README.md").read_text())
    assert pictures
    for picture in pictures:
        assert picture.startswith(f"{HOME}/raw/main/")
        assert (REPOSITORY / picture.removeprefix(f"{HOME}/raw/main/")).is_file()


def test_the_site_has_every_page_and_is_built_without_a_warning(tmp_path: Path) -> None:
    for module in ("mkdocs", "material", "mkdocstrings", "mkdocstrings_handlers.python"):
        if find_spec(module.split(".")[0]) is None:
            pytest.skip(f'{module} is not installed: pip install "se-rl[docs]"')
    words = ["-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(tmp_path / "site")]
    told = subprocess.run(
        [sys.executable, *words],
        cwd=REPOSITORY,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
    )
    assert (told.returncode, told.stdout + told.stderr) == (0, "")
    for page in (REPOSITORY / "docs").rglob("*.md"):
        made = (tmp_path / "site" / page.relative_to(REPOSITORY / "docs")).with_suffix(".html")
        assert made.is_file(), page
    reference = (tmp_path / "site" / "api" / "index.html").read_text()
    for name in (
        "SERLFramework",
        "LimitOrderBook",
        "StaticEnvironment",
        "RunResults",
        "run_training",
    ):
        assert name in reference
    for page in (tmp_path / "site").rglob("*.html"):
        fetched = re.findall(
            r"<(?:script|link|img)[^>]+(?:src|href)=\"?(https?://[^\s\">]+)", page.read_text()
        )
        assert [url for url in fetched if not url.startswith(HOME)] == [], page


def test_packages_are_whole(tmp_path: Path) -> None:
    """The source package has every file of the repository, the wheel every file of the package."""
    if find_spec("build") is None:
        pytest.skip("build is not installed: pip install --requirement requirements-dev.txt")
    words = [
        "-m",
        "build",
        "--no-isolation",
        "--outdir",
        str(tmp_path / "dist"),
        str(copied(tmp_path)),
    ]
    made = subprocess.run([sys.executable, *words], capture_output=True, text=True)
    assert made.returncode == 0, made.stdout + made.stderr
    [source] = (tmp_path / "dist").glob("*.tar.gz")
    with tarfile.open(source) as archive:
        packed = {name.partition("/")[2] for name in archive.getnames()}
    own = (".github/", ".gitignore")  # the forge's, and git's
    assert {name for name in git_files() if not name.startswith(own)} - packed == set()
    [wheel] = (tmp_path / "dist").glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        installed = set(archive.namelist())
        told = archive.read(next(n for n in installed if n.endswith("entry_points.txt"))).decode()
    assert "se-rl = se_rl.main:main" in told
    for name in git_files():
        if name.startswith("src/se_rl/"):
            assert name.removeprefix("src/") in installed
    assert "se_rl_benchmarks/bench.py" in installed


def copied(folder: Path) -> Path:
    """The repository's files in a folder of their own: building writes beside them."""
    clone = folder / "clone"
    for name in git_files():
        (clone / name).parent.mkdir(parents=True, exist_ok=True)
        (clone / name).write_bytes((REPOSITORY / name).read_bytes())
        (clone / name).chmod((REPOSITORY / name).stat().st_mode)
    link = clone / "src" / "se_rl_benchmarks"
    if not link.exists():
        link.symlink_to(Path("..") / "benchmarks")
    return clone
