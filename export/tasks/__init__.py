"""The tasks that a checkpoint can be exported for. To add one, write a file beside this one and name it here."""

from . import fill_mask, text_classification
from .task import Task

TASKS: dict[str, Task] = {task.head.task: task for task in (fill_mask.TASK, text_classification.TASK)}

__all__ = ["TASKS", "Task"]
