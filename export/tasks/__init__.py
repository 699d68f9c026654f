"""The tasks that a checkpoint can be exported for. To add one, write a file beside this one and name it here."""

from transformers import PretrainedConfig

from ...engine.errors import InputError
from . import fill_mask, text_classification, text_generation, token_classification
from .task import Task

TASKS: dict[str, Task] = {
    task.head.task: task
    for task in (fill_mask.TASK, text_generation.TASK, text_classification.TASK, token_classification.TASK)
}


def task_named(name: str) -> Task:
    """A task by its name.

    Raises:
        InputError: there is no such task.
    """
    if name not in TASKS:
        raise InputError(f"{name} is not a task of the export: give {' or '.join(TASKS)}")
    return TASKS[name]


def task_of(config: PretrainedConfig) -> Task:
    """The task of a checkpoint, by the class that its configuration names, else by its family.

    `fill-mask` where neither tells: the checkpoint is refused for this task then, with the reason.
    """
    for architecture in config.architectures or ():
        for task in TASKS.values():
            if architecture.endswith(task.head.endings):
                return task
    return next((task for task in TASKS.values() if type(config) in task.head.families), fill_mask.TASK)


__all__ = ["TASKS", "Task", "task_named", "task_of"]
