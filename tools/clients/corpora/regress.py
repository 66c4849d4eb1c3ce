"""PostgreSQL's regression tests: each script by psql on both servers, and what follows each of its lines compared."""

import collections
import os
import pathlib
import re
import subprocess

# Of a script, in seconds.
LONGEST = 120
# What is said beside an answer, and words that stand for a place in a script.
BESIDE = re.compile(r"LINE \d+:| *\^|HINT:|DETAIL:|CONTEXT:|NOTICE:|WARNING:")
PLACE = re.compile(r"^psql:[^ ]*: ")


def run(servers: dict, arguments) -> int:
    directory = arguments.directory.resolve()
    schedule = (directory / "parallel_schedule").read_text().splitlines()
    names = [name for line in schedule if line.startswith("test:") for name in line.split()[1:]]
    # What others read.
    chosen = [name for name in names if name == "test_setup" or arguments.only in name]
    counted = collections.Counter()
    with arguments.report.open("w") as report:
        for name in chosen:
            script = directory / "sql" / f"{name}.sql"
            answers = {who: answered(script, shown(script, each, directory)) for who, each in servers.items()}
            for line in sorted(set(answers["saki"]) | set(answers["postgres"])):
                ours, theirs = (answers[who].get(line, []) for who in ("saki", "postgres"))
                kind = difference(ours, theirs)
                counted[kind] += 1
                if kind not in ("same", "both refuse"):
                    report.write(f"{kind}: {script}:{line}\n  {ours[:8]}\n  {theirs[:8]}\n")
    print(", ".join(f"{kind}: {count}" for kind, count in sorted(counted.items())), f"({arguments.report})")
    return 0


def shown(script: pathlib.Path, server, directory: pathlib.Path) -> list[str]:
    """What psql shows, the script's lines among it."""
    environment = dict(os.environ, **server.environment(), PG_ABS_SRCDIR=str(directory), PGTZ="PST8PDT", PGDATESTYLE="Postgres, MDY")
    command = ["psql", "-X", "-a", "-q", "-v", "HIDE_TABLEAM=on", "-v", "HIDE_TOAST_COMPRESSION=on", "-f", str(script)]
    try:
        done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=LONGEST, check=False)
        return done.stdout.decode(errors="replace").splitlines()
    except subprocess.TimeoutExpired as late:
        return (late.stdout or b"").decode(errors="replace").splitlines()


def answered(script: pathlib.Path, lines: list[str]) -> dict[int, list[str]]:
    """Answers by the number of the script's line that they follow; psql leaves out empty lines."""
    wanted = [(number, line) for number, line in enumerate(script.read_text(errors="replace").splitlines(), 1) if line.strip()]
    answers, at, number = collections.defaultdict(list), 0, 0
    for line in lines:
        line = PLACE.sub("", line)
        if at < len(wanted) and line.rstrip() == wanted[at][1].rstrip():
            number, at = wanted[at][0], at + 1
        elif line.strip() and not BESIDE.match(line):
            answers[number].append(re.sub(r"\s+", " ", re.sub(r"-+", "-", line)).strip())
    return answers


def difference(ours: list[str], theirs: list[str]) -> str:
    refused, expected = (any(line.startswith("ERROR") for line in answer) for answer in (ours, theirs))
    if refused and expected:
        return "both refuse"
    if refused or expected:
        return "refused" if refused else "accepted"
    if ours == theirs:
        return "same"
    return "order" if sorted(ours) == sorted(theirs) else "wrong"
