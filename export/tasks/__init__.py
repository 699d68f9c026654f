"""The tasks that a checkpoint can be exported for. To add one, write a file beside this one and name it here."""

from ...engine.errors import InputError
from . import fill_mask, text_classification
from .task import Task

TASKS: dict[str, Task] = {task.head.task: task for task in (fill_mask.TASK, text_classification.TASK)}


def task_named(name: str) -> Task:
    """A task by its name.

    Raises:
        InputError: there is no such task.
    """
    if name not in TASKS:
        raise InputError(f"{name} is not a task of the export: give {' or '.join(TASKS)}")
    return TASKS[name]


__all__ = ["TASKS", "Task", "task_named"]
