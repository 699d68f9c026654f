"""The commands as a shell sees them: exit status, what goes to stdout and stderr, what an interrupt leaves."""

import json
import os
import signal
import subprocess
import sys

import pytest

COMMANDS = [
    "export",
    "select",
    "score",
    "merge",
    "predict",
    "gh22",
    "nli",
    "cues",
    "data",
    "data list",
    "data get",
    "doctor",
]
PROGRAM = [sys.executable, "-m", "negengine.engine.cli.main"]


@pytest.fixture
def negengine(tmp_path):
    """Runs a command in an empty folder, as a process of its own."""

    def run(*arguments, **options):
        return subprocess.run(
            [*PROGRAM, *map(str, arguments)], capture_output=True, text=True, check=False, cwd=tmp_path, **options
        )

    return run


@pytest.fixture(scope="module")
def finished(mini, tmp_path_factory):
    """A folder with a finished selection `run`, made by the command."""
    folder = tmp_path_factory.mktemp("cli")
    command = [*PROGRAM, "select", mini.folder, "--pairs", 3, "--precision", "fp32", "-o", "run", "--json"]
    done = subprocess.run([*map(str, command)], capture_output=True, text=True, check=False, cwd=folder)
    assert done.returncode == 0, done.stderr
    return folder, done


# ---------------------------------------------------------------- help


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help_with_an_example(command, negengine):
    done = negengine(*command.split(), "--help")
    assert done.returncode == 0
    assert done.stderr == ""
    assert command == "data" or f"negengine {command}" in done.stdout.partition("Example")[2]


def test_without_a_command_help_is_shown(negengine):
    done = negengine()
    assert "Commands:" in done.stdout
    assert all(command.split()[0] in done.stdout for command in COMMANDS)


def test_help_loads_no_heavy_library():
    """It answers at once: nothing that a command needs is imported before the command runs."""
    code = (
        "import sys; from negengine.engine import cli\n"
        "print([m for m in ('numpy', 'polars', 'onnxruntime', 'scipy', 'torch', 'transformers') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_running_a_model_loads_nothing_of_the_exporter(mini, tmp_path):
    """A machine that only runs exported models needs no PyTorch."""
    code = (
        "import sys; from negengine.engine import cli\n"
        f"sys.argv = ['negengine', 'select', {str(mini.folder)!r}, '--pairs', '1', '-o', {str(tmp_path / 'run')!r}]\n"
        "try: cli.main()\n"
        "finally: print([m for m in ('torch', 'transformers', 'optimum', 'onnx') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip().splitlines()[-1] == "[]"


# ---------------------------------------------------------------- exit status


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("select", "nothing"), "no exported model nothing: run `negengine export nothing` first"),
        (("select", "MINI", "--pairs", "0"), "Invalid value for '--pairs': Input should be greater than or equal to 1"),
        (("select", "MINI", "--pairs", "20000"), "20000"),
        (("select", "MINI", "--coreference", "twin"), "--coreference twin: give pronoun, same-name"),
        (("select", "MINI", "--verbs", "all"), "--verbs all: give in-context, bare"),
        (("select", "MINI", "--precision", "int4"), "--precision int4: give auto, fp32, mixed"),
        (("select", "MINI", "--device", "cuda"), "--device cuda: "),
        (("select", "MINI", "--device", "tpu"), "--device tpu"),
        (("select", "MINI", "--shard", "3/2"), "--shard 3/2"),
        (("select", "MINI", "--lexicon", "missing"), "missing"),
        (("select", "MINI", "--patterns", "missing.toml"), "missing.toml"),
        (("select", "MINI", "--speed", "9"), "No such option: --speed"),
        (("score", "nowhere"), "nowhere"),
        (("merge", "nowhere", "-o", "whole"), "nowhere"),
        (("compare", "nowhere"), "nowhere"),
        (("predict", "MINI", "no mask here"), "no mask here"),
        (("predict", "MINI", "[MASK] and [MASK]"), "[MASK] and [MASK]"),
        (("export", "mini", "--task", "chess"), "--task chess: give fill-mask or text-classification"),
        (("gh22", "MINI", "--ranks", "first"), "--ranks first: give numbers"),
        (("gh22", "MINI", "--variant", "odd"), "--variant odd: give original, connective, coordinated"),
        (("lama", "MINI", "--data", "missing.jsonl"), "missing.jsonl"),
        (("lama", "MINI", "--corpus", "Wikipedia"), "negated-lama"),
        (("diagnostics", "MINI"), "run `negengine data get lm-diagnostics`, or give --data PATH"),
        (("diagnostics", "MINI", "--data", "missing"), "missing: no such file or folder"),
        (("bench", "./missing"), "./missing is no folder"),
        (("nli", "MINI", "--data", "missing"), "missing: no such file or folder"),
        (("data", "get", "lama"), "unknown data set 'lama'; known are"),
        (("cues", "missing.txt"), "missing.txt"),
        (("dance",), "No such command 'dance'."),
    ],
)
def test_what_the_user_can_mend_is_one_line_and_status_2(arguments, said, mini, negengine, tmp_path):
    done = negengine(*(str(mini.folder) if a == "MINI" else a for a in arguments), env=_without_gpu(tmp_path))
    assert done.returncode == 2, done.stderr
    assert done.stdout == ""
    *_, line = done.stderr.splitlines()
    assert line.startswith("negengine: ")
    assert said in line
    assert not {path.name for path in tmp_path.iterdir()} - {"home"}, "something was left behind"


