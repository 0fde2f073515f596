"""The page of a running epicenter: its note in the data folder, and requests to it once it has proved that it wrote it.

The note of a killed process stays, and any program may listen at that address next. So the page first answers a
question that takes the key of its note, and gets the token over the same connection.
"""

from __future__ import annotations

from contextlib import closing
from email.message import Message
from hmac import compare_digest
from http import HTTPStatus
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from secrets import token_hex
from typing import Final, NamedTuple
from urllib.parse import urlsplit

from epicenter.sinks.net.proof import PROOF_PATH, proof
from epicenter.sinks.private_files import private_folder, write_private
from epicenter.stream.settings import Settings

NOTE: Final = "page.url"
PAGE_TIMEOUT_S: Final = 5.0
MAX_PROOF_BYTES: Final = 128


class PageNote(NamedTuple):
    """The address of a process's page, and a key that only that process has."""

    url: str
    key: str

    @classmethod
    def read(cls, folder: Path) -> PageNote | None:
        """The note in the data folder; None if there is none."""
        try:
            url, key = (folder / NOTE).read_text().split()
        except (OSError, ValueError):
            return None
        return cls(url, key)

    def write(self, folder: Path) -> None:
        """Write it for this user alone."""
        private_folder(folder)
        write_private(folder / NOTE, f"{self.url}\n{self.key}\n")


def remove_note(folder: Path | None) -> None:
    """Remove the note, if there is one."""
    if folder:
        (folder / NOTE).unlink(missing_ok=True)


class PageAnswer(NamedTuple):
    """What the page answers."""

    status: int
    headers: Message
    body: bytes


def query_page(settings: Settings, path: str, form: bytes | None = None) -> PageAnswer | None:
    """The answer of a running epicenter with the same data folder; None if none is running."""
    note = None if settings.store else PageNote.read(settings.data_dir)
    if note is None:
        return None
    try:
        with closing(_connected(note)) as connection:
            return _answer(connection, settings, path, form) if _is_proven(connection, note) else None
    except (OSError, ValueError, HTTPException):
        return None


def _connected(note: PageNote) -> HTTPConnection:
    """A connection that stays the same: when it breaks, whoever listens there next gets nothing."""
    connection = HTTPConnection(urlsplit(note.url).netloc, timeout=PAGE_TIMEOUT_S)
    connection.connect()
    connection.auto_open = 0
    return connection


def _is_proven(connection: HTTPConnection, note: PageNote) -> bool:
    nonce = token_hex(16)
    connection.request("GET", f"{PROOF_PATH}?nonce={nonce}")
    answer = connection.getresponse()
    is_right = compare_digest(answer.read(MAX_PROOF_BYTES), proof(note.key, nonce).encode())
    return is_right and answer.status == HTTPStatus.OK


def _answer(connection: HTTPConnection, settings: Settings, path: str, form: bytes | None) -> PageAnswer:
    headers = {} if form is None else {"Content-Type": "application/json"}
    if token := settings.page_token.get_secret_value():
        headers["Authorization"] = f"Bearer {token}"
    connection.request("GET" if form is None else "POST", f"/{path}", form, headers)
    answer = connection.getresponse()
    return PageAnswer(answer.status, answer.headers, answer.read())
