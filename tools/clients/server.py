"""The servers that clients are tried on: Sakigake, and PostgreSQL in a cluster of its own.

Both listen on a free loopback port and on a socket in their directory, know one user with a password (SCRAM) and show a certificate made for the
occasion. PostgreSQL refuses to run as root: there it runs as the user `postgres`.
"""

import os
import pathlib
import shutil
import signal
import socket
import subprocess
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAMS = sorted(pathlib.Path("/usr/lib/postgresql").glob("*/bin"), key=lambda path: int(path.parent.name))
USER, PASSWORD, DATABASE = "clients", "sesame öffne dich", "clients"
# How long a server may take to start or stop, in seconds.
PATIENCE = 60.0
# Of a second: the unit of CPU times in /proc.
TICKS = os.sysconf("SC_CLK_TCK")


class Failed(Exception):
    """A server did not do what was asked; the message says what and where its log is."""


class Server:
    """One server process and the directory it keeps everything in, the socket for local clients included."""

    name: str
    # Whether clients come through that socket instead of TCP.
    is_local = False

    def __init__(self, directory: pathlib.Path):
        self.directory = directory.resolve()
        self.directory.mkdir(parents=True)
        self.log = self.directory / "server.log"
        self.port = free_port()
        self.process = None
        self.certificate, self.key = make_certificate(self.directory)

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self.stop()

    def start(self) -> float:
        """Seconds until the first statement is answered."""
        started = time.monotonic()
        with self.log.open("ab") as log:
            self.process = self._launch(log)
        while not self._answers():
            if self.process.poll() is not None:
                raise Failed(f"{self.name} ended with status {self.process.returncode}; its log: {self.log}\n{self.last_words()}")
            if time.monotonic() - started > PATIENCE:
                self.kill()
                raise Failed(f"{self.name} did not answer in {PATIENCE:.0f} s; its log: {self.log}\n{self.last_words()}")
            time.sleep(0.01)
        return time.monotonic() - started

    def stop(self, by: signal.Signals = signal.SIGINT) -> None:
        """Asks the server to end; kills it if it does not."""
        if self.process is None:
            return
        self.process.send_signal(by)
        try:
            status = self.process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self.kill()
            raise Failed(f"{self.name} did not stop in {PATIENCE:.0f} s; its log: {self.log}") from None
        self.process = None
        if status != 0:
            raise Failed(f"{self.name} ended with status {status}; its log: {self.log}\n{self.last_words()}")

    def kill(self) -> None:
        """Ends all of its processes at once, as a crash would."""
        family = descendants(self.process.pid)
        for pid in family:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        self.process.wait()
        self.process = None
        # Orphans are reaped by another parent.
        while any(pathlib.Path(f"/proc/{pid}").exists() for pid in family):
            time.sleep(0.001)

    def check(self) -> None:
        """What the server's own tool finds wrong with the database while nobody serves it."""

    def cpu_seconds(self) -> float:
        """User and system time of the server and all its children, those that have ended included."""
        return sum(sum(map(int, status(pid)[11:15])) for pid in descendants(self.process.pid)) / TICKS

    def environment(self, **more: str) -> dict[str, str]:
        """What tells every client where the server is, in libpq's words."""
        return dict(os.environ) | {
            "PATH": f"{programs()}:{os.environ['PATH']}",
            "PGHOST": str(self.directory) if self.is_local else "127.0.0.1",
            "PGPORT": str(self.port),
            "PGUSER": USER,
            "PGPASSWORD": PASSWORD,
            "PGDATABASE": DATABASE,
            "PGSSLMODE": "disable",
            "PGSSLROOTCERT": str(self.certificate),
            "PGCONNECT_TIMEOUT": "10",
        } | more

    def last_words(self) -> str:
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-10:])

    def _answers(self) -> bool:
        psql = ["psql", "--no-psqlrc", "--quiet", "--command", "SELECT 1"]
        return subprocess.run(psql, env=self.environment(), capture_output=True, timeout=PATIENCE).returncode == 0

    def _launch(self, log) -> subprocess.Popen:
        raise NotImplementedError


class Sakigake(Server):
    """`saki serve` over a database file."""

    name = "saki"
    # More of its command line.
    options: list = []

    def __init__(self, directory: pathlib.Path, program: pathlib.Path, _durable: bool = True):
        super().__init__(directory)
        self.program = program.resolve()
        self.database = self.directory / "clients.saki"
        password = self.directory / "password"
        password.write_text(PASSWORD)
        call([self.program, "create", self.database])
        call([self.program, "user", "add", "--db", self.database, "--password-file", password, USER])

    def check(self) -> None:
        call([self.program, "check", self.database])

    def _launch(self, log) -> subprocess.Popen:
        command = [self.program, "serve", "--db", self.database, "--listen", f"127.0.0.1:{self.port}",
                   "--socket-dir", self.directory, "--tls-cert", self.certificate, "--tls-key", self.key, *self.options]
        return subprocess.Popen(list(map(str, command)), stdin=subprocess.DEVNULL, stdout=log, stderr=log)


