"""A local web server that answers as a test says."""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest


class FakeServer:
    """A real HTTP server on a loopback port. `requests` holds (path, headers, body) of each request it got."""

    def __init__(self, answer):
        self.requests = []
        self.released = threading.Event()  # ends hanging answers when the test is over
        lock, fake = threading.Lock(), self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self):
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                with lock:
                    fake.requests.append((self.path, dict(self.headers.items()), body))
                    number = len(fake.requests)
                said = answer(number, self.path)
                status, headers, content = said if isinstance(said, tuple) else (200, {}, said)
                if not isinstance(content, bytes):
                    content = json.dumps(content).encode()
                self.send_response(status)
                for name, value in {"Content-Length": str(len(content)), **headers}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(content)

            do_POST = do_GET

            def log_message(self, *_):
                pass

        class Server(ThreadingHTTPServer):
            daemon_threads = True
            block_on_close = False  # a client that went away must not hold up the test

            def handle_error(self, *_):
                pass

        self._server = Server(("127.0.0.1", 0), Handler)
        self.port = self._server.server_port
        self.url = f"http://127.0.0.1:{self.port}"
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()

    def hang(self):
        self.released.wait(30)
        return {}

    def close(self):
        self.released.set()
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def serve(monkeypatch):
    """Starts fake servers. `answer(number, path)` says what the request of that number gets: (status, headers, body),
    or a body alone; what is not bytes is sent as JSON.
    """
    monkeypatch.setenv(
        "NO_PROXY", "127.0.0.1"
    )  # the API is asked through the user's proxy, the fake one must not be
    servers = []

    def start(answer):
        servers.append(FakeServer(answer))
        return servers[-1]

    yield start
    for server in servers:
        server.close()


@pytest.fixture
def key(monkeypatch):
    """A key in the environment."""
    monkeypatch.setenv("SERPER_API_KEY", "s3cret-key")
    return "s3cret-key"
