"""What each client program needs, made below target/ from lock files, and kept as long as those stay the same."""

import hashlib
import os
import pathlib
import shutil
import subprocess
import sys
import urllib.request

from server import ROOT, Failed

HERE = pathlib.Path(__file__).resolve().parent
TARGET = ROOT / "target/clients"
# The PostgreSQL driver for Java, as Maven Central has it.
JDBC = "org/postgresql/postgresql/42.7.14/postgresql-42.7.14.jar"
# Prisma and TypeORM need a newer Node than Debian 12 and Ubuntu 24.04 have.
NODE_OF_PRISMA = 20
MAVEN = os.environ.get("MAVEN_REPOSITORY", "https://repo1.maven.org/maven2")


def python() -> pathlib.Path:
    """An interpreter with asyncpg, psycopg and SQLAlchemy, Alembic and Django."""
    return with_packages("python", HERE / "python/requirements.txt")


def dbt() -> pathlib.Path:
    """An interpreter with dbt, whose packages need other versions."""
    return with_packages("dbt", HERE / "python/projects/dbt/requirements.txt")


def with_packages(name: str, packages: pathlib.Path) -> pathlib.Path:
    environment = TARGET / name

    def make():
        command([sys.executable, "-m", "venv", environment])
        command([environment / "bin/pip", "install", "--quiet", "--requirement", packages])

    once(environment, [packages], make)
    return environment / "bin/python"


def java() -> str:
    """A class path with the driver and the compiled program."""
    environment = TARGET / "java"
    sources = sorted((HERE / "java").glob("*.java"))
    driver = TARGET / pathlib.Path(JDBC).name
    checksum = HERE / "java" / f"{driver.name}.sha256"
    once(driver, [checksum], lambda: download(f"{MAVEN}/{JDBC}", driver, checksum.read_text().split()[0]))

    def make():
        command(["javac", "-Xlint:all", "-Werror", "-cp", driver, "-d", environment, *sources])

    once(environment, [checksum, *sources], make)
    return f"{driver}:{environment}"


def node() -> pathlib.Path:
    """A directory with the programs and their packages."""
    environment = TARGET / "node"
    sources = sorted(path for path in (HERE / "node").iterdir() if path.is_file())

    def make():
        environment.mkdir()
        for source in sources:
            shutil.copy(source, environment)
        command(["npm", "ci", "--silent", "--ignore-scripts"], cwd=environment)
        if node_major() < NODE_OF_PRISMA:
            return
        # Prisma's client is generated. The engine that migrates is a download of its own, and is not asked for here.
        without = {"PRISMA_SCHEMA_ENGINE_BINARY": "/bin/true", "CHECKPOINT_DISABLE": "1"}
        command(["npx", "--no", "prisma", "generate"], cwd=environment, env=dict(os.environ) | without)

    once(environment, sources, make)
    return environment


def node_major() -> int:
    """The first number of Node's version."""
    try:
        told = subprocess.run(["node", "--version"], capture_output=True, text=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError) as error:
        raise Failed(f"node: {error}; tools/setup installs what the clients need") from error
    return int(told.lstrip("v").split(".")[0])


def ruby() -> pathlib.Path:
    """The directory of the programs, once Debian's ActiveRecord is there."""
    command(["ruby", "-e", "require 'active_record'; require 'pg'"])
    return HERE / "ruby"


def go() -> pathlib.Path:
    """The compiled program."""
    program = TARGET / "go/checks"
    sources = sorted(path for path in (HERE / "go").iterdir() if path.is_file())
    once(TARGET / "go", sources, lambda: command(["go", "build", "-o", program, "."], cwd=HERE / "go"))
    return program


def once(made: pathlib.Path, sources: list[pathlib.Path], make) -> None:
    """Makes a file or directory again if what it is made of has changed."""
    digest = hashlib.sha256(b"\0".join(path.name.encode() + b"\0" + path.read_bytes() for path in sources)).hexdigest()
    mark = made.with_name(f"{made.name}.made-of")
    if made.exists() and mark.exists() and mark.read_text() == digest:
        return
    TARGET.mkdir(parents=True, exist_ok=True)
    mark.unlink(missing_ok=True)
    if made.is_dir():
        shutil.rmtree(made)
    make()
    mark.write_text(digest)


def download(url: str, path: pathlib.Path, sha256: str) -> None:
    with urllib.request.urlopen(url, timeout=60) as answer:
        content = answer.read()
    found = hashlib.sha256(content).hexdigest()
    if found != sha256:
        raise Failed(f"{url} has the checksum {found}, not {sha256}")
    path.write_bytes(content)


def command(words: list, **how) -> None:
    if shutil.which(str(words[0])) is None:
        raise Failed(f"{words[0]} is not installed; tools/setup installs what the clients need")
    done = subprocess.run(list(map(str, words)), capture_output=True, text=True, **how)
    if done.returncode != 0:
        raise Failed(f"{' '.join(map(str, words))}\n  exit status {done.returncode}: {done.stderr or done.stdout}")
