"""What a wheel needs for `se-rl bench`: every folder is a package, and every data file is named."""

from __future__ import annotations

import ast
import tomllib
from pathlib import Path

import se_rl_benchmarks
from se_rl_benchmarks.bench import BENCHES
from se_rl_benchmarks.bench_book import LADDER_SOURCE

REPOSITORY = Path(__file__).resolve().parents[2]
SOURCES = REPOSITORY / "src"
PACKAGES = ("se_rl", "se_rl_benchmarks")


def files_of(package: str) -> list[Path]:
    folder = (SOURCES / package).resolve()
    return [p for p in folder.rglob("*") if p.is_file() and "__pycache__" not in p.parts]


def test_the_installed_name_is_the_folder_of_this_repository() -> None:
    installed = Path(se_rl_benchmarks.__file__ or "").resolve().parent
    assert installed == REPOSITORY / "benchmarks"
    assert LADDER_SOURCE.is_file()


def test_every_file_of_the_packages_is_packaged() -> None:
    settings = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["tool"]["setuptools"]
    assert settings["packages"]["find"]["where"] == ["src"]
    for package in PACKAGES:
        root = (SOURCES / package).resolve()
        data = {p for pattern in settings["package-data"][package] for p in root.glob(pattern)}
        for path in files_of(package):
            if path.suffix == ".py":
                assert (path.parent / "__init__.py").exists(), path
            else:
                assert path in data, f"{path} is not in package-data"


def test_only_the_command_imports_the_benchmarks() -> None:
    importers = set()
    for path in (SOURCES / "se_rl").rglob("*.py"):
        if "se_rl_benchmarks" in path.read_text():
            importers.add(path.relative_to(SOURCES).as_posix())
    assert importers == {"se_rl/commands/machine.py"}


def test_the_command_offers_every_benchmark() -> None:
    tree = ast.parse((SOURCES / "se_rl" / "commands" / "machine.py").read_text())
    offered = [
        ast.literal_eval(node.value)
        for node in tree.body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "BENCHES"
    ]
    assert offered == [BENCHES]
