"""Manifests and suite files fit together; every command in them can be parsed."""

import re
import shlex
from pathlib import Path

import typer.main
import yaml
from negengine.engine.cli import main
from negengine.engine.results.suite.suite_file import SuiteFile

EXAMPLES = Path(__file__).parents[2] / "examples"
PROGRAM = typer.main.get_command(main.app)


def manifest(name):
    return yaml.safe_load((EXAMPLES / name).read_text("utf-8"))


def pods(found):
    """The pod templates of a manifest, wherever they stand."""
    if isinstance(found, dict) and "containers" in found:
        yield found
    for value in found.values() if isinstance(found, dict) else found if isinstance(found, list) else ():
        yield from pods(value)


def test_pods_mount_the_volumes_that_they_have_and_the_indexed_job_names_all_its_indices():
    found = [*pods(manifest("kubernetes/rayjob.yaml")), *pods(manifest("kubernetes/indexed-job.yaml"))]
    assert len(found) > 2
    for pod in found:
        mounted = {mount["name"] for container in pod["containers"] for mount in container.get("volumeMounts", ())}
        assert mounted == {volume["name"] for volume in pod.get("volumes", ())}
        for container in pod["containers"]:
            assert set(container["resources"]) == {"requests", "limits"}
            assert all(isinstance(own["value"], str) for own in container.get("env", ()))
    job = manifest("kubernetes/indexed-job.yaml")["spec"]
    assert job["completionMode"] == "Indexed"
    assert found[-1]["containers"][0]["command"][-1] == f"auto:0-{job['completions'] - 1}"


def test_the_commands_can_be_parsed():
    """Those in the manifests, and in the comments of the scripts and of the suite file, which can be read."""
    (pod,) = pods(manifest("kubernetes/indexed-job.yaml"))
    sky = manifest("skypilot/shards.yaml")
    written = [manifest("kubernetes/rayjob.yaml")["spec"]["entrypoint"], shlex.join(pod["containers"][0]["command"])]
    written += f"{sky['setup']}\n{sky['run']}".splitlines()
    for path in [*sorted(EXAMPLES.rglob("*.sh")), EXAMPLES / "suite.toml"]:
        written += re.findall("^#     (.+)$", path.read_text("utf-8"), re.MULTILINE)
    assert len(SuiteFile.read(EXAMPLES / "suite.toml").probes) == 3
    found = [shlex.split(line, comments=True) for line in written if line.startswith("negengine ")]
    assert len(found) >= 6
    for _, name, *words in found:
        PROGRAM.commands[name].make_context(name, words)
