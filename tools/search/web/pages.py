"""Reads web pages: fetched within limits, from public addresses only, as title and text."""

from __future__ import annotations

import asyncio
import ipaddress
from dataclasses import dataclass, replace

import httpx

from mempo.prompts import CUT_MARK
from tools.search.client import SearchFailure
from tools.search.document import Document
from tools.search.settings import ServerError
from tools.search.web.addresses import is_allowed, resolve
from tools.search.web.document import web_document
from tools.search.web.readable import cut_text, read_html

READ_TYPES = ("text/html", "text/plain")
# No other coding, and no chain of them: a few bytes could unpack to gigabytes before the limit is seen.
READ_CODINGS = ("", "identity", "gzip", "deflate")
HEADERS = {
    "User-Agent": "Mozilla/5.0 (compatible; mempo-search)",
    "Accept": ", ".join(READ_TYPES),
    "Accept-Encoding": "gzip, deflate",
}


@dataclass(frozen=True)
class PageSettings:
    """What a page may cost and where it may stand.

    Attributes:
        deadline_s: seconds for one page, with redirects and the wait for a turn.
        max_bytes: a larger page, counted after unpacking, is refused.
        max_chars: a longer text is cut at a sentence border and marked.
        max_redirects: a page behind more of them is refused.
        concurrent: pages read at the same time; more wait their turn.
        allowed_networks: networks (`10.1.0.0/16`) that may be read besides public addresses.

    Raises:
        ServerError: a value that cannot work, named by its field.
    """

    deadline_s: float = 20.0
    max_bytes: int = 2_000_000
    max_chars: int = 20_000
    max_redirects: int = 5
    concurrent: int = 16
    allowed_networks: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not self.deadline_s > 0 or self.max_bytes < 1 or self.concurrent < 1 or self.max_redirects < 0:
            raise ServerError(
                "web pages: deadline_s, max_bytes and concurrent must be positive, max_redirects not negative"
            )
        if self.max_chars <= len(CUT_MARK):
            raise ServerError(
                f"web pages: max_chars is {self.max_chars}; more than {len(CUT_MARK)} is expected"
            )
        for network in self.allowed_networks:
            try:
                ipaddress.ip_network(network)
            except ValueError as error:
                raise ServerError(f"web pages: allowed_networks: {error}; write 10.1.0.0/16") from error


class PageReader:
    """Fetches pages and reads their text. One object belongs to one event loop, where any number of tasks share it."""

    def __init__(self, settings: PageSettings) -> None:
        self.settings = settings
        self._ssl = httpx.create_ssl_context()
        self._free = asyncio.Semaphore(settings.concurrent)

    async def read(self, url: str) -> Document:
        """The page at the address, which also is the document's `id`.

        Raises:
            SearchFailure: why there is no page. `cause` is `url` (not http or https, or not an address), `address`
                (not public), `redirects`, `status_<code>`, `type`, `size`, `no_text`, `connection` or `timeout`.
        """
        try:
            async with asyncio.timeout(self.settings.deadline_s), self._free:
                kind, content = await self._fetch(url)
                # In a thread, as a large page takes seconds; a thread past the deadline ends unheard.
                title, text = await asyncio.to_thread(_read, url, kind, content)
        except TimeoutError as error:
            raise SearchFailure(
                "timeout", f"{_short(url)}: not read in {self.settings.deadline_s:g} s"
            ) from error
        except httpx.HTTPError as error:
            raise SearchFailure("connection", f"{_short(url)}: {error or type(error).__name__}") from error
        if not text:
            raise SearchFailure("no_text", f"{_short(url)}: no readable text")
        page = web_document(url, title, text)
        return replace(page, text=cut_text(page.text, self.settings.max_chars))

    async def _fetch(self, url: str) -> tuple[str, str | bytes]:
        """Content type, and the content: decoded where the server names a character set, else as it came."""
        target = _parse(url)
        for _ in range(self.settings.max_redirects + 1):
            addresses = await self._addresses(target)
            # A client per request: cookies and connections are kept by IP address here, and several sites share one.
            async with httpx.AsyncClient(
                verify=self._ssl, timeout=None, trust_env=False, headers=HEADERS
            ) as http:
                response = await _send(http, target, addresses)
                try:
                    if not response.has_redirect_location:
                        return await self._content(response, target)
                    target = _parse(response.headers["location"], base=target)
                finally:
                    await response.aclose()
        raise SearchFailure("redirects", f"{_short(url)}: more than {self.settings.max_redirects} redirects")

    async def _addresses(self, target: httpx.URL) -> list[str]:
        """The host's IP addresses. They are connected to as checked here: a second look-up may answer otherwise."""
        host = target.raw_host.decode("ascii")
        try:
            addresses = await resolve(host, target.port or (443 if target.scheme == "https" else 80))
        except OSError as error:
            raise SearchFailure("connection", f"{_short(target)}: host {host}: {error}") from error
        for address in addresses:
            if not is_allowed(address, self.settings.allowed_networks):
                raise SearchFailure(
                    "address",
                    f"{_short(target)}: {address} is not a public address; list its network in allowed_networks "
                    "if it may be read",
                )
        return addresses

    async def _content(self, response: httpx.Response, target: httpx.URL) -> tuple[str, str | bytes]:
        if response.status_code != 200:
            raise SearchFailure(
                f"status_{response.status_code}", f"{_short(target)}: HTTP {response.status_code}"
            )
        kind = response.headers.get("content-type", "").partition(";")[0].strip().lower()
        coding = response.headers.get("content-encoding", "").strip().lower()
        if kind not in READ_TYPES or coding not in READ_CODINGS:
            raise SearchFailure(
                "type", f"{_short(target)}: content of type {kind[:60]!r}, coding {coding[:60]!r}"
            )
        body = bytearray()
        async for chunk in response.aiter_bytes():
            body += chunk
            if len(body) > self.settings.max_bytes:
                raise SearchFailure("size", f"{_short(target)}: more than {self.settings.max_bytes} bytes")
        return kind, _decode(bytes(body), response.charset_encoding)


