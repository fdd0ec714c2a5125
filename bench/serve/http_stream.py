"""HTTP/1.1 over asyncio, as much as a load generator needs: keep-alive, chunked bodies, server-sent events with the time at
which they arrived."""

import asyncio
import json
import ssl
from urllib.parse import urlsplit

READ_SIZE = 1 << 16
LONGEST_HEADER = 1 << 16


class HttpError(Exception):
    """The connection was lost, or what came is not HTTP."""


class Connection:
    def __init__(self, reader, writer):
        self.reader = reader
        self.writer = writer
        self.reusable = False
        self.used = False  # for a request before

    def close(self):
        self.reusable = False
        self.writer.close()


class Server:
    """A server's address, and the idle connections to it."""

    def __init__(self, url, key=None):
        parts = urlsplit(url if "://" in url else f"http://{url}")
        self.host = parts.hostname
        self.port = parts.port or (443 if parts.scheme == "https" else 80)
        self.tls = ssl.create_default_context() if parts.scheme == "https" else None
        self.path = parts.path.rstrip("/").removesuffix("/v1")
        self.key = key
        self.idle = []

    async def connection(self):
        while self.idle:
            connection = self.idle.pop()
            if not connection.reader.at_eof():
                connection.used = True
                return connection
            connection.close()
        reader, writer = await asyncio.open_connection(self.host, self.port, ssl=self.tls, limit=LONGEST_HEADER)
        return Connection(reader, writer)

    def put_back(self, connection):
        if connection.reusable:
            self.idle.append(connection)
        else:
            connection.close()

    def close(self):
        for connection in self.idle:
            connection.close()
        self.idle.clear()

    def head(self, method, path, body, headers):
        host = f"[{self.host}]" if ":" in self.host else self.host
        lines = [f"{method} {self.path}{path} HTTP/1.1", f"Host: {host}:{self.port}", "Accept: */*"]
        if self.key:
            lines.append(f"Authorization: Bearer {self.key}")
        if body:
            lines += ["Content-Type: application/json", f"Content-Length: {len(body)}"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        return "\r\n".join(lines + ["", ""]).encode()


async def read_head(reader):
    """(status, headers with lower-case names)"""
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except (asyncio.IncompleteReadError, asyncio.LimitOverrunError) as error:
        raise HttpError("the connection ended before the header") from error
    first, *lines = head.decode("latin-1").split("\r\n")
    parts = first.split(" ", 2)
    if len(parts) < 2 or not parts[0].startswith("HTTP/1.") or not parts[1].isdigit():
        raise HttpError(f"expected an HTTP status line, found {first[:80]!r}")
    fields = (line.partition(":") for line in lines if line)
    return int(parts[1]), {name.strip().lower(): value.strip() for name, _, value in fields}


async def pieces(connection, headers):
    """The body as it arrives."""
    reader = connection.reader
    if "chunked" in headers.get("transfer-encoding", "").lower():
        async for piece in chunked_pieces(reader):
            yield piece
    elif "content-length" in headers:
        left = int(headers["content-length"])
        while left > 0:
            piece = await reader.read(min(left, READ_SIZE))
            if not piece:
                raise HttpError("the connection ended within the body")
            left -= len(piece)
            yield piece
    else:
        while piece := await reader.read(READ_SIZE):
            yield piece
        return
    connection.reusable = headers.get("connection", "").lower() != "close"


async def chunked_pieces(reader):
    try:
        while size := int((await reader.readline()).split(b";")[0] or b"x", 16):
            yield await reader.readexactly(size)
            await reader.readexactly(2)
        while (await reader.readline()).strip():
            pass  # trailers
    except (ValueError, asyncio.IncompleteReadError) as error:
        raise HttpError("the connection ended within the body") from error


async def events(body):
    """The data of server-sent events. Comments are skipped."""
    rest = b""
    data = []
    async for piece in body:
        *lines, rest = (rest + piece).split(b"\n")
        for line in lines:
            line = line.removesuffix(b"\r")
            if line.startswith(b"data:"):
                data.append(line[5:].removeprefix(b" "))
            elif not line and data:
                yield b"\n".join(data)
                data = []


async def request_json(server, method, path, body=None):
    """(status, parsed body or None)"""
    connection = await server.connection()
    try:
        content = json.dumps(body).encode() if body is not None else b""
        connection.writer.write(server.head(method, path, content, {}) + content)
        await connection.writer.drain()
        status, headers = await read_head(connection.reader)
        text = b"".join([piece async for piece in pieces(connection, headers)])
    except BaseException:
        connection.close()
        raise
    server.put_back(connection)
    try:
        return status, json.loads(text)
    except ValueError:
        return status, None
