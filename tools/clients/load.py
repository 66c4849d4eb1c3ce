"""The program pgbench against a server: filling its tables, running its scripts, and whether the balances agree."""

import dataclasses
import pathlib
import random
import re
import shutil
import subprocess
import tempfile

from server import Failed, Server

SCRIPTS = ("tpcb-like", "select-only")
MODES = ("simple", "extended", "prepared")
# A transaction that another one got in the way of is tried again so often.
TRIES = 1000
BALANCES = """
SELECT (SELECT sum(abalance) FROM pgbench_accounts), (SELECT sum(tbalance) FROM pgbench_tellers),
       (SELECT sum(bbalance) FROM pgbench_branches), (SELECT coalesce(sum(delta), 0) FROM pgbench_history),
       (SELECT count(*) FROM pgbench_history)
"""


@dataclasses.dataclass
class Load:
    """Which script how."""

    script: str = "tpcb-like"
    mode: str = "prepared"
    clients: int = 8
    threads: int = 2
    seconds: int = 10


def initialise(server: Server, scale: int) -> None:
    words = ["pgbench", "--initialize", "--quiet", "--scale", str(scale)]
    done = subprocess.run(words, env=server.environment(), capture_output=True, text=True)
    if done.returncode != 0:
        raise Failed(f"{' '.join(words)} on {server.name}: {done.stderr.strip()}")


def start(server: Server, load: Load, *options: str) -> subprocess.Popen:
    words = ["pgbench", "--no-vacuum", "--builtin", load.script, "--protocol", load.mode, "--max-tries", str(TRIES),
             "--client", str(load.clients), "--jobs", str(load.threads), "--time", str(load.seconds), *options]
    return subprocess.Popen(words, env=server.environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def start_checkpoints(server: Server) -> subprocess.Popen:
    """Checkpoints one after the other, until the server ends."""
    psql = subprocess.Popen(["psql", "--no-psqlrc"], env=server.environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, text=True)
    psql.stdin.write("CHECKPOINT \\watch 0.02\n")
    psql.stdin.close()
    psql.stdin = None
    return psql


# Each leaves the tables as pgbench knows them; the first statements take back what a server that was killed has left.
ALTERATIONS = [[statement + ";" for statement in statements.strip().splitlines()] for statements in ("""
ALTER TABLE pgbench_accounts DROP COLUMN IF EXISTS extra
ALTER TABLE pgbench_accounts ADD COLUMN extra int DEFAULT 7
ALTER TABLE pgbench_accounts DROP COLUMN extra
""", """
DROP INDEX IF EXISTS by_balance
CREATE INDEX by_balance ON pgbench_accounts (abalance)
DROP INDEX by_balance
""", """
DROP INDEX IF EXISTS by_branch
CREATE INDEX CONCURRENTLY by_branch ON pgbench_history (bid, tid)
DROP INDEX by_branch
""", """
DROP TABLE IF EXISTS copies
CREATE TABLE copies AS SELECT * FROM pgbench_history
TRUNCATE copies
INSERT INTO copies SELECT * FROM pgbench_history LIMIT 1000
DROP TABLE copies
""", """
ALTER TABLE pgbench_branches DROP CONSTRAINT IF EXISTS plausible
ALTER TABLE pgbench_branches ADD CONSTRAINT plausible CHECK (bbalance IS NOT NULL)
ALTER TABLE pgbench_branches DROP CONSTRAINT plausible
""", """
BEGIN
ALTER TABLE pgbench_tellers RENAME COLUMN filler TO filling
CREATE TABLE undone AS SELECT * FROM pgbench_branches
UPDATE pgbench_tellers SET filling = 'x' WHERE tid = 1
ROLLBACK
""", """
BEGIN
CREATE TABLE done AS SELECT * FROM pgbench_branches
ALTER TABLE done ADD COLUMN more text
DROP TABLE done
COMMIT
""")]
# What one psql does: more than there is time for.
ALTERATIONS_COUNT = 2_000


def start_alterations(server: Server, seed: int, pause: float) -> subprocess.Popen:
    """Changes of pgbench's tables, in an order of the seed's and so many seconds apart, until the server ends."""
    choices = random.Random(seed)
    script = tempfile.TemporaryFile("w+")
    breath = [f"SELECT pg_sleep({pause});"] if pause else []
    for _ in range(ALTERATIONS_COUNT):
        # So short that the pipe is never full of it.
        script.write("\n".join([*choices.choice(ALTERATIONS), "\\echo done", *breath]) + "\n")
    script.seek(0)
    return subprocess.Popen(["psql", "--no-psqlrc", "--quiet"], env=server.environment(), stdin=script, stdout=subprocess.PIPE,
                            stderr=subprocess.DEVNULL, text=True)


def measure(server: Server, load: Load) -> dict:
    """Throughput, latencies (from the log of every transaction), and what the server spent on it."""
    logs = pathlib.Path(tempfile.mkdtemp(prefix="pgbench-"))
    try:
        before = server.cpu_seconds()
        child = start(server, load, "--log", f"--log-prefix={logs}/log")
        said, complaints = child.communicate()
        spent = server.cpu_seconds() - before
        if child.returncode != 0:
            raise Failed(f"pgbench {load} on {server.name} ended with status {child.returncode}: {complaints.strip()[-1000:]}")
        latencies = sorted(int(line.split(" ")[2]) for path in logs.iterdir() for line in path.open())
    finally:
        shutil.rmtree(logs)
    transactions = processed(said)
    if transactions == 0:
        raise Failed(f"pgbench {load} on {server.name} finished no transaction: {complaints.strip()[-1000:]}")
    return {
        "server": server.name, **dataclasses.asdict(load), "transactions": transactions,
        "tps": float(found(r"tps = ([\d.]+)", said)),
        "failures": int(found(r"number of failed transactions: (\d+)", said)),
        "retries": int(found(r"total number of retries: (\d+)", said, "0")),
        "latency_ms": {"mean": sum(latencies) / len(latencies) / 1e3} | {
            name: latencies[min(int(len(latencies) * share), len(latencies) - 1)] / 1e3
            for name, share in (("p50", 0.5), ("p95", 0.95), ("p99", 0.99))},
        "server_cpu_us_per_transaction": spent / transactions * 1e6,
    }


def processed(said: str) -> int:
    """Transactions that were acknowledged, by pgbench's report."""
    return int(found(r"number of transactions actually processed: (\d+)", said))


def found(pattern: str, said: str, otherwise: str | None = None) -> str:
    match = re.search(pattern, said)
    if match is None and otherwise is None:
        raise Failed(f"pgbench did not say {pattern}: {said[-1000:]}")
    return match[1] if match else otherwise


@dataclasses.dataclass
class Balances:
    """What every tpcb-like transaction changes by the same amount, and how many there were."""

    accounts: int
    tellers: int
    branches: int
    history: int
    transactions: int

    def check(self, server: Server) -> None:
        if len({self.accounts, self.tellers, self.branches, self.history}) != 1:
            raise Failed(f"the balances on {server.name} do not agree: {self}")


def balances(server: Server) -> Balances:
    words = ["psql", "--no-psqlrc", "--quiet", "--tuples-only", "--no-align", "--set=ON_ERROR_STOP=1", "--command", BALANCES]
    done = subprocess.run(words, env=server.environment(), capture_output=True, text=True)
    if done.returncode != 0:
        raise Failed(f"the balances on {server.name}: {done.stderr.strip()}")
    return Balances(*map(int, done.stdout.strip().split("|")))
