"""Checks with names, run one by one; results in the Test Anything Protocol on standard output.

Every client program here works like this one: its arguments are the names of the checks to run (none: all), and it
exits with status 1 if any has failed.
"""

import sys
import time
import traceback

_checks = {}


def check(function):
    """Registers a function; what it raises is its failure."""
    _checks[function.__name__] = function
    return function


def run() -> int:
    names = sys.argv[1:] or list(_checks)
    print(f"1..{len(names)}", flush=True)
    return int(not all([_passes(name) for name in names]))


def _passes(name: str) -> bool:
    started = time.monotonic()
    try:
        _checks[name]()
    except Exception as problem:
        print(f"not ok - {name}")
        for line in _shown(problem).splitlines():
            print(f"# {line}")
        sys.stdout.flush()
        return False
    print(f"ok - {name} # {time.monotonic() - started:.2f} s", flush=True)
    return True


def _shown(problem: Exception) -> str:
    last = traceback.extract_tb(problem.__traceback__)
    ours = [frame for frame in last if frame.name in _checks] or last[-1:]
    return f"line {ours[-1].lineno}: {type(problem).__name__}: {problem}\n{ours[-1].line}"


def equal(found, expected) -> None:
    if found != expected:
        raise AssertionError(f"found {found!r:.500}, expected {expected!r:.500}")
