"""Wrong options and addresses that do not answer are refused at once; what a cluster has is divided among workers."""

import socket
import sys

import pytest
from negengine.engine.basics.errors import InputError
from negengine.engine.runs.ray import Ray, Resources, connected, planned


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


def test_without_the_extra_one_line_names_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    line = r"^--ray local: this needs Ray: run `pip install 'negengine\[ray\]'`$"
    with pytest.raises(InputError, match=line), connected("local"):
        pass


# ---------------------------------------------------------------- workers

LAPTOP, SMALL, GPUS = Resources(8, 0), Resources(2, 0), Resources(16, 4)


@pytest.mark.parametrize(
    ("nodes", "asked", "found"),
    [
        ([LAPTOP], {}, [(8, 0)]),
        ([LAPTOP, SMALL], {}, [(8, 0), (2, 0)]),
        ([Resources(0, 0), SMALL], {}, [(2, 0)]),
        ([LAPTOP, SMALL], {"workers": 2}, [(8, 0), (2, 0)]),
        ([LAPTOP], {"workers": 3}, [(2, 0)] * 3),
        ([LAPTOP, LAPTOP], {"workers": 2}, [(8, 0)] * 2),
        ([LAPTOP], {"workers": 2, "cpus": 1.0}, [(1, 0)] * 2),
        ([SMALL], {"cpus": 0.5}, [(0.5, 0)] * 4),
        ([GPUS], {}, [(4, 1)] * 4),
        ([GPUS, LAPTOP], {}, [(4, 1)] * 4),
        ([GPUS], {"workers": 1}, [(16, 1)]),
        ([GPUS], {"gpus": 0.5}, [(2, 0.5)] * 8),
        ([GPUS], {"gpus": 2.0, "cpus": 3.0}, [(3, 2)] * 2),
        ([GPUS], {"gpus": 0.0}, [(16, 0)]),
        ([Resources(1, 2)], {}, [(0.5, 1)] * 2),
    ],
)
def test_what_the_machines_have_is_divided(nodes, asked, found):
    plans = planned(nodes, **asked)
    assert [(plan.cpus, plan.gpus) for plan in plans] == found
    assert [plan.threads for plan in plans] == [max(1, int(plan.cpus)) for plan in plans]  # one for each CPU


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"gpus": 8.0}, "--gpus-per-worker 8: the Ray cluster has 18 CPUs and 4 GPUs on 2 nodes, room for 0 workers"),
        ({"workers": 5}, "--workers 5 --gpus-per-worker 1: the Ray cluster has .*, room for 4 workers"),
        ({"cpus": 99.0, "gpus": 0.0}, "--cpus-per-worker 99: the Ray cluster has .*, room for 0 workers"),
        ({"workers": 19, "gpus": 0.0}, "--workers 19: the Ray cluster has .*, room for 18 workers"),
    ],
)
def test_more_than_there_is_is_refused(asked, message):
    with pytest.raises(InputError, match=message):
        planned([GPUS, SMALL], **asked)
    with pytest.raises(InputError, match="--device cuda: the Ray cluster has 8 CPUs and 0 GPUs; use --device cpu"):
        planned([LAPTOP], needs_gpus=True)