async def _send(http: httpx.AsyncClient, target: httpx.URL, addresses: list[str]) -> httpx.Response:
    """Asks the first address that answers, under the host's own name; the certificate must be of that name too."""
    for position, address in enumerate(addresses):
        request = http.build_request(
            "GET",
            target.copy_with(host=address),
            headers={"Host": target.netloc.decode("ascii")},
            extensions={"sni_hostname": target.raw_host.decode("ascii")},
        )
        try:
            return await http.send(request, stream=True)
        except httpx.ConnectError:
            if position == len(addresses) - 1:
                raise
    raise AssertionError("a look-up gives an address or raises")


def _parse(url: str, base: httpx.URL | None = None) -> httpx.URL:
    """The address, relative to `base` if one is given. Raises SearchFailure for what is not a web address."""
    try:
        target = base.join(url) if base is not None else httpx.URL(url)
        target = target.copy_with(fragment=None)
    except (httpx.InvalidURL, ValueError) as error:
        raise SearchFailure("url", f"{_short(url)}: not an address: {error}") from error
    if target.scheme not in ("http", "https") or not target.host:
        raise SearchFailure("url", f"{_short(url)}: only http:// and https:// addresses are read")
    if target.port is not None and not 0 < target.port < 65536:
        raise SearchFailure("url", f"{_short(url)}: there is no port {target.port}")
    if target.userinfo:
        raise SearchFailure("url", f"{_short(url)}: an address with a user name is not read")
    return target


def _decode(body: bytes, charset: str | None) -> str | bytes:
    """The text if the character set is one that Python knows, else the bytes."""
    if charset is None:
        return body
    try:
        return body.decode(charset, "replace")
    except (LookupError, ValueError):
        return body


def _read(url: str, kind: str, content: str | bytes) -> tuple[str, str]:
    """Title and text; plain text has no title."""
    if kind == "text/plain":
        return "", content if isinstance(content, str) else content.decode("utf-8", "replace")
    try:
        return read_html(content)
    except (
        Exception
    ) as error:  # foreign HTML may trip the parser anywhere; that is the page's failure, not ours
        raise SearchFailure("no_text", f"{_short(url)}: cannot be parsed: {type(error).__name__}") from error


def _short(url: str | httpx.URL) -> str:
    """The address for a message: one line, not endless."""
    return repr(str(url)[:200])
