"""Work inside work without recursion: a task is a generator that yields the tasks whose results it waits for."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, TypeAlias, TypeVar, cast

__all__ = ["Task", "run_task"]

T = TypeVar("T")
Task: TypeAlias = Generator[Any, Any, T]


def run_task(task: Task[T]) -> T:
    """The result of a task; the tasks that it yields are run on a stack of their own, so nesting depth costs no recursion."""
    stack: list[Task[Any]] = [task]
    result: Any = None
    failure: BaseException | None = None
    while stack:
        try:
            if failure is None:
                waited_for = stack[-1].send(result)
            else:
                problem, failure = failure, None
                waited_for = stack[-1].throw(problem)
        except StopIteration as stop:
            stack.pop()
            result = stop.value
        except BaseException as problem:
            stack.pop()
            if not stack:
                raise
            failure = problem
        else:
            stack.append(waited_for)
            result = None
    return cast(T, result)
