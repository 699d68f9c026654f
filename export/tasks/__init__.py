"""The tasks that a checkpoint can be exported for. To add one, write a file beside this one and name it here."""

from transformers import PretrainedConfig

from . import fill_mask, text_classification, text_generation
from .task import Task

TASKS: dict[str, Task] = {
    task.head.task: task for task in (fill_mask.TASK, text_generation.TASK, text_classification.TASK)
}


def task_of(config: PretrainedConfig) -> str:
    """The task of a checkpoint, by the class that its configuration names, else by its family.

    `fill-mask` where neither tells: the checkpoint is refused for this task then, with the reason.
    """
    for architecture in config.architectures or ():
        for name, task in TASKS.items():
            if architecture.endswith(task.head.endings):
                return name
    return next((name for name, task in TASKS.items() if type(config) in task.head.families), fill_mask.TASK.head.task)


__all__ = ["TASKS", "Task", "task_of"]