class PostgreSQL(Server):
    """A cluster with the defaults, and a buffer as large as saki's cache."""

    name = "postgres"

    def __init__(self, directory: pathlib.Path, _program=None, durable: bool = True):
        super().__init__(directory)
        self.cluster = self.directory / "cluster"
        password = self.directory / "password"
        password.write_text(PASSWORD)
        self.account = {}
        if os.geteuid() == 0:
            self.account = {"user": "postgres", "group": "postgres", "extra_groups": []}
            for path in (self.directory, self.certificate, self.key, password):
                shutil.chown(path, "postgres", "postgres")
        # Text is ordered by its bytes, and upper case goes by Unicode.
        call([programs() / "initdb", "--pgdata", self.cluster, "--username", USER, "--pwfile", password, "--encoding", "UTF8",
              "--locale", "C.UTF-8", "--lc-collate", "C", "--auth-host", "scram-sha-256"], **self.account)
        settings = {
            "port": self.port, "listen_addresses": "127.0.0.1", "unix_socket_directories": self.directory,
            "ssl": "on", "ssl_cert_file": self.certificate, "ssl_key_file": self.key,
            "shared_buffers": "256MB", "fsync": "on" if durable else "off", "timezone": "UTC",
        }
        with (self.cluster / "postgresql.conf").open("a") as configuration:
            configuration.writelines(f"{setting} = '{value}'\n" for setting, value in settings.items())
        self._create_database()

    def _create_database(self) -> None:
        single = [programs() / "postgres", "--single", "-D", self.cluster, "template1"]
        call(single, input=f"CREATE DATABASE {DATABASE}\n", **self.account)

    def _launch(self, log) -> subprocess.Popen:
        command = [str(programs() / "postgres"), "-D", str(self.cluster)]
        return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd="/", **self.account)


def absolute(path: str) -> pathlib.Path:
    return pathlib.Path(path).resolve()


SERVERS = {server.name: server for server in (Sakigake, PostgreSQL)}


def add_arguments(parser) -> None:
    """What names the servers and their place, for every tool here."""
    # Absolute: what is called below runs elsewhere.
    parser.add_argument("--saki", type=absolute, default=ROOT / "target/debug/saki", help="the program to test")
    parser.add_argument("--data", type=absolute, default=ROOT / "target/bench-data/clients",
                        help="where databases go; on the disk that is to be measured")


def new_server(name: str, arguments, durable: bool = True, label: str | None = None) -> Server:
    """A server with an empty database, instead of what an earlier one of that label (else name) has left."""
    directory = arguments.data / (label or name)
    shutil.rmtree(directory, ignore_errors=True)
    return SERVERS[name](directory, arguments.saki, durable)


def programs() -> pathlib.Path:
    """The directory of PostgreSQL's own programs."""
    if not PROGRAMS:
        raise Failed("PostgreSQL is not installed below /usr/lib/postgresql; the package `postgresql` has it")
    return PROGRAMS[-1]


def call(command: list, **how) -> str:
    words = list(map(str, command))
    if "input" not in how:
        how["stdin"] = subprocess.DEVNULL
    try:
        done = subprocess.run(words, text=True, cwd="/", capture_output=True, **how)
    except OSError as error:
        raise Failed(f"{words[0]}: {error.strerror}; build or install it") from error
    if done.returncode != 0:
        raise Failed(f"{' '.join(words)}\n  exit status {done.returncode}: {done.stderr.strip()}")
    return done.stdout


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def make_certificate(directory: pathlib.Path) -> tuple[pathlib.Path, pathlib.Path]:
    """A certificate for the loopback address that signs itself, and its key."""
    certificate, key = directory / "server.crt", directory / "server.key"
    call(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2",
          "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1",
          "-keyout", key, "-out", certificate])
    key.chmod(0o600)
    return certificate, key


def status(pid: int) -> list[str]:
    """The fields of /proc/PID/stat from the third on; without any if the process has ended."""
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    except (FileNotFoundError, ProcessLookupError):
        return ["Z", "0"] + ["0"] * 50


def descendants(pid: int) -> list[int]:
    """A process and all that come from it."""
    parents = {}
    for entry in pathlib.Path("/proc").iterdir():
        if entry.name.isdigit():
            parents.setdefault(int(status(int(entry.name))[1]), []).append(int(entry.name))
    found, new = [], [pid]
    while new:
        found += new
        new = [child for parent in new for child in parents.get(parent, [])]
    return found
