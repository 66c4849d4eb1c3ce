"""What the operating system remembers of files, and making it forget."""

import os
import pathlib


def forget(path: pathlib.Path) -> str:
    """Makes the system forget the pages of a file, or of all files below a directory; says how."""
    os.sync()
    try:
        pathlib.Path("/proc/sys/vm/drop_caches").write_text("1\n")
        return "the system's page cache dropped"
    except OSError:
        files = [path] if path.is_file() else [found for found in path.rglob("*") if found.is_file()]
        for file in files:
            with file.open("rb") as opened:
                os.posix_fadvise(opened.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        return "the files' pages given up by posix_fadvise (dropping all of the cache is not permitted)"
