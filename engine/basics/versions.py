"""Versions: of installed packages, and of negengine's own source."""

import json
import os
import subprocess
from collections.abc import Iterable, Mapping
from functools import cache
from importlib.metadata import Distribution, PackageNotFoundError, distribution, version
from pathlib import Path

# The packages that decide a run's numbers.
DECIDING = ("numpy", "polars", "onnxruntime", "onnxruntime-gpu", "tokenizers", "scipy")
_ROOT = Path(__file__).resolve().parents[2]


@cache
def deciding_versions() -> Mapping[str, str]:
    """Package → version, of those of `DECIDING` that are installed."""
    return versions(DECIDING)


def versions(packages: Iterable[str]) -> dict[str, str]:
    """Package → version, of those that are installed."""
    return {name: found for name in packages if (found := package_version(name)) is not None}


@cache
def own_version() -> str:
    """The version of negengine."""
    return version("negengine")


def package_version(package: str) -> str | None:
    """The installed version of a package; None if it is not installed."""
    try:
        return version(package)
    except PackageNotFoundError:
        return None


@cache
def source_commit(root: Path = _ROOT) -> str | None:
    """The commit of negengine's source, with `+changes` if files differ from it; None if it is not known.

    It is known for a git checkout, and for an installation from a repository's address (PEP 610).
    """
    if (root / ".git").exists():
        commit = _git(root, "rev-parse", "HEAD")
        if commit is None:
            return None
        changed = _git(root, "status", "--porcelain", "--untracked-files=no")
        return f"{commit}{'+changes' if changed else ''}"
    try:
        return commit_of(distribution("negengine"))
    except PackageNotFoundError:
        return None


def _git(root: Path, *words: str) -> str | None:
    clean = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    command = ["git", "-C", str(root), "--no-optional-locks", *words]
    try:
        told = subprocess.check_output(
            command, text=True, timeout=10, env=clean, stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
    except (OSError, subprocess.SubprocessError, UnicodeDecodeError):
        return None
    return told.strip()


def commit_of(installed: Distribution) -> str | None:
    """The commit of a package that was installed from a repository's address (PEP 610); None for all others."""
    try:
        commit = json.loads(installed.read_text("direct_url.json") or "{}")["vcs_info"]["commit_id"]
    except (ValueError, KeyError, TypeError):
        return None
    return commit if isinstance(commit, str) else None
