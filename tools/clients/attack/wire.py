"""PostgreSQL's protocol, as much of it as an attacker needs: messages of any size, sent whole or not."""

import re
import socket
import struct


class Lost(Exception):
    """The server has closed the connection, or is gone."""


class Wire:
    """One connection of a trusted user."""

    def __init__(self, port: int, patience: float):
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=patience)
        self.received = bytearray()
        start = struct.pack("!i", 196608) + b"user\0attacker\0database\0postgres\0\0"
        self.socket.sendall(struct.pack("!i", len(start) + 4) + start)
        self.answer()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()

    def send(self, kind: bytes, body: bytes) -> None:
        try:
            self.socket.sendall(kind + struct.pack("!i", len(body) + 4))
            self.socket.sendall(body)
        except (ConnectionError, TimeoutError) as error:
            # A server that refuses says why before it closes.
            if not self._has_said_why():
                raise Lost(str(error)) from error

    def query(self, sql: str) -> str:
        """What came of a text of statements: the SQLSTATE of an error, or `rows`."""
        self.send(b"Q", sql.encode() + b"\0")
        return self.answer()

    def execute(self, sql: str, values: list[bytes], name: str = "") -> str:
        """The same of one statement with values of parameters."""
        self.prepare(sql, name)
        self.bind("", name, values)
        self.send(b"E", b"\0" + struct.pack("!i", 0))
        self.send(b"S", b"")
        return self.answer()

    def bind(self, portal: str, name: str, values: list[bytes]) -> None:
        bound = b"".join(struct.pack("!i", len(value)) + value for value in values)
        head = portal.encode() + b"\0" + name.encode() + b"\0" + struct.pack("!hh", 0, len(values))
        self.send(b"B", head + bound + struct.pack("!h", 0))

    def prepare(self, sql: str, name: str) -> None:
        self.send(b"P", name.encode() + b"\0" + sql.encode() + b"\0" + struct.pack("!h", 0))

    def answer(self) -> str:
        """Reads until the server is ready again, or waits for a COPY."""
        outcome = "rows"
        while True:
            kind, body = self._message()
            if kind == b"E":
                outcome = re.search(rb"C(\w{5})\0", body)[1].decode()
            elif kind in b"ZGH":
                return outcome

    def _message(self) -> tuple[bytes, bytes]:
        head = self._take(5)
        return head[:1], self._take(struct.unpack("!i", head[1:])[0] - 4)

    def _take(self, count: int) -> bytes:
        while len(self.received) < count:
            try:
                more = self.socket.recv(1 << 20)
            except TimeoutError as error:
                raise Lost("no answer in time") from error
            except ConnectionError as error:
                raise Lost(str(error)) from error
            if not more:
                raise Lost("closed")
            self.received += more
        taken = bytes(self.received[:count])
        del self.received[:count]
        return taken

    def _has_said_why(self) -> bool:
        try:
            self.received += self.socket.recv(1 << 16)
        except OSError:
            return False
        return bool(self.received)
