"""The probes' commands: parse, call, print. No logic.

What a command needs is imported inside it, so that `negengine --help` answers at once.
"""

from pathlib import Path
from typing import Annotated, Any

import typer

from ..errors import InputError
from . import options
from .console import document, say, show

Data = Annotated[
    Path | None, typer.Option("--data", metavar="PATH", help="Where the data are; by default as `data get` left them.")
]

data = typer.Typer(help="Fetch the data sets of other authors.", no_args_is_help=True, rich_markup_mode=None)


def register(app: typer.Typer) -> None:
    """Add the commands to the program."""
    for command in (gh22, lama, diagnostics, nli, cues):
        app.command()(command)
    app.add_typer(data, name="data")


def gh22(
    model: options.Model = "mini",
    pairs: options.Pairs = None,
    ranks: Annotated[str, typer.Option(help="Ranks of the ACTs among the model's own predictions.")] = "1,50,100,200",
    variant: Annotated[
        list[str] | None, typer.Option(help="original, connective or coordinated; all by default, may be repeated.")
    ] = None,
    lexicon: options.Lexicon = None,
    seed: options.Seed = 0,
    device: options.Device = "auto",
    batch_tokens: options.BatchTokens = None,
    threads: options.Threads = None,
    output: options.Output = None,
    as_json: options.Json = False,
) -> None:
    """Replicate the test of Gubelmann & Handschuh (2022), with ACTs that the model chooses itself.

    Running it again resumes it. Example: negengine gh22 mini --pairs 100
    """
    from ..inference.exported import load_exported
    from ..probes.gh22 import probe, tables
    from ..probes.gh22.acts import plan_acts
    from ..sentences.lexicon import load_lexicon

    try:
        numbers = [int(rank) for rank in ranks.split(",")]
    except ValueError:
        raise InputError(f"--ranks {ranks}: give numbers with commas between, such as 1,50,100,200") from None
    kinds = [options.choice(probe.Variant, "--variant", word) for word in variant or probe.Variant]
    variants = {kind: probe.load_variant(kind) for kind in dict.fromkeys(kinds)}
    exported = load_exported(model)
    sentence = probe.load_variant(probe.Variant.ORIGINAL).selecting
    acts = plan_acts(exported, load_lexicon(lexicon), sentence, ranks=numbers, pairs=pairs, seed=seed)
    engine, session = _open_model(exported, device, batch_tokens, threads)
    folder = output or _run_folder(exported.name, "gh22")
    summary = probe.run(acts, variants, engine, folder, session=session)
    if as_json:
        _document(folder, summary)
        return
    for kind, patterns in variants.items():
        show(tables.rates_table(summary, kind, patterns, exported.name), tables.drops_table(summary, kind))
    print(tables.acts_line(summary) or f"{folder}/summary.parquet has all figures")