def _without_gpu(folder):
    (folder / "home").mkdir(exist_ok=True)
    return {**os.environ, "CUDA_VISIBLE_DEVICES": "", "HOME": str(folder / "home"), "NEGENGINE_DATA": "home/data"}


# ---------------------------------------------------------------- what is printed


def test_json_is_one_document_on_stdout_and_nothing_else(finished, mini):
    folder, done = finished
    document = json.loads(done.stdout)
    assert document["run"] == "run"
    assert document["tested"] == 3 * document["verbs"]
    assert "mini on cpu" in done.stderr
    scored = subprocess.run(
        [*PROGRAM, "score", "run", "--json"], capture_output=True, text=True, check=True, cwd=folder
    )
    rates = {row["pattern"]: row["repetition_rate"] for row in json.loads(scored.stdout)["rates"]}
    assert rates["CpTp"] == 100
    assert set(rates) == {"CpTp", "CpTn", "CnTp", "CnTn", "CpTv"}


def test_tables_and_the_next_command_are_shown(finished, mini):
    folder, _ = finished
    again = subprocess.run(
        [*PROGRAM, "select", mini.folder, "--pairs", "3", "-o", "run"],
        capture_output=True,
        text=True,
        check=True,
        cwd=folder,
    )
    assert "Selected triplets" in again.stdout or "selected" in again.stdout
    assert again.stdout.strip().endswith("run: next, `negengine score run`")


def test_predict_shows_what_it_was_asked(mini, negengine):
    text = "Jessica is a dancer who likes to smoke. She is happy to [MASK]."
    done = negengine("predict", mini.folder, text, "--top", 3, "--json")
    ((prediction),) = json.loads(done.stdout)
    assert prediction["text"] == text
    chances = [item["probability"] for item in prediction["top"]]
    assert chances == sorted(chances, reverse=True)
    assert 0 < sum(chances) <= 1


def test_a_closed_pipe_is_no_error(mini, tmp_path):
    command = f"{sys.executable} -m negengine.engine.cli.main doctor | true"
    done = subprocess.run(["bash", "-c", f"set -o pipefail; {command}"], capture_output=True, text=True, check=False)
    assert "Traceback" not in done.stderr


# ---------------------------------------------------------------- stopped from outside


# Parts of one pair each, so that there is something to resume after a second.
SMALL_PARTS = "from negengine.engine import cli, select; select._CANDIDATES_PER_PART = 1; cli.main()"
ARGUMENTS = ["--pairs", "6", "--precision", "fp32", "-o", "run"]


