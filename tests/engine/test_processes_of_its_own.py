"""Processes of the program: a missing package is told in one line, and no library reports to its makers."""

import os
import re

import pytest
from negengine.engine.basics.errors import InputError, needs_extra
from negengine.engine.basics.versions import requirement


def test_a_missing_package_names_its_extra_and_a_missing_module_of_the_program_is_a_bug():
    said = f"^nli train needs accelerate: pip install {re.escape(requirement('train'))}$"
    with pytest.raises(InputError, match=said):  # noqa: SIM117
        with needs_extra("train", "nli train"):
            raise ModuleNotFoundError("No module named 'accelerate'", name="accelerate")
    with pytest.raises(ModuleNotFoundError), needs_extra("train", "nli train"):
        raise ModuleNotFoundError("No module named 'negengine.export.training'", name="negengine.export.training")


def test_without_onnx_runtime_a_command_names_both_builds(python):
    code = "import sys; sys.modules['onnxruntime'] = None; import negengine.engine.cli.main as own; sys.exit(own.run())"
    done = python("-c", code, "predict", "mini", "She is happy to [MASK].")
    cpu, gpu = requirement("cpu"), requirement("gpu")
    said = f"negengine: ONNX Runtime is missing: pip install {cpu}, or {gpu} for an NVIDIA GPU\n"
    assert (done.status, done.err, done.out) == (2, said, "")


# ONNX Runtime sends nothing where one of these says that it is tested.
TESTED = [
    "CI", "TF_BUILD", "GITHUB_ACTIONS", "GITLAB_CI", "CIRCLECI", "TRAVIS", "JENKINS_URL", "CODEBUILD_BUILD_ID",
    "BUILDKITE", "TEAMCITY_VERSION", "APPVEYOR", "BITBUCKET_BUILD_NUMBER", "ORT_RUNNING_UNIT_TESTS",
    "ORT_DISABLE_TELEMETRY", "XDG_CACHE_HOME",
]  # fmt: skip


@pytest.mark.everything
def test_a_run_in_two_processes_leaves_nothing_in_the_users_folder(python, mini, tmp_path):
    home = tmp_path / "home"
    home.mkdir()
    environment = {name: value for name, value in os.environ.items() if name not in TESTED} | {"HOME": str(home)}
    words = f"select {mini.folder} --pairs 2 --max-verbs 2 --device cpu,cpu --output {tmp_path / 'run'}"
    done = python("-m", "negengine.engine.cli", *words.split(), env=environment)
    assert done.status == 0, done.err
    assert [path.relative_to(home) for path in home.rglob("*")] == []


def test_bench_and_doctor_report_nothing_either_and_doctor_tells_of_the_users_own_setting(python, tmp_path):
    code = "import negengine.bench.openvino, sys, os; import openvino_telemetry"
    assert "import of openvino_telemetry halted" in python("-c", code).err
    environment = {name: value for name, value in os.environ.items() if name not in TESTED} | {"HOME": str(tmp_path)}
    doctor = "-m", "negengine.engine.cli", "doctor", "telemetry"
    for value, status, said in ((None, 0, "telemetry    off"), ("0", 1, "telemetry    on, as")):
        given = environment | ({} if value is None else {"ORT_DISABLE_TELEMETRY": value})
        done = python(*doctor, env=given, cwd=tmp_path)
        assert (done.status, said in done.out) == (status, True), done.out
        assert value or not list(tmp_path.iterdir())
