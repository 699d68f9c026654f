"""A Ray cluster: the connection to it, and what its machines have."""

import logging
import os
import re
import signal
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

from ..errors import InputError, first_line
from ..inference.device import cpu_threads
from .ray_plan import Node

DEVICES = ("auto", "cpu", "cuda")
LOCAL, AUTO = "local", "auto"
_ADDRESS = re.compile(r"(?P<client>ray://)?(?P<host>[^\s/:]+|\[[0-9a-fA-F:]+\]):(?P<port>[0-9]{1,5})")
_SECONDS_TO_ANSWER = 5.0
_PRINTS = "_worker_logs_enabled"
_SETTINGS = b"\x04"  # the type of a frame
_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\0\0\0" + _SETTINGS + b"\0\0\0\0\0"
_OBJECT_STORE = 512 * 2**20  # bytes, of a local cluster; finished parts pass through it
_QUIET = {
    "RAY_USAGE_STATS_ENABLED": "0",  # no reports to Ray's makers
    "RAY_SCHEDULER_EVENTS": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
}


@dataclass(frozen=True)
class Patience:
    """How long to wait, in seconds.

    Attributes:
        others: For the other workers once the first one is ready; later ones join the run.
        silent: For the answer of a worker; then others take over its parts.
        nobody: While no worker answers at all; then the run ends.
        progress: Between two questions how far a worker is.
        nodes: Between two messages about the machines.
    """

    others: float = 10.0
    silent: float = 60.0
    nobody: float = 600.0
    progress: float = 1.0
    nodes: float = 30.0


@contextmanager
def connected(address: str) -> Iterator[Any]:
    """Ray, connected to a cluster; the connection, and a cluster of this machine alone, end with the context.

    Args:
        address: `local`, `auto`, `HOST:PORT` or `ray://HOST:PORT`.

    Raises:
        InputError: Ray is not installed, or the address does not answer.
    """
    for name, value in _QUIET.items():  # Ray and its processes read them when they start
        os.environ.setdefault(name, value)
    try:
        import ray  # noqa: PLC0415 - an extra
    except ModuleNotFoundError as error:
        if error.name != "ray":
            raise
        raise InputError(f"--ray {address}: this needs Ray: run `pip install 'negengine[ray]'`") from None
    if ray.is_initialized():
        yield ray
        return
    _refuse_silent(address)
    with _quiet(ray):
        with _own_signals():
            _connect(ray, address)
        try:
            yield ray
        finally:
            ray.shutdown()


def nodes_of(ray: Any) -> list[Node]:
    """The machines of the cluster that are alive."""
    return [
        Node(float(node["Resources"].get("CPU", 0)), float(node["Resources"].get("GPU", 0)))
        for node in ray.nodes()
        if node["Alive"]
    ]


def check_address(address: str) -> tuple[str, int] | None:
    """Host and port of an address; None for `local` and `auto`.

    Raises:
        InputError: It is not an address.
    """
    if address in {LOCAL, AUTO}:
        return None
    found = _ADDRESS.fullmatch(address)
    if found is None or not 0 < int(found["port"]) < 2**16:
        raise InputError(f"--ray {address}: give local, auto, HOST:PORT or ray://HOST:PORT")
    return found["host"].strip("[]"), int(found["port"])


def _refuse_silent(address: str) -> None:
    """Refuse an address where nothing listens, or something else than Ray: Ray itself would wait for minutes.

    Ray's servers speak HTTP/2 (gRPC): they answer its preface with a frame of settings (RFC 9113, sections 3.4, 4.1).

    Raises:
        InputError: It is so.
    """
    place = check_address(address)
    if place is None:
        return
    try:
        with socket.create_connection(place, timeout=_SECONDS_TO_ANSWER) as connection:
            if os.environ.get("RAY_USE_TLS", "0") != "0":
                return
            connection.sendall(_PREFACE)
            answer = connection.recv(4)
    except OSError as error:
        reason = error.strerror or str(error) or type(error).__name__
        raise InputError(
            f"--ray {address}: nothing answers there ({reason}); start Ray there (`ray start --head`), or give another "
            "address"
        ) from None
    if answer[3:] != _SETTINGS:
        raise InputError(f"--ray {address}: what answers there is not Ray; give the address that `ray start` has told")


def _connect(ray: Any, address: str) -> None:
    """Connect, or start a cluster on this machine.

    Raises:
        InputError: It is not possible.
    """
    quiet = {"configure_logging": False, "logging_level": logging.CRITICAL, "log_to_driver": False}
    try:
        if address == LOCAL:
            cores = cpu_threads()
            ray.init("local", num_cpus=cores, include_dashboard=False, object_store_memory=_OBJECT_STORE, **quiet)
        else:
            ray.init(address, **quiet)
    except (KeyboardInterrupt, InputError):
        raise
    except Exception as error:  # noqa: BLE001 - Ray raises many kinds, some of gRPC
        with suppress(Exception):
            ray.shutdown()
        raise InputError(f"--ray {address}: Ray cannot connect ({first_line(error)})") from None


@contextmanager
def _quiet(ray: Any) -> Iterator[None]:
    """What Ray's processes report goes to Ray's log files: Ray would print it on stdout, into the results."""
    logger, printing = logging.getLogger("ray"), ray._private.worker  # noqa: SLF001 - there is no public switch
    before = logger.level, getattr(printing, _PRINTS, True)
    logger.setLevel(logging.CRITICAL)
    setattr(printing, _PRINTS, False)
    try:
        yield
    finally:
        logger.setLevel(before[0])
        setattr(printing, _PRINTS, before[1])


@contextmanager
def _own_signals() -> Iterator[None]:
    """Ray takes SIGTERM for itself; a batch system's stop signal must interrupt the run as before."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.getsignal(signal.SIGTERM)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
