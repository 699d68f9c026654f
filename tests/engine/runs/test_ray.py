"""Wrong options and addresses are refused at once; machines are divided among workers; files are copied once."""

import os
import re
import socket
import sys

import pytest
from negengine.engine.basics.errors import InputError
from negengine.engine.basics.reading import digests
from negengine.engine.basics.versions import requirement
from negengine.engine.runs.ray import NotSeenError, Ray, connected, placed

ADDRESSES = ["", "nowhere", "host:0", "host:999999", "http://host:6379", "host"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        *(({"address": address}, "give local, auto, HOST:PORT or ray://HOST:PORT") for address in ADDRESSES),
        ({"workers": 0}, "--workers 0: "),
        ({"cpus_per_worker": 0.0}, "--cpus-per-worker 0.0: give a number from 0.01 to 1,024"),
        ({"gpus_per_worker": -1.0}, "--gpus-per-worker -1.0: give a number from 0 to 1,024"),
        ({"gpus_per_worker": 1.5}, "--gpus-per-worker 1.5: above 1, Ray takes whole numbers"),
        ({"gpus_per_worker": float("nan")}, "--gpus-per-worker nan: give a number from 0"),
        ({"device": "cuda:1"}, "--device cuda:1: with --ray give auto, cpu, cuda, openvino, webgpu"),
        ({"device": "cpu", "gpus_per_worker": 1.0}, "--device cpu: this contradicts --gpus-per-worker 1"),
        ({"device": "cuda", "gpus_per_worker": 0.0}, "--device cuda: this contradicts --gpus-per-worker 0"),
    ],
)
def test_wrong_options_are_refused(options, message):
    with pytest.raises(InputError, match=message):
        Ray(**options)


def test_an_address_where_nothing_listens_is_refused_at_once_and_a_missing_extra_is_named(monkeypatch):
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "ray", None)
        with (
            pytest.raises(InputError, match=f"^--ray local needs ray: .*{re.escape(requirement('ray'))}$"),
            connected("local"),
        ):
            pass
    pytest.importorskip("ray", reason="the extra `ray` is not installed")
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))  # it does not listen
        address = f"127.0.0.1:{closed.getsockname()[1]}"
        with pytest.raises(InputError, match=f"^--ray {address}: nothing answers there"), connected(address):
            pass
    with pytest.raises(InputError, match="nothing answers there"), connected("127.0.0.1:99999"):
        pass


LAPTOP, SMALL, HEAD, GPUS = (8, 0), (2, 0), (0, 0), (16, 4)


@pytest.mark.parametrize(
    ("nodes", "asked", "threads", "found"),
    [
        ([LAPTOP], {}, None, (1, 8, 0)),
        ([LAPTOP, HEAD, LAPTOP], {}, None, (2, 8, 0)),
        ([LAPTOP, SMALL], {}, None, (2, 4, 0)),
        ([LAPTOP], {"workers": 3}, None, (3, 2, 0)),
        ([LAPTOP, LAPTOP], {"workers": 1}, None, (1, 8, 0)),
        ([LAPTOP], {"workers": 2}, 1, (2, 1, 0)),
        ([LAPTOP, SMALL], {}, 2, (5, 2, 0)),
        ([SMALL], {"cpus_per_worker": 0.5}, None, (4, 0.5, 0)),
        ([GPUS, LAPTOP], {}, None, (4, 4, 1)),
        ([GPUS], {"workers": 1}, None, (1, 16, 1)),
        ([GPUS], {"gpus_per_worker": 0.5}, None, (8, 2, 0.5)),
        ([GPUS], {"gpus_per_worker": 2.0, "cpus_per_worker": 3.0}, None, (2, 3, 2)),
        ([GPUS], {"gpus_per_worker": 0.0}, None, (1, 16, 0)),
        ([GPUS], {"device": "cpu"}, None, (1, 16, 0)),
        ([(1, 2)], {"cpus_per_worker": 0.1, "device": "cuda"}, None, (2, 0.1, 1)),
    ],
)
def test_what_the_machines_have_is_divided(nodes, asked, threads, found):
    assert Ray(**asked).planned(nodes, threads) == found


def test_more_than_there_is_is_refused():
    for asked, message in (
        ({"gpus_per_worker": 8.0}, "--ray: 2 nodes of Ray with 18 CPUs and 4 GPUs: room for 0 of 1 worker with 1 CPUs"),
        ({"workers": 5}, "room for 4 of 5 workers with 1 CPUs and 1 GPUs each; ask for less"),
        ({"cpus_per_worker": 99.0, "gpus_per_worker": 0.0}, "room for 0 of 1 worker with 99 CPUs and 0 GPUs"),
        ({"workers": 19, "device": "cpu"}, "room for 18 of 19 workers with 1 CPUs and 0 GPUs"),
    ):
        with pytest.raises(InputError, match=message):
            Ray(**asked).planned([GPUS, SMALL])
    with pytest.raises(InputError, match=r"^--device cuda: 1 node of Ray with 8 CPUs and 0 GPUs: use --device cpu"):
        Ray(device="cuda").planned([LAPTOP])


def test_a_folder_that_is_seen_is_used_and_another_one_or_a_file_is_copied_once(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    folder = tmp_path / "here" / "model"
    (folder / "onnx").mkdir(parents=True)
    contents = {"model.onnx": os.urandom(300), "onnx/weights": os.urandom(200), "empty": b""}
    for name, content in contents.items():
        (folder / name).write_bytes(content)
    (folder / ".DS_Store").write_text("{}")
    wanted, read, file = digests(folder), [], folder / "model.onnx"

    def get(content):
        read.append(content)
        return content

    assert set(wanted) == set(contents)
    assert placed(get, None, folder, wanted) == folder
    of_file = digests(file)
    file.write_bytes(b"x" * 300)
    with pytest.raises(NotSeenError):
        placed(get, None, folder, wanted)
    copy = placed(get, contents, folder, wanted)
    assert (copy == folder, copy.name) == (False, folder.name)
    assert placed(get, contents, folder, wanted) == copy
    assert len(read) == 3
    (copy / "model.onnx").write_bytes(b"x")  # a damaged copy is made again
    assert {name: (placed(get, contents, folder, wanted) / name).read_bytes() for name in contents} == contents
    with pytest.raises(InputError, match="arrived damaged"):
        placed(get, {**contents, "empty": b"x"}, folder.with_name("other"), wanted)
    copy = placed(get, {".": contents["model.onnx"]}, file, of_file)
    assert (copy.name, copy.read_bytes()) == (file.name, contents["model.onnx"])
