"""A worked example's page on this machine alone, where its numbers can be changed."""

from __future__ import annotations

import json
from collections.abc import Mapping
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tilewright.byhand.page import answer, html_page
from tilewright.byhand.values import Walkthrough
from tilewright.errors import TilewrightError

MOST_BYTES = 1 << 20
"""A request's body is no longer than this."""


def make_server(walkthrough: Walkthrough, given: Mapping[str, Any], port: int = 0) -> ThreadingHTTPServer:
    """Return a server of one page on 127.0.0.1, not yet running; port 0 takes a free one. Raise OSError."""

    class Handler(_Handler):
        pass

    Handler.walkthrough, Handler.given = walkthrough, given
    server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
    server.daemon_threads = True
    Handler.hosts = tuple(f"{name}:{server.server_port}" for name in ("127.0.0.1", "localhost"))
    return server


class _Handler(BaseHTTPRequestHandler):
    walkthrough: Walkthrough
    given: Mapping[str, Any]
    hosts: tuple[str, ...]

    def do_GET(self) -> None:
        """Answer with the page."""
        if not self._is_ours():
            return
        if self.path != "/":
            self._send(HTTPStatus.NOT_FOUND, {"error": "there is one page: /"})
            return
        self._send(HTTPStatus.OK, html_page(self.walkthrough, self.given, served=True))

    def do_POST(self) -> None:
        """Work the example through with the numbers of the request."""
        if not self._is_ours():
            return
        # A page of another site cannot send this type without asking first, and is never told yes.
        if self.path != "/run" or self.headers.get_content_type() != "application/json":
            self._send(HTTPStatus.NOT_FOUND, {"error": "numbers go to /run, as application/json"})
            return
        length = self.headers.get("Content-Length", "")
        if not length.isdigit() or int(length) > MOST_BYTES:
            # What is on its way is taken in, so that the answer is read and not a broken connection.
            self.rfile.read(min(int(length), 8 * MOST_BYTES) if length.isdigit() else 0)
            said = f"expected at most {MOST_BYTES:,} bytes of numbers"
            self._send(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, {"error": said})
            return
        try:
            values = json.loads(self.rfile.read(int(length)))
            if not isinstance(values, dict):
                raise TilewrightError("expected names and values")
            self._send(HTTPStatus.OK, answer(self.walkthrough, values))
        except TilewrightError as e:
            self._send(HTTPStatus.BAD_REQUEST, {"error": str(e)})
        except (ValueError, RecursionError):
            self._send(HTTPStatus.BAD_REQUEST, {"error": "the request is not JSON"})

    def _is_ours(self) -> bool:
        """Refuse requests that came by another name: a site whose name was made to point here."""
        if self.headers.get("Host", "") in self.hosts:
            return True
        self._send(HTTPStatus.FORBIDDEN, {"error": "ask for 127.0.0.1"})
        return False

    def _send(self, status: HTTPStatus, content: str | dict[str, Any]) -> None:
        kind = "text/html" if isinstance(content, str) else "application/json"
        body = (content if isinstance(content, str) else json.dumps(content)).encode()
        self.send_response(status)
        self.send_header("Content-Type", f"{kind}; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Cache-Control", "no-store")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing of each request."""
