"""The paper's hyperparameters: those of the authors' scripts."""

import pytest
from negengine.engine.errors import InputError
from negengine.export.training.nli.paper import paper_settings, source_of
from negengine.export.training.settings import Settings


@pytest.mark.parametrize(
    ("source", "family", "epochs", "batch_size", "learning_rate", "weight_decay"),
    [
        ("RTE", "roberta", 10, 16, 2e-5, 0.0),
        ("RTE", "xlnet", 50, 8, 2e-5, 0.0),
        ("RTE", "bert", 50, 8, 2e-5, 0.0),
        ("RTE", "electra", 50, 8, 2e-5, 0.0),
        ("SNLI", "roberta", 3, 32, 1e-5, 0.1),
        ("SNLI", "bert", 3, 32, 1e-5, 0.1),
        ("MNLI", "xlnet", 3, 32, 2e-5, 0.0),
    ],
)
def test_settings_are_those_of_the_scripts(source, family, epochs, batch_size, learning_rate, weight_decay):
    found = Settings(**paper_settings(source, family))
    assert found == Settings(epochs, batch_size, learning_rate, weight_decay, warmup=0.0, max_length=128, seed=42)


def test_a_task_is_found_by_its_name():
    assert [source_of(task) for task in ("rte", "snli", "mnli")] == ["RTE", "SNLI", "MNLI"]
    with pytest.raises(InputError, match="--task QNLI: "):
        source_of("qnli")