def lama(
    model: options.Model = "mini",
    data: Annotated[
        list[Path] | None,
        typer.Option("--data", metavar="PATH", help="Facts as LAMA or its negated copy have them; may be repeated."),
    ] = None,
    corpus: Annotated[
        list[str] | None, typer.Option(help="GoogleRE, TREx, ConceptNet or SQuAD; all by default, may be repeated.")
    ] = None,
    vocabulary: Annotated[
        str, typer.Option(metavar="all|words|FILE", help="Which tokens are ranked: all, words, or those of a list.")
    ] = "all",
    with_p159: Annotated[
        bool, typer.Option("--with-p159", help="Count P159 too, whose negation is the affirmative sentence.")
    ] = False,
    device: options.Device = "auto",
    batch_tokens: options.BatchTokens = None,
    threads: options.Threads = None,
    output: options.Output = None,
    as_json: options.Json = False,
) -> None:
    """Ask facts, their negations and misprimed copies (Kassner and Schütze 2020).

    Running it again resumes it. Example: negengine lama mini --corpus GoogleRE
    """
    import polars as pl

    from ..datasets.fetch import find
    from ..inference.exported import load_exported
    from ..probes.lama import probe
    from ..probes.lama.facts import read_facts
    from ..probes.lama.tables import tables
    from ..probes.run import ITEMS_FILE
    from ..probes.targets import read_words, word_ids
    from ..sentences.tokens import MaskTokenizer

    facts = read_facts(data or [find("negated-lama")], corpus or ())
    exported = load_exported(model)
    tokenizer = MaskTokenizer.load(exported.folder, exported.mask_token)
    kept = None
    if vocabulary == "words":
        kept = word_ids(tokenizer, exported.vocab_size)
    elif vocabulary != "all":
        kept = read_words(tokenizer, Path(vocabulary))
    plan = probe.plan(exported, facts, kept=kept, vocabulary=vocabulary, with_p159=with_p159)
    say(f"{len(plan.facts):,} facts, {len(plan.kept):,} tokens ranked")
    for why, count in plan.dropped.items():
        say(f"left out: {count:,} {why}")
    engine, session = _open_model(exported, device, batch_tokens, threads)
    folder = output or _run_folder(exported.name, "lama")
    summary = probe.run(plan, engine, folder, session=session)
    if as_json:
        _document(folder, summary)
    else:
        show(*tables(summary, pl.read_parquet(folder / ITEMS_FILE), exported.name))


def diagnostics(
    model: options.Model = "mini",
    data: Data = None,
    dataset: Annotated[
        list[str] | None,
        typer.Option(help="CPRAG-102, ROLE-88, NEG-136-SIMP or NEG-136-NAT; all by default, may be repeated."),
    ] = None,
    draws: Annotated[int, typer.Option(min=1, help="Shuffles of each context.")] = 3,
    seed: options.Seed = 0,
    device: options.Device = "auto",
    batch_tokens: options.BatchTokens = None,
    threads: options.Threads = None,
    output: options.Output = None,
    as_json: options.Json = False,
) -> None:
    """Predict where people's predictions are known (Ettinger 2020): accuracy, sensitivity, perturbed contexts.

    Running it again resumes it. Example: negengine diagnostics mini --dataset ROLE-88
    """
    from ..datasets.fetch import find
    from ..inference.exported import load_exported
    from ..probes.diagnostics import probe
    from ..probes.diagnostics.items import read_diagnostics

    rows = read_diagnostics(find("lm-diagnostics", data), dataset or ())
    exported = load_exported(model)
    plan = probe.plan(exported, rows, draws=draws, seed=seed)
    for name, words in plan.outside.items():
        if words:
            say(f"{name}: {len(words)} words are not one token: {', '.join(sorted(words)[:8])}")
    engine, session = _open_model(exported, device, batch_tokens, threads)
    folder = output or _run_folder(exported.name, "diagnostics")
    summary = probe.run(plan, engine, folder, session=session)
    if as_json:
        _document(folder, summary)
    else:
        show(*probe.tables(summary, exported.name))


