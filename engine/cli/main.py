"""Commands only: parse, call, print. No logic.

What a command needs is imported inside it, so that `negengine --help` answers at once.
"""

import json
import signal
import sys
from functools import partial
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer

from ..errors import InputError
from . import options
from . import probe_commands as commands
from .console import document, say, show

app = typer.Typer(
    name="negengine",
    help="Negation probes of masked language models, at the speed of the hardware.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
)


def main() -> NoReturn:
    """Run a command; exit with 0 done, 1 a fault of ours, 2 the user can mend it, 130 interrupted."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # a batch system's polite stop is an interrupt too
    try:
        status = app(standalone_mode=False)  # typer turns an interrupt into the status 130
    except InputError as error:
        _fail(str(error), 2)
    except typer.TyperException as error:
        if len(sys.argv) == 1:
            print(error.format_message())
            sys.exit(0)
        context = getattr(error, "ctx", None)
        _fail(f"{error.format_message()} (see `{context.command_path if context else 'negengine'} --help`)", 2)
    except BrokenPipeError:
        sys.stderr.close()
        sys.exit(0)
    if status == _INTERRUPTED:
        kept = f"; what is finished is kept. To resume: {_same_command()}" if sys.argv[1] in _RESUMABLE else ""
        _fail(f"interrupted{kept}", _INTERRUPTED)
    sys.exit(status or 0)


_INTERRUPTED = 130
_RESUMABLE = {"select", "score", "merge", "gh22", "lama", "diagnostics", "nli"}


def _fail(message: str, status: int) -> NoReturn:
    print(f"negengine: {message}", file=sys.stderr)
    sys.exit(status)


def _same_command() -> str:
    import shlex

    return shlex.join(["negengine", *sys.argv[1:]])


@app.command()
def export(
    model: Annotated[str, typer.Argument(help="Hub id, local folder, or mini (the bundled model).")] = "mini",
    output: options.Output = None,
    revision: Annotated[str | None, typer.Option(help="Branch, tag or commit on the hub.")] = None,
    allow_pickle: Annotated[bool, typer.Option(help="Read pickled weights: they can run code.")] = False,
    task: Annotated[str, typer.Option(help="fill-mask, or text-classification for sentence pairs.")] = "fill-mask",
    force: Annotated[bool, typer.Option(help="Build anew even if nothing changed.")] = False,
    as_json: options.Json = False,
) -> None:
    """Export a masked language model, or a classifier of sentence pairs, to ONNX, once.

    Example: negengine export roberta-base
    """
    build = _export_package(task)
    folder = build(model, output, revision=revision, allow_pickle=allow_pickle, force=force, say=say)
    if as_json:
        document({"folder": str(folder), **json.loads((folder / "export.json").read_text(encoding="utf-8"))})
    else:
        print(folder)


def _export_package(task: str) -> Any:
    """The function that exports for a task."""
    try:
        from ...export.build import build
        from ...export.classification import build as build_classifier
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("negengine"):
            raise
        raise InputError(f"export needs {error.name}: pip install 'negengine[export]'") from None
    builders = {"fill-mask": build, "text-classification": build_classifier}
    if task not in builders:
        raise InputError(f"--task {task}: give {' or '.join(builders)}")
    return builders[task]


@app.command()
def select(
    context: typer.Context,
    model: options.Model = "mini",
    pairs: options.Pairs = None,
    max_verbs: Annotated[int, typer.Option(min=1, help="Most verbs kept of a pair.")] = 20,
    coreference: Annotated[
        str, typer.Option(help="Target about: pronoun, same-name, same-gender or other-gender.")
    ] = "pronoun",
    verbs: Annotated[str, typer.Option(help="One token in-context, or also bare.")] = "in-context",
    lazy: Annotated[
        bool, typer.Option("--lazy", help="Stop a pair at --max-verbs: same triplets, fewer calls.")
    ] = False,
    lexicon: options.Lexicon = None,
    patterns: Annotated[Path | None, typer.Option(metavar="FILE", help="Your own pattern set, TOML.")] = None,
    seed: options.Seed = 0,
    device: options.Devices = "auto",
    precision: options.Precision = "auto",
    batch_tokens: options.BatchTokens = None,
    threads: options.Threads = None,
    shard: options.Shard = None,
    output: options.Output = None,
    as_json: options.Json = False,
    verbose: options.Verbose = False,
) -> None:
    """Find the triplets [NAME, PROF, verb] whose verb the model repeats.

    Running it again resumes it. Example: negengine select mini --pairs 60
    """
    from ..inference.exported import load_exported
    from ..inference.precision import Precision, choose_decider
    from ..negation import select as selection_run
    from ..negation.grid import Coreference
    from ..runs.folder import Shard
    from ..sentences.lexicon import load_lexicon
    from ..sentences.patterns import load_patterns
    from ..sentences.tokens import VerbConvention

    exported = load_exported(model)
    if "," in device:
        folder = output or _run_folder(exported.name, Shard.parse("1/1"))
        _on_each_device(context, folder, folder)
        _show_selection(folder, as_json)
        return
    settings = selection_run.Settings(
        seed=seed,
        pairs=pairs,
        max_verbs=max_verbs,
        coreference=options.choice(Coreference, "--coreference", coreference),
        verbs=options.choice(VerbConvention, "--verbs", verbs),
        lazy=lazy,
    )
    share = Shard.parse(shard or "1/1")
    plan = selection_run.plan(exported, load_lexicon(lexicon), load_patterns(patterns), settings)
    folder = output or _run_folder(exported.name, share)
    _say_composer(plan.patterns.selecting.name, plan.composer)
    if verbose:
        say(f"{plan.grid.verbs:,} of {len(plan.lexicon.verbs):,} verbs are one token at the mask")
        say(f"{len(plan.grid.pairs):,} pairs, {plan.grid.size:,} candidates, {len(plan.parts):,} parts")
        _say_identity(plan.identity)
    models, session = _open_models(exported, device, precision, batch_tokens, threads)
    decider = choose_decider(
        models,
        Precision(precision),
        plan.patterns.selecting.name,
        partial(selection_run.sample, plan),
        total=plan.grid.size // share.count,
        seed=seed,
        say=say,
    )
    summary = selection_run.select(plan, decider, folder, shard=share, session=session)
    if summary is None:
        _shard_done("select", folder, share, as_json)
    else:
        _show_selection(folder, as_json)


@app.command()
def score(
    context: typer.Context,
    run: Annotated[Path, typer.Argument(help="A run folder with a finished selection.")],
    model: Annotated[str | None, typer.Option(help="Where the run's model is, if it has moved.")] = None,
    device: options.Devices = "auto",
    precision: options.Precision = "auto",
    batch_tokens: options.BatchTokens = None,
    threads: options.Threads = None,
    shard: options.Shard = None,
    output: options.Output = None,
    as_json: options.Json = False,
    verbose: options.Verbose = False,
) -> None:
    """Score the selected triplets in all patterns: rates, drops, intervals.

    Running it again resumes it. Example: negengine score runs/mini
    """
    from ..inference.precision import Precision, choose_decider
    from ..negation import score as scoring_run
    from ..runs.folder import Shard

    selected = scoring_run.read_selected(run)
    exported = selected.exported(model)
    if "," in device:
        folder = output or run
        _on_each_device(context, folder, run.with_name(f"{run.name}-score"))
        _show_scores(folder, as_json)
        return
    share = Shard.parse(shard or "1/1")
    plan = scoring_run.plan(selected, exported)
    folder = output or (run if share.count == 1 else run.with_name(f"{run.name}-score-{share.index}-of-{share.count}"))
    for pattern in plan.patterns:
        _say_composer(pattern.pattern.name, pattern.composer)
    if verbose:
        say(f"{len(selected.triplets):,} triplets, {len(plan.patterns)} patterns, {len(plan.parts):,} parts")
        _say_identity(plan.identity)
    models, session = _open_models(exported, device, precision, batch_tokens, threads)
    deciders = {
        pattern.pattern.name: choose_decider(
            models,
            Precision(precision),
            pattern.pattern.name,
            partial(scoring_run.sample, pattern, seed=selected.facts["seed"]),
            total=len(selected.triplets) // share.count,
            seed=selected.facts["seed"],
            say=say,
        )
        for pattern in plan.patterns
    }
    rates = scoring_run.score(plan, deciders, folder, shard=share, session=session)
    if rates is None:
        _shard_done("score", folder, share, as_json)
    else:
        _show_scores(folder, as_json)


@app.command()
def merge(
    shards: Annotated[list[Path], typer.Argument(metavar="SHARD...", help="The folders of all shards.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="The run folder to write.")],
    as_json: options.Json = False,
) -> None:
    """Put the shards of a selection or a scoring together.

    Example: negengine merge runs/mini-1-of-2 runs/mini-2-of-2 -o runs/mini
    """
    from ..runs.merge import merge as run

    stage = run(shards, output).stage
    if stage == "score":
        _show_scores(output, as_json)
    else:
        _show_selection(output, as_json)


def _on_each_device(context: typer.Context, folder: Path, shards: Path) -> None:
    """Run this very command once for each of its devices, and merge the shards (SHARDS-1-of-2 …) into the folder."""
    from ..runs.launch import run_shards
    from ..runs.merge import merge

    if context.params["shard"]:
        raise InputError(f"--shard {context.params['shard']}: with several devices each does its own share; give one")
    command = [context.info_name or ""]
    for parameter in context.command.params:
        value = context.params.get(parameter.name or "")
        if parameter.name in {"device", "shard", "output", "as_json", "context"} or value is None or value is False:
            continue
        option = [parameter.opts[0]] if parameter.opts[0].startswith("-") else []
        command += option if value is True else [*option, str(value)]
    merge(run_shards(context.params["device"].split(","), command, shards, say), folder)


def _run_folder(model: str, shard: Any) -> Path:
    return Path("runs") / (model if shard.count == 1 else f"{model}-{shard.index}-of-{shard.count}")


def _say_composer(pattern: str, composer: Any) -> None:
    if composer.slotwise:
        say(f"{pattern}: composed from pieces, equal to the tokenizer on {composer.proved:,} sentences")
    else:
        say(f"{pattern}: every sentence is tokenized, which is slower: {composer.reason}")


def _say_identity(identity: dict[str, Any]) -> None:
    for key, value in identity.items():
        say(f"{key}: {value}")


def _open_models(
    exported: Any,
    device: str,
    precision: str,
    batch_tokens: int | None,
    threads: int | None,
) -> tuple[Any, dict[str, Any]]:
    from ..inference.device import choose_device
    from ..inference.precision import Precision, open_models

    chosen = choose_device(device)
    kind = options.choice(Precision, "--precision", precision)
    models = open_models(exported, chosen, kind, batch_tokens=batch_tokens, threads=threads)
    tokens = models.exact.batch_tokens
    say(f"{exported.name} on {chosen}, {tokens} tokens a batch")
    return models, {"device": str(chosen), "precision": str(kind), "batch tokens": tokens}


def _shard_done(stage: str, folder: Path, shard: Any, as_json: bool) -> None:
    if as_json:
        document({"run": str(folder), "stage": stage, "shard": str(shard), "finished": True})
    else:
        print(f"{folder}: shard {shard} of {stage} is finished; when all are, `negengine merge SHARD… -o RUN`")


def _show_selection(folder: Path, as_json: bool) -> None:
    from ..negation.published import published
    from ..negation.tables import selection_table

    summary = json.loads((folder / "selection.json").read_text(encoding="utf-8"))
    if as_json:
        document({"run": str(folder), **summary})
    else:
        show(selection_table(summary, published(summary["model"])))
        print(f"{folder}: next, `negengine score {folder}`")


def _show_scores(folder: Path, as_json: bool) -> None:
    import polars as pl

    from ..negation.published import published
    from ..negation.reading import reading
    from ..negation.score import read_selected
    from ..negation.tables import rates_table, selection_table

    rates = pl.read_parquet(folder / "rates.parquet")
    summary = json.loads((folder / "selection.json").read_text(encoding="utf-8"))
    patterns = read_selected(folder).patterns
    said = reading(rates, patterns, summary["coreference"])
    if as_json:
        document({"run": str(folder), "rates": rates.to_dicts(), "reading": said})
        return
    paper = published(summary["model"])
    show(selection_table(summary, paper), rates_table(rates, patterns, summary, paper))
    show(said)


@app.command()
def compare(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN...", help="The folders of finished runs.")],
    as_json: options.Json = False,
) -> None:
    """Compare the patterns of a run, runs of two models, or runs that differ in --coreference.

    Example: negengine compare runs/roberta-base runs/roberta-large
    """
    from ..probes import compare as comparison

    rows, table = comparison.compare([comparison.read_finished(folder) for folder in runs])
    if as_json:
        document(rows.to_dicts())
    else:
        show(table)


@app.command()
def predict(
    model: options.Model,
    texts: Annotated[list[str], typer.Argument(metavar="TEXT...", help="Sentences with one [MASK] each.")],
    top: Annotated[int, typer.Option("--top", "-k", min=1, help="How many tokens to show.")] = 5,
    device: options.Device = "auto",
    as_json: options.Json = False,
) -> None:
    """Show the most probable tokens at the mask of free text.

    Example: negengine predict mini "Jessica is a dancer. She is happy to [MASK]."
    """
    from ..inference.predict import predict as run
    from ..inference.predict import predictions_table

    predictions = run(model, texts, top=top, device=device)
    if as_json:
        document(predictions)
    else:
        show(*(predictions_table(item) for item in predictions))


@app.command()
def bench(
    models: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[MODEL...]",
            help="mini, any checkpoint, or random weights: bert-base-shape, bert-large-shape, roberta-base-shape.",
        ),
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Under three minutes: less of everything, no sweep.")] = False,
    rounds: Annotated[int | None, typer.Option(min=1, help="How often each way is timed.")] = None,
    device: options.Device = "auto",
) -> None:
    """Measure the engine beside its peers and the ceiling of this machine; the last line is one JSON document.

    Example: negengine bench mini --quick
    """
    try:
        from ...bench.report import tables
        from ...bench.run import bench as measure
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("negengine"):
            raise
        raise InputError(f"bench needs {error.name}: pip install 'negengine[export]'") from None
    found = measure(models or ["mini"], device=device, quick=quick, rounds=rounds, say=say)
    for result in found["models"]:
        show(*tables(result))
    print(json.dumps(found, ensure_ascii=False))


@app.command()
def doctor(as_json: options.Json = False) -> None:
    """Say what runs here, and what is missing for the rest.

    Example: negengine doctor
    """
    from .doctor import diagnose

    found = diagnose()
    if as_json:
        document(found)
    else:
        width = max(map(len, found))
        for name, value in found.items():
            print(f"{name:{width}}  {value}")


commands.register(app)

if __name__ == "__main__":
    main()