def start(folder, model):
    command = [sys.executable, "-c", SMALL_PARTS, "select", model, *ARGUMENTS]
    return subprocess.Popen([*map(str, command)], cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def parts(folder):
    """Finished parts of a run and when each was written."""
    return {path.name: path.stat().st_mtime_ns for path in (folder / "run/parts/select").glob("part-*.json")}


def wait_for_a_part(process, folder):
    """Until the first part is on disk: the process is in the middle of its work."""
    while not parts(folder):
        assert process.poll() is None, process.stderr.read()


@pytest.fixture(scope="module")
def undisturbed(mini, tmp_path_factory):
    """The selection of a run that nothing disturbs."""
    folder = tmp_path_factory.mktemp("undisturbed")
    process = start(folder, mini.folder)
    process.communicate()
    assert process.returncode == 0
    return (folder / "run" / "triplets.parquet").read_bytes()


@pytest.mark.parametrize("sign", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_ends_with_130_and_the_command_that_resumes(sign, mini, tmp_path):
    process = start(tmp_path, mini.folder)
    wait_for_a_part(process, tmp_path)
    process.send_signal(sign)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert out == ""
    *_, line = err.splitlines()
    assert line.startswith("negengine: interrupted; what is finished is kept. To resume: negengine select ")
    assert line.endswith(" ".join(ARGUMENTS))


@pytest.mark.parametrize("sign", [signal.SIGINT, signal.SIGKILL])
def test_a_stopped_run_resumes_to_the_bytes_of_an_undisturbed_one(sign, mini, undisturbed, tmp_path):
    process = start(tmp_path, mini.folder)
    wait_for_a_part(process, tmp_path)
    process.send_signal(sign)
    process.communicate(timeout=60)
    assert not (tmp_path / "run" / "triplets.parquet").exists()
    kept = parts(tmp_path)
    process = start(tmp_path, mini.folder)
    _, err = process.communicate(timeout=600)
    assert process.returncode == 0, err
    assert kept.items() <= parts(tmp_path).items(), "a finished part was done again"
    assert (tmp_path / "run" / "triplets.parquet").read_bytes() == undisturbed


def test_a_second_process_in_the_same_folder_is_refused_while_the_first_one_runs(mini, tmp_path):
    first = start(tmp_path, mini.folder)
    wait_for_a_part(first, tmp_path)
    second = start(tmp_path, mini.folder)
    _, err = second.communicate(timeout=60)
    assert second.returncode == 2
    assert str(first.pid) in err.splitlines()[-1]
    first.kill()
    first.communicate(timeout=60)


# ---------------------------------------------------------------- several devices


def test_several_devices_share_a_run_and_give_the_bytes_of_one(mini, undisturbed, tmp_path):
    command = [sys.executable, "-c", SMALL_PARTS, "select", str(mini.folder), *ARGUMENTS, "--device", "cpu,cpu"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "cpu (1): " in done.stderr
    assert "cpu (2): " in done.stderr
    assert {path.name for path in tmp_path.iterdir()} == {"run", "run-1-of-2", "run-2-of-2"}
    assert (tmp_path / "run" / "triplets.parquet").read_bytes() == undisturbed
    scored = subprocess.run(
        [*PROGRAM, "score", "run", "--device", "cpu,cpu", "--json"],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
    )
    assert scored.returncode == 0, scored.stderr
    assert {row["pattern"] for row in json.loads(scored.stdout)["rates"]} == {"CpTp", "CpTn", "CnTp", "CnTn", "CpTv"}


def test_a_process_that_fails_stops_the_others_and_says_why(mini, negengine, tmp_path):
    arguments = ["select", mini.folder, "--pairs", 6, "-o", "run", "--device", "cpu,cuda:7"]
    done = negengine(*arguments, env=_without_gpu(tmp_path))
    assert done.returncode == 2
    assert "cuda:7 (2): negengine: --device cuda:7: " in done.stderr
    assert done.stderr.splitlines()[-1].startswith("negengine: --device cuda:7: the process on run-2-of-2 ended")