def nli(
    model: Annotated[str, typer.Argument(help="A classifier of pairs: exported folder, or name under models/.")],
    data: Data = None,
    source: Annotated[
        list[str] | None, typer.Option(help="RTE, SNLI or MNLI; all by default, may be repeated.")
    ] = None,
    original: Annotated[
        list[str] | None,
        typer.Option(metavar="SOURCE=FILE", help="An original dev set in the layout of GLUE; may be repeated."),
    ] = None,
    labels: Annotated[
        str | None, typer.Option(help="What the logits stand for, in order, if the head does not say.")
    ] = None,
    max_length: Annotated[int | None, typer.Option(min=8, help="Most tokens of a pair; the paper's 128.")] = None,
    device: options.Device = "auto",
    batch_tokens: options.BatchTokens = None,
    threads: options.Threads = None,
    output: options.Output = None,
    as_json: options.Json = False,
) -> None:
    """Judge the pairs with negation of Hossain and others (2020) with a classifier.

    Export it with --task text-classification. Running it again resumes it.
    Example: negengine nli textattack/bert-base-uncased-RTE --source RTE
    """
    from ..datasets.fetch import find
    from ..inference.classifier import PairClassifier
    from ..inference.device import choose_device
    from ..inference.exported import load_exported
    from ..probes.nli import probe, tables
    from ..probes.nli.pairs import SOURCES

    originals = dict(_source_and_file(text) for text in original or [])
    sets = probe.read_sets(find("negation-nli", data), originals, source or tuple(SOURCES))
    exported = load_exported(model, task="text-classification")
    evaluation = probe.plan(exported, sets, names=labels, max_length=max_length)
    chosen = choose_device(device)
    classifier = PairClassifier(exported, chosen, batch_tokens=batch_tokens, threads=threads)
    say(f"{exported.name} on {chosen}; its logits are {', '.join(evaluation.head)}")
    folder = output or _run_folder(exported.name, "nli")
    summary = probe.run(evaluation, classifier, folder, session={"device": str(chosen)})
    if as_json:
        _document(folder, summary)
        return
    show(tables.accuracy_table(summary, exported.name, exported.family), tables.label_table(summary))
    show(tables.comparison_table(summary))


def cues(
    files: Annotated[list[Path], typer.Argument(metavar="FILE...", help="UTF-8 texts.")],
    as_json: options.Json = False,
) -> None:
    """Count the sentences of texts that hold a negation cue.

    Example: negengine cues corpus.txt
    """
    from ..probes.nli.cues import cue_share, cues_table

    shares = [cue_share(path) for path in files]
    if as_json:
        document([{"file": str(share.path), "share": share.share, **_counts(share)} for share in shares])
    else:
        show(cues_table(shares))


def _counts(share: Any) -> dict[str, Any]:
    return {
        "sentences": share.sentences,
        "negated": share.negated,
        "by_kind": {str(kind): count for kind, count in share.by_kind.items()},
        "cues": share.cues,
    }


@data.command("list")
def list_data(as_json: options.Json = False) -> None:
    """Say which data sets there are, and whether they are here.

    Example: negengine data list
    """
    from ..datasets.fetch import sources, sources_table

    if as_json:
        document(
            [
                {"name": found.name, "title": found.title, "licence": found.licence, "here": not found.missing()}
                for found in sources().values()
            ]
        )
    else:
        show(sources_table())


@data.command("get")
def get_data(names: Annotated[list[str], typer.Argument(metavar="NAME...", help="As `data list` shows them.")]) -> None:
    """Fetch data sets into the cache, or check that they are there.

    NEGENGINE_DATA names another folder for them. Example: negengine data get lm-diagnostics
    """
    from ..datasets.fetch import get, source

    for name in names:
        source(name)
    for name in names:
        print(get(name, say=say))


def _run_folder(model: str, probe: str) -> Path:
    return Path("runs") / f"{model}-{probe}"


def _open_model(
    exported: Any, device: str, batch_tokens: int | None, threads: int | None
) -> tuple[Any, dict[str, Any]]:
    from ..inference.device import choose_device
    from ..inference.model import MaskedLM

    chosen = choose_device(device)
    model = MaskedLM(exported, chosen, batch_tokens=batch_tokens, threads=threads)
    say(f"{exported.name} on {chosen}, {model.batch_tokens} tokens a batch, fp32")
    return model, {"device": str(chosen), "precision": "fp32", "batch tokens": model.batch_tokens}


def _document(folder: Path, summary: Any) -> None:
    document({"run": str(folder), "summary": summary.to_dicts()})


def _source_and_file(text: str) -> tuple[str, Path]:
    source, equals, file = text.partition("=")
    if not equals or not file:
        raise InputError(f"--original {text}: give SOURCE=FILE, such as RTE=dev.tsv")
    return source, Path(file)
