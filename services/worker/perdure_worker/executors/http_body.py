"""Reads the body of an answer, never more than a limit of it, packed or unpacked."""

from __future__ import annotations

import zlib
from collections.abc import AsyncIterator

import httpx

ACCEPTED_ENCODING = "gzip"
_GZIP = frozenset({"gzip", "x-gzip"})
_GZIP_WINDOW = zlib.MAX_WBITS | 16


class BodyTooLarge(Exception):
    """The body is over the limit."""


class BodyUnreadable(Exception):
    """The body is not packed as it says, or in a way that was not asked for."""


async def read_body(response: httpx.Response, limit: int) -> bytes:
    """Return the whole body. Raises BodyTooLarge, BodyUnreadable, and what the connection raises.

    A small packed body may stand for gigabytes, so it is unpacked no further than to the limit.
    """
    if _length(response) > limit:
        raise BodyTooLarge
    body = bytearray()
    async for chunk in _unpacked(response, limit):
        body += chunk
        if len(body) > limit:
            raise BodyTooLarge
    return bytes(body)


async def read_beginning(response: httpx.Response, limit: int) -> bytes:
    """Return what could be read of a body, at most `limit` bytes of it, whatever stopped it."""
    body = bytearray()
    try:
        async for chunk in _unpacked(response, limit):
            body += chunk
            if len(body) >= limit:
                break
    except (BodyTooLarge, BodyUnreadable):
        pass
    return bytes(body[:limit])


def _length(response: httpx.Response) -> int:
    text = response.headers.get("content-length", "")
    return int(text[:20]) if text.isascii() and text.isdigit() else 0


async def _unpacked(response: httpx.Response, limit: int) -> AsyncIterator[bytes]:
    encoding = response.headers.get("content-encoding", "").strip().lower()
    if encoding in ("", "identity"):
        async for chunk in response.aiter_raw():
            yield chunk
    elif encoding in _GZIP:
        unpacking = _Gunzip(limit)
        async for chunk in response.aiter_raw():
            yield unpacking.feed(chunk)
        unpacking.end()
    else:
        raise BodyUnreadable(f"the body is packed as {encoding[:40]!r}, which was not asked for")


class _Gunzip:
    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._stream = zlib.decompressobj(_GZIP_WINDOW)
        self._is_begun = False

    def feed(self, packed: bytes) -> bytes:
        """Return what more of the body is there, at most a byte over the limit."""
        out = bytearray()
        while packed:
            if self._stream.eof:
                self._stream = zlib.decompressobj(_GZIP_WINDOW)  # one packet may follow another
            self._is_begun = True
            out += self._inflate(packed, self._limit + 1 - len(out))
            if len(out) > self._limit:
                break
            packed = self._stream.unused_data or self._stream.unconsumed_tail
        return bytes(out)

    def end(self) -> None:
        """Raises BodyUnreadable if the packed body was cut."""
        if self._is_begun and not self._stream.eof:
            raise BodyUnreadable("the packed body ends too early")

    def _inflate(self, packed: bytes, most: int) -> bytes:
        try:
            return self._stream.decompress(packed, most)
        except zlib.error as error:
            raise BodyUnreadable(f"the body cannot be unpacked: {error}") from error
