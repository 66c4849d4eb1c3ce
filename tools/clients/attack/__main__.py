#!/usr/bin/env python3
"""Attacks a server of little memory: statements and messages that are made to end it.

Each attack has to be answered, with rows or with an error that it is known for, in bounded time and memory. A second
session asks for rows all the while, and is answered. The process is the same from beginning to end.

    tools/clients/attack/__main__.py --only 'chain|CTE'
"""

import argparse
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

import server
from attacks import SETUP, all_attacks
from server import Failed
from wire import Lost, Wire

# What statements may take, and beyond it what the process may: threads, the cache, the planner's code.
POOL_MB, BESIDE_MB = 512, 700
# Seconds: of a statement, by its own timeout; until it has to be answered; and between questions of the witness.
TIMEOUT, PATIENCE, PAUSE = 20, 120, 0.1
# The allocator gives back what was freed so many seconds ago, when somebody asks it for memory; how often that is done,
# and from how much memory on it is worth it.
PURGE, SETTLING, SETTLED_MB = 1.1, 4, 512


class Victim(server.Sakigake):
    """A server that trusts whoever comes from this machine."""

    def __init__(self, directory: pathlib.Path, program: pathlib.Path):
        server.Server.__init__(self, directory)
        self.program = program.resolve()
        self.database = self.directory / "victim.saki"
        server.call([self.program, "create", self.database])

    def _launch(self, log) -> subprocess.Popen:
        command = [self.program, "serve", "--db", self.database, "--listen", f"127.0.0.1:{self.port}",
                   "--memory", f"{POOL_MB}MB", "--statement-timeout", f"{TIMEOUT}s", "--max-message", "1GB"]
        return subprocess.Popen(list(map(str, command)), stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def peak_mb(self) -> int:
        """Memory at most since the last question."""
        peak = self._status_mb("VmHWM")
        pathlib.Path(f"/proc/{self.process.pid}/clear_refs").write_text("5")
        return peak

    def settle(self) -> None:
        """Lets the allocator give back what the last attack has freed, so that it does not count for the next."""
        before = self._status_mb("VmRSS")
        if before <= SETTLED_MB:
            return
        for _ in range(SETTLING):
            time.sleep(PURGE)
            with Wire(self.port, PATIENCE) as wire:
                wire.query("SELECT count(*), max(t) FROM numbers GROUP BY v")
            now = self._status_mb("VmRSS")
            if now >= before:
                return
            before = now

    def _status_mb(self, name: str) -> int:
        status = pathlib.Path(f"/proc/{self.process.pid}/status").read_text()
        return int(re.search(rf"{name}:\s+(\d+)", status)[1]) >> 10


class Witness(threading.Thread):
    """Somebody else's session: it is answered, or says why not."""

    def __init__(self, port: int):
        super().__init__(daemon=True)
        self.port, self.over, self.complaint, self.longest = port, threading.Event(), None, 0.0

    def run(self) -> None:
        try:
            with Wire(self.port, PATIENCE) as wire:
                while not self.over.wait(PAUSE):
                    began = time.monotonic()
                    if (answer := wire.query("SELECT v FROM numbers WHERE id = 17")) != "rows":
                        raise Lost(answer)
                    self.longest = max(self.longest, time.monotonic() - began)
        except (Lost, OSError) as error:
            self.complaint = str(error)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="attacks whose names match this")
    parser.add_argument("--keep-going", action="store_true", help="start the server again after its death")
    server.add_arguments(parser)
    arguments = parser.parse_args()
    directory = arguments.data / "attack"
    shutil.rmtree(directory, ignore_errors=True)
    try:
        return run(Victim(directory, arguments.saki), arguments)
    except Failed as failure:
        print(f"attack: {failure}", file=sys.stderr)
        return 1


def run(victim: Victim, arguments) -> int:
    victim.start()
    for sql in SETUP:
        with Wire(victim.port, PATIENCE) as wire:
            if (outcome := wire.query(sql)) != "rows":
                raise Failed(f"{sql}: {outcome}")
    failures = 0
    for attack in all_attacks():
        if not re.search(arguments.only, attack.name):
            continue
        complaints, words = strike(victim, attack)
        failures += bool(complaints)
        print(f"{'FAILED' if complaints else 'ok':6} {attack.name}: {words}" + "".join(f"\n         {each}" for each in complaints), flush=True)
        if victim.process.poll() is not None:
            if not arguments.keep_going:
                raise Failed(f"the server is dead\n{victim.last_words()}")
            victim.start()
    victim.stop(signal.SIGTERM)
    server.call([victim.program, "check", victim.database])
    return int(failures > 0)


def strike(victim: Victim, attack) -> tuple[list[str], str]:
    """What is wrong about the answer to an attack, and what it was."""
    try:
        victim.settle()
    except (Lost, OSError) as error:
        return [f"no answer between attacks: {error}"], "lost"
    witness = Witness(victim.port)
    witness.start()
    victim.peak_mb()
    began = time.monotonic()
    try:
        with Wire(victim.port, PATIENCE) as wire:
            for sql in attack.first:
                wire.query(sql)
            outcome = wire.query(attack.does) if isinstance(attack.does, str) else attack.does(wire)
            for sql in attack.last:
                wire.query(sql)
    except (Lost, OSError) as error:
        outcome = "lost"
        print(f"       ({attack.name}: {error})", file=sys.stderr)
    seconds = time.monotonic() - began
    witness.over.set()
    witness.join(PATIENCE)
    complaints = []
    if victim.process.poll() is not None:
        return [f"the server died with status {victim.process.returncode}"], outcome
    peak = victim.peak_mb()
    if outcome not in attack.answers:
        complaints.append(f"answered {outcome}, not one of {', '.join(sorted(attack.answers))}")
    if witness.complaint:
        complaints.append(f"another session meanwhile: {witness.complaint}")
    if peak > POOL_MB + BESIDE_MB:
        complaints.append(f"the process took {peak} MB")
    return complaints, f"{outcome} in {seconds:.1f} s, {peak} MB, others {witness.longest * 1000:.0f} ms"


if __name__ == "__main__":
    sys.exit(main())
