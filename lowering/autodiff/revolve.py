"""Binomial checkpointing: which steps of a loop to keep, and in which order to run again and reverse.

After A. Griewank, A. Walther, Algorithm 799: revolve, ACM TOMS 26 (2000). With s stored states (the first one among them) and at
most r repetitions of any step, beta(s, r) = C(s + r, s) steps can be reversed. A segment of l steps is split so that both
parts keep
the repetition number r of the whole, which makes the number of steps run again minimal:

    max(beta(s, r - 2), l - beta(s - 1, r)) <= first part <= min(beta(s, r - 1), l - beta(s - 1, r - 1))
"""

from __future__ import annotations

from math import comb
from typing import NamedTuple

__all__ = ["INITIAL", "NOWHERE", "Action", "Schedule", "make_schedule", "repetitions", "split_point"]

INITIAL = -1  # the slot of the state that the loop begins with; it is always there
NOWHERE = -2


class Action(NamedTuple):
    """One iteration: first take the state from slot `source` (unless NOWHERE), then reverse step `step`, or run it and put the
    new
    state into slot `target` (unless NOWHERE)."""

    reverse: bool
    step: int
    source: int
    target: int


class Schedule(NamedTuple):
    """`kept`: the steps whose states the forward loop keeps, by slot. `actions`: what follows."""

    kept: dict[int, int]
    actions: list[Action]

    @property
    def steps_run_again(self) -> int:
        """How many forward steps the reverse sweep runs."""
        return sum(1 for action in self.actions if not action.reverse)


def capacity(states: int, repeats: int) -> int:
    """beta(s, r): the number of steps that s stored states can reverse with r repetitions."""
    return comb(states + repeats, states) if states >= 0 and repeats >= 0 else 0


def repetitions(steps: int, states: int) -> int:
    """The least r with beta(states, r) >= steps."""
    repeats = 0
    while capacity(states, repeats) < steps:
        repeats += 1
    return repeats


def split_point(steps: int, states: int) -> int:
    """How many steps to run before the next state is stored, in a segment with `states` >= 2 stored states (its first
    included)."""
    repeats = repetitions(steps, states)
    first = min(capacity(states, repeats - 1), steps - capacity(states - 1, repeats - 1))
    return max(1, min(first, steps - 1))


def make_schedule(length: int, slots: int) -> Schedule:
    """The schedule for `length` >= 1 steps with `slots` states besides the initial one."""
    actions: list[Action] = []
    free = list(range(slots - 1, -1, -1))
    pending = [(0, length, INITIAL, NOWHERE)]  # (first step, end, slot of the first state, slot to free before)
    current = NOWHERE
    while pending:
        low, high, base, done = pending.pop()
        if done != NOWHERE:
            free.append(done)
        if high - low > 1 and free:
            middle = low + split_point(high - low, len(free) + 1)
            slot = free.pop()
            _advance(actions, low, middle, base if current != low else NOWHERE, slot)
            current = middle
            pending += [(low, middle, base, slot), (middle, high, slot, NOWHERE)]
            continue
        for step in range(high - 1, low - 1, -1):
            source = base if current != low else NOWHERE
            if step > low:
                _advance(actions, low, step, source, NOWHERE)
                source = NOWHERE
            actions.append(Action(True, step, source, NOWHERE))
            current = NOWHERE if step > low else step
    return _without_first_sweep(actions)


def _advance(actions: list[Action], low: int, high: int, source: int, target: int) -> None:
    """Runs steps low … high - 1."""
    for step in range(low, high):
        actions.append(Action(False, step, source if step == low else NOWHERE, target if step == high - 1 else NOWHERE))


def _without_first_sweep(actions: list[Action]) -> Schedule:
    """Leaves to the forward loop what it does anyway: all up to the last state stored before the first reversal."""
    first = next(index for index, action in enumerate(actions) if action.reverse)
    kept: dict[int, int] = {}
    last, slot = 0, INITIAL
    for index, action in enumerate(actions[:first]):
        if action.target != NOWHERE:
            last, slot = index + 1, action.target
            kept[slot] = action.step + 1
    rest = actions[last:]
    return Schedule(kept, [rest[0]._replace(source=slot), *rest[1:]])
