"""Manifests and suite files have the fields that their readers know; every command in them can be parsed."""

import shlex
from pathlib import Path

import pytest
import typer.main
import yaml
from negengine.engine.cli import main
from negengine.engine.results.suite.suite_file import SuiteFile

EXAMPLES = Path(__file__).parents[2] / "examples"
PROGRAM = typer.main.get_command(main.app)

# Fields of the kinds, as far as a manifest for negengine can need them.
RAY_JOB = {
    "entrypoint", "entrypointNumCpus", "entrypointNumGpus", "shutdownAfterJobFinishes", "ttlSecondsAfterFinished",
    "activeDeadlineSeconds", "backoffLimit", "runtimeEnvYAML", "submissionMode", "submitterPodTemplate",
    "rayClusterSpec", "clusterSelector", "suspend",
}  # fmt: skip
RAY_CLUSTER = {"rayVersion", "headGroupSpec", "workerGroupSpecs", "enableInTreeAutoscaling", "autoscalerOptions"}
HEAD = {"rayStartParams", "template", "serviceType", "enableIngress"}
WORKERS = {"groupName", "replicas", "minReplicas", "maxReplicas", "rayStartParams", "template", "numOfHosts"}
JOB = {
    "completionMode", "completions", "parallelism", "backoffLimitPerIndex", "backoffLimit", "maxFailedIndexes",
    "template", "activeDeadlineSeconds", "ttlSecondsAfterFinished", "podFailurePolicy",
}  # fmt: skip
POD = {"containers", "volumes", "restartPolicy", "nodeSelector", "tolerations", "serviceAccountName"}
CONTAINER = {"name", "image", "command", "args", "env", "resources", "volumeMounts", "ports", "workingDir"}
SKYPILOT = {
    "name", "workdir", "num_nodes", "resources", "envs", "secrets", "volumes", "file_mounts", "setup", "run", "config",
}  # fmt: skip
SKYPILOT_RESOURCES = {"accelerators", "cpus", "memory", "infra", "use_spot", "disk_size", "image_id", "job_recovery"}


def manifest(name):
    return yaml.safe_load((EXAMPLES / name).read_text("utf-8"))


def check_pod(template):
    assert set(template) <= {"metadata", "spec"}
    pod = template["spec"]
    assert set(pod) <= POD
    mounted = {mount["name"] for container in pod["containers"] for mount in container.get("volumeMounts", ())}
    assert mounted == {volume["name"] for volume in pod.get("volumes", ())}
    for container in pod["containers"]:
        assert {"name", "image"} <= set(container) <= CONTAINER
        assert set(container["resources"]) == {"requests", "limits"}
        assert all(isinstance(own["value"], str) for own in container.get("env", ()))


def test_the_ray_job_of_kubernetes():
    found = manifest("kubernetes/rayjob.yaml")
    assert (found["apiVersion"], found["kind"]) == ("ray.io/v1", "RayJob")
    assert {"entrypoint", "rayClusterSpec"} <= set(found["spec"]) <= RAY_JOB
    cluster = found["spec"]["rayClusterSpec"]
    assert {"rayVersion", "headGroupSpec", "workerGroupSpecs"} <= set(cluster) <= RAY_CLUSTER
    assert {"rayStartParams", "template"} <= set(cluster["headGroupSpec"]) <= HEAD
    for group in [cluster["headGroupSpec"], *cluster["workerGroupSpecs"]]:
        assert all(isinstance(value, str) for value in group["rayStartParams"].values())
        check_pod(group["template"])
    for group in cluster["workerGroupSpecs"]:
        assert {"groupName", "replicas", "minReplicas", "maxReplicas"} <= set(group) <= WORKERS
        assert group["minReplicas"] <= group["replicas"] <= group["maxReplicas"]


def test_the_indexed_job_of_kubernetes_names_all_its_indices():
    found = manifest("kubernetes/indexed-job.yaml")
    assert (found["apiVersion"], found["kind"]) == ("batch/v1", "Job")
    job = found["spec"]
    assert set(job) <= JOB
    assert job["completionMode"] == "Indexed"
    check_pod(job["template"])
    (container,) = job["template"]["spec"]["containers"]
    assert container["command"][-1] == f"auto:0-{job['completions'] - 1}"


def test_the_file_of_skypilot():
    found = manifest("skypilot/shards.yaml")
    assert {"num_nodes", "resources", "run"} <= set(found) <= SKYPILOT
    assert set(found["resources"]) <= SKYPILOT_RESOURCES
    assert all(set(mount) <= {"name", "source", "store", "mode"} for mount in found["file_mounts"].values())


def test_the_suite_file():
    file = SuiteFile.read(EXAMPLES / "suite.toml")
    assert {model.step for model in file.models} >= {None, 1_000, 100_000, 500}
    assert [probe.label for probe in file.probes] == ["score-pronoun", "score-same-name", "lama"]


def test_every_example_is_named_by_a_page():
    pages = "".join(path.read_text("utf-8") for path in (EXAMPLES.parent / "docs").glob("*.md"))
    for path in EXAMPLES.rglob("*.*"):
        if path.name != "README.md":
            assert f"examples/{path.relative_to(EXAMPLES)}" in pages, path


def written():
    """The commands of negengine in the manifests, and in the comments of the scripts and of the suite file."""
    yield "rayjob.yaml", manifest("kubernetes/rayjob.yaml")["spec"]["entrypoint"]
    pod = manifest("kubernetes/indexed-job.yaml")["spec"]["template"]["spec"]
    yield "indexed-job.yaml", shlex.join(pod["containers"][0]["command"])
    sky = manifest("skypilot/shards.yaml")
    for line in [*sky["setup"].splitlines(), *sky["run"].splitlines()]:
        yield "shards.yaml", line
    for path in [*sorted(EXAMPLES.rglob("*.sh")), EXAMPLES / "suite.toml"]:
        for line in path.read_text("utf-8").splitlines():
            if line.startswith("#     negengine "):
                yield path.name, line.removeprefix("#     ")


COMMANDS = [(file, shlex.split(line, comments=True)) for file, line in written() if line.startswith("negengine ")]


def test_there_are_commands_to_be_parsed():
    assert len(COMMANDS) >= 6


@pytest.mark.parametrize(("file", "words"), COMMANDS)
def test_a_command_can_be_parsed(file, words):
    command, name = PROGRAM.commands[words[1]], words[1]
    if "--ray" in words and "--ray" not in {option for own in command.params for option in own.opts}:
        pytest.skip("this build does not have --ray")
    command.make_context(name, list(words[2:]))
