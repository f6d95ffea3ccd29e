"""The address that a server listens on, and how clients write it."""

from __future__ import annotations

import socket

from tools.search.settings import ServerError


def http_url(host: str, port: int) -> str:
    """Address for clients; IPv6 in brackets."""
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def bind(host: str, port: int) -> socket.socket:
    """A socket bound to the address; port 0 takes a free one. Raises ServerError."""
    listener = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
    except OSError as error:
        listener.close()
        raise ServerError(
            f"cannot listen on {http_url(host, port)}: {error.strerror or error}; choose another --host or --port"
        ) from error
    return listener
