"""Versions: of installed packages, and of negengine's own source."""

import json
import os
import shlex
import subprocess
from collections.abc import Iterable
from functools import cache
from importlib.metadata import Distribution, PackageNotFoundError, distribution, version
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import url2pathname

# The packages that decide a run's numbers.
DECIDING = ("numpy", "polars", "onnxruntime", "onnxruntime-gpu", "tokenizers", "scipy")
_ROOT = Path(__file__).resolve().parents[2]


def versions(packages: Iterable[str] = DECIDING) -> dict[str, str]:
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
    """The commit of the source, from git or as pip recorded it; with `+changes` if files differ, None if unknown."""
    if (root / ".git").exists():
        commit = _git(root, "rev-parse", "HEAD")
        if commit is None:
            return None
        changed = _git(root, "status", "--porcelain", "--untracked-files=no")
        return f"{commit}{'+changes' if changed else ''}"
    return recorded_source()[1]


@cache
def source_address(root: Path = _ROOT) -> str | None:
    """The address on the web of the repository that negengine was cloned or installed from, without a user's name."""
    address = _git(root, "remote", "get-url", "origin") if (root / ".git").exists() else recorded_source()[0]
    found = urlsplit(address or "")
    known = found.scheme == "https" and found.hostname
    return f"https://{found.hostname}{found.path}".removesuffix(".git") if known else None


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


def requirement(extra: str = "", installed: Distribution | None = None) -> str:
    """What `pip install` takes for negengine with an extra, quoted for a shell.

    It is the place that this installation is from (PEP 610), which a reader has: a folder, a wheel, a repository. Only
    what came from a package index has its name alone.
    """
    name = f"[{extra}]" if extra else ""
    try:
        recorded = json.loads((installed or distribution("negengine")).read_text("direct_url.json") or "{}")
        url, vcs = str(recorded["url"]), recorded.get("vcs_info")
    except (PackageNotFoundError, ValueError, KeyError, TypeError, AttributeError):
        return f"'negengine{name}'"
    if isinstance(vcs, dict):
        return shlex.quote(f"negengine{name} @ {vcs.get('vcs')}+{url}@{vcs.get('commit_id')}")
    path = url2pathname(urlsplit(url).path)
    is_editable = bool(recorded.get("dir_info", {}).get("editable"))
    return f"{'-e ' * is_editable}'{path}{name}'"


def recorded_source(installed: Distribution | None = None) -> tuple[str | None, str | None]:
    """Address and commit of the repository that negengine was installed from (PEP 610); None for what is not known."""
    try:
        recorded = json.loads((installed or distribution("negengine")).read_text("direct_url.json") or "{}")
        found = recorded["url"], recorded["vcs_info"]["commit_id"]
    except (PackageNotFoundError, ValueError, KeyError, TypeError):
        return None, None
    return found if all(isinstance(value, str) for value in found) else (None, None)
