"""Wrong options, and an address that does not answer, are refused at once."""

import socket
import sys
import threading

import pytest
from negengine.engine.errors import InputError
from negengine.engine.runs.ray import Ray
from negengine.engine.runs.ray_cluster import connected


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"workers": 0}, "--workers 0: "),
        ({"cpus_per_worker": 0.0}, "--cpus-per-worker 0.0: give more than 0"),
        ({"gpus_per_worker": -1.0}, "--gpus-per-worker -1.0: give 0 or more"),
        ({"gpus_per_worker": 1.5}, "--gpus-per-worker 1.5: above 1, Ray takes whole numbers"),
        ({"gpus_per_worker": float("nan")}, "--gpus-per-worker nan: give 0 or more"),
        ({"device": "cuda:1"}, "--device cuda:1: with --ray give auto, cpu or cuda"),
        ({"device": "cpu", "gpus_per_worker": 1.0}, "--device cpu: this contradicts --gpus-per-worker 1"),
        ({"device": "cuda", "gpus_per_worker": 0.0}, "--device cuda: this contradicts --gpus-per-worker 0"),
    ],
)
def test_wrong_options_are_refused(options, message):
    with pytest.raises(InputError, match=message):
        Ray(**options)


@pytest.mark.parametrize("address", ["", "nowhere", "host:0", "host:99999", "http://host:6379", "host"])
def test_what_is_not_an_address_is_refused(address):
    with pytest.raises(InputError, match="give local, auto, HOST:PORT or ray://HOST:PORT"):
        Ray(address)


def test_an_address_where_nothing_listens_is_refused_at_once():
    pytest.importorskip("ray", reason="the extra `ray` is not installed")
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))  # it does not listen
        address = f"127.0.0.1:{closed.getsockname()[1]}"
        with pytest.raises(InputError, match=f"^--ray {address}: nothing answers there"), connected(address):
            pass


def test_what_answers_but_is_not_ray_is_refused_at_once():
    pytest.importorskip("ray", reason="the extra `ray` is not installed")
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer():
            client, _ = server.accept()
            with client:
                client.sendall(b"SSH-2.0-OpenSSH_9.6\r\n")

        threading.Thread(target=answer, daemon=True).start()
        address = f"127.0.0.1:{server.getsockname()[1]}"
        with pytest.raises(InputError, match=f"^--ray {address}: what answers there is not Ray"), connected(address):
            pass


def test_without_the_extra_one_line_names_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    line = r"^--ray local: this needs Ray: run `pip install 'negengine\[ray\]'`$"
    with pytest.raises(InputError, match=line), connected("local"):
        pass
