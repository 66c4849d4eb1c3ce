"""Makes a case that shows a difference as small as it gets with the difference kept."""

from collections.abc import Callable, Iterator

from .compare import Difference
from .sql import Sql

# How often the servers are asked for one case.
TRIALS_MAX = 400


def shrink(case: list[Sql], difference: Difference, test: Callable[[list[Sql]], Difference | None]) -> tuple[list[Sql], Difference]:
    """Takes the first smaller case that still differs in the same way, until there is none."""
    case = case[:difference.at + 1]
    trials = 0
    found = True
    while found and trials < TRIALS_MAX:
        found = False
        for less in smaller(case):
            trials += 1
            again = test(less)
            if again is not None and again.nature == difference.nature:
                case, difference, found = less[:again.at + 1], again, True
                break
            if trials >= TRIALS_MAX:
                break
    return case, difference


def smaller(case: list[Sql]) -> Iterator[list[Sql]]:
    """Without a statement; then with less in one of them."""
    if len(case) > 1:
        yield from (case[:at] + case[at + 1:] for at in range(len(case)))
    for at, statement in enumerate(case):
        yield from ([*case[:at], less, *case[at + 1:]] for less in statement.smaller())
