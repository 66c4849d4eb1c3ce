"""Random statements on two servers: their answers have to be the same, and errors of the same class.

A difference is made smaller before it is shown, with what repeats it: the case's number is the seed of its statements.
"""

import argparse
import collections
import pathlib
import sys
import time

import psycopg
import server
from server import Failed

from . import known
from .compare import Difference, Peer, differ
from .shrink import shrink
from .sql import Sql
from .statements import Statements


def main() -> int:
    parser = argparse.ArgumentParser(prog="differ", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--servers", nargs=2, choices=server.SERVERS, default=list(server.SERVERS))
    parser.add_argument("--first", type=int, default=1, help="the first case")
    parser.add_argument("--cases", type=int, default=10_000)
    parser.add_argument("--seconds", type=float, default=float("inf"), help="when to stop in any case")
    parser.add_argument("--most", type=int, default=10, help="kinds of differences after which it stops")
    parser.add_argument("--small", action="store_true", help="500 cases in 20 seconds at most")
    parser.add_argument("--report", type=pathlib.Path, help="a file for what is shown of differences")
    server.add_arguments(parser)
    arguments = parser.parse_args()
    if arguments.small:
        arguments.cases, arguments.seconds = 500, 20.0
    try:
        with server.new_server(arguments.servers[0], arguments, False, "differ-one") as one:
            with server.new_server(arguments.servers[1], arguments, False, "differ-other") as other:
                return compare((one, other), arguments)
    except Failed as failure:
        print(f"differ: {failure}", file=sys.stderr)
        return 2


def compare(servers: tuple, arguments) -> int:
    peers = tuple(Peer(each.environment(), seed=1) for each in servers)
    started, cases, meant, shown = time.monotonic(), 0, collections.Counter(), []
    seen = set()
    for number in range(arguments.first, arguments.first + arguments.cases):
        if time.monotonic() - started > arguments.seconds or len(shown) >= arguments.most:
            break
        cases += 1
        found = smallest(number, peers)
        if found is None:
            continue
        case, difference = found
        why = known.reason(str(case[-1]), difference)
        if why:
            meant[why] += 1
        elif signature(case, difference) not in seen:
            seen.add(signature(case, difference))
            shown.append(describe(number, case, difference, servers))
            print(shown[-1], flush=True)
    for why, times in meant.items():
        print(f"meant, {times} times: {why}")
    print(f"{cases} cases, {len(shown)} unexpected kinds of differences")
    if arguments.report:
        arguments.report.write_text("\n".join(shown))
    return 1 if shown else 0


def smallest(number: int, peers: tuple[Peer, Peer]) -> tuple[list[Sql], Difference] | None:
    """What is left of a case that shows a difference."""
    case, committed = Statements(number).case(), number % 3 == 0
    try:
        difference = differ(peers, case, committed)
        return difference and shrink(case, difference, lambda less: differ(peers, less, committed))
    except psycopg.Error as error:
        script = "\n".join(f"  {statement};" for statement in case)
        raise Failed(f"case {number} cannot go on: {error}\n{script}") from error


def signature(case: list[Sql], difference: Difference) -> tuple:
    """Cases that differ in the same way in statements of the same words are shown once."""
    words = frozenset(word for word in str(case[-1]).replace("(", " ( ").split() if word.isupper())
    return difference.nature, difference.answers[0].message, difference.answers[1].message, words


def describe(number: int, case: list[Sql], difference: Difference, servers: tuple) -> str:
    script = "\n".join(f"  {statement};" for statement in case)
    answers = "\n".join(f"  -- {each.name}: {shown}" for each, shown in zip(servers, difference.shown()))
    return f"case {number}\n{script}\n{answers}\n"


if __name__ == "__main__":
    sys.exit(main())
