"""Stand-ins for sbatch, srun, scontrol, qsub and bsub: jobs run at once, the tasks of an array in parallel.

They read the options and the comments that the examples use, and set the environment variables of the real ones.
Called as `batch_system.py NAME ARGUMENTS`. The folder $BATCH_SYSTEM has a log and the exit status of each job's tasks.
"""

import os
import re
import signal
import socket
import subprocess
import sys
from contextlib import suppress
from itertools import count
from pathlib import Path

FOLDER = Path(os.environ["BATCH_SYSTEM"])
Environment = dict[str, str]


def new_job() -> str:
    for number in count(1):
        with suppress(FileExistsError):
            (FOLDER / f"job-{number}").mkdir(parents=True)
            break
    return str(number)


def indices(text: str) -> range:
    """The indices of an array such as 0-15 or 3."""
    first, _, last = text.partition("-")
    return range(int(first), int(last or first) + 1)


def directives(script: str, mark: str, option: str) -> str | None:
    """The value of an option in the comments of a script."""
    found = re.search(rf"^#{mark} {option}[ =]?(\S.*)$", script, re.MULTILINE)
    return found[1].strip() if found else None


def run_tasks(job: str, command: list[str], tasks: dict[str, Environment], stdin: str | None = None) -> None:
    """Run all tasks in parallel, and keep their logs and exit statuses."""
    started = {}
    for task, environment in tasks.items():
        log = (FOLDER / f"job-{job}" / f"{task}.log").open("wb")
        streams = {"stdin": subprocess.PIPE, "stdout": log, "stderr": subprocess.STDOUT}
        started[task] = subprocess.Popen(command, env=os.environ | environment, **streams)
        started[task].stdin.write((stdin or "").encode())
        started[task].stdin.close()
    for task, process in started.items():
        (FOLDER / f"job-{job}" / f"{task}.status").write_text(str(process.wait()))


def own_address() -> str:
    """The address of this machine that Ray takes, too; nothing is sent."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as own, suppress(OSError):
        own.connect(("192.0.2.1", 9))
        return str(own.getsockname()[0])
    return "127.0.0.1"


def check(dependency: str) -> None:
    """As jobs run at once, the job before has ended; if it is one."""
    kind, _, before = dependency.partition(":")
    assert kind in {"afterok", "afterany"}, kind
    assert (FOLDER / f"job-{before}").exists(), f"job {before} is not known"


def take_options(arguments: list[str]) -> dict[str, str]:
    """Those before the command, of Slurm's form: --name=value, or --name."""
    found = {}
    while arguments[0].startswith("--"):
        name, _, found[name] = arguments.pop(0).partition("=")
    return found


def sbatch(arguments: list[str]) -> None:
    options = take_options(arguments)
    script = Path(arguments[0]).read_text()
    job = new_job()
    print(f"{job};stand-in" if "--parsable" in options else f"Submitted batch job {job}")
    if "--dependency" in options:
        check(options["--dependency"])
    common = {"SLURM_JOB_ID": job, "SLURM_PROCID": "0", "SLURM_CPUS_PER_TASK": "1"}  # the script itself has these, too
    nodes, each = (directives(script, "SBATCH", f"--{name}") for name in ("nodes", "ntasks-per-node"))
    if nodes is not None:
        nodes = options.get("--nodes", nodes)
        common |= {"SLURM_NTASKS": str(int(nodes) * int(each or 1))}
        common |= {"SLURM_JOB_NODELIST": ",".join([own_address()] * int(nodes))}
    array = options.get("--array") or directives(script, "SBATCH", "--array")
    tasks = {"task": common}
    if array is not None:
        own = indices(array)
        told = {"COUNT": len(own), "MIN": min(own), "MAX": max(own), "STEP": 1}
        whole = common | {f"SLURM_ARRAY_TASK_{name}": str(value) for name, value in told.items()}
        tasks = {str(index): whole | {"SLURM_ARRAY_TASK_ID": str(index)} for index in own}
    run_tasks(job, ["bash", *arguments], tasks)


def srun(arguments: list[str]) -> None:
    options = take_options(arguments)
    n = int(options.get("--ntasks", os.environ["SLURM_NTASKS"]))
    step = {"SLURM_STEP_ID": "0", "SLURM_NTASKS": str(n), "SLURM_STEP_NUM_TASKS": str(n)}
    variables = [os.environ | step | {"SLURM_PROCID": str(number)} for number in range(n)]
    started = [subprocess.Popen(arguments, env=own) for own in variables]
    signal.signal(signal.SIGTERM, lambda *_: [process.terminate() for process in started])  # as srun does
    sys.exit(max(process.wait() for process in started))


def scontrol(arguments: list[str]) -> None:
    assert arguments[:2] == ["show", "hostnames"], arguments
    print(arguments[2].replace(",", "\n"))


def qsub(arguments: list[str]) -> None:
    options: dict[str, str] = {}
    while len(arguments) > 1:
        options[arguments[0]], arguments = arguments[1], arguments[2:]
    script = Path(arguments[0]).read_text()
    variables = dict(pair.split("=", 1) for pair in options.get("-v", "").split(",") if pair)
    job = new_job()
    array = options.get("-J") or directives(script, "PBS", "-J")
    print(f"{job}[].stand-in" if array else f"{job}.stand-in")
    if "-W" in options:
        check(options["-W"].removeprefix("depend=").replace("[]", "").partition(".")[0])
    common = {"PBS_JOBID": job, "PBS_O_WORKDIR": str(Path.cwd()), "NCPUS": "1", **variables}
    tasks = {"task": common}
    if array is not None:
        tasks = {str(index): common | {"PBS_ARRAY_INDEX": str(index)} for index in indices(array)}
    run_tasks(job, ["bash", arguments[0]], tasks)


def bsub(arguments: list[str]) -> None:
    script = sys.stdin.read()
    options = dict(zip(arguments[::2], arguments[1::2], strict=True))
    job = new_job()
    name = options.get("-J") or directives(script, "BSUB", "-J") or ""
    print(f"Job <{job}> is submitted to queue <normal>.")
    common = {"LSB_JOBID": job, "LSB_JOBINDEX": "0", "LSB_DJOB_NUMPROC": "1"}
    tasks = {"task": common}
    if array := re.fullmatch(r"[\w-]+\[(.+)\]", name):
        own = indices(array[1])
        whole = common | {"LSB_JOBINDEX_END": str(max(own)), "LSB_JOBINDEX_STEP": "1"}
        tasks = {str(index): whole | {"LSB_JOBINDEX": str(index)} for index in own}
    run_tasks(job, ["bash"], tasks, stdin=script)


if __name__ == "__main__":
    globals()[sys.argv[1]](sys.argv[2:])
