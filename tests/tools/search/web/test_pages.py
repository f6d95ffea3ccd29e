"""The page reader: limits, kinds, and no way to addresses that are not public."""

import gzip
import time

import pytest

from tools.search.client import SearchFailure
from tools.search.settings import ServerError
from tools.search.web import pages as module
from tools.search.web.pages import PageReader, PageSettings

HTML = {"Content-Type": "text/html; charset=utf-8"}
TEXT = {"Content-Type": "text/plain"}
PAGE = (
    b"<html><head><title>Dune</title><script>steal()</script></head><body><p>A novel.</p>"
    b"<script>steal()</script></body></html>"
)


@pytest.fixture
def read():
    """Reads an address with settings under which this machine's first loopback address counts as public."""

    async def read(url, **settings):
        return await PageReader(PageSettings(**{"allowed_networks": ("127.0.0.1/32",)} | settings)).read(url)

    return read


@pytest.fixture
def fail(read):
    async def fail(url, **settings):
        with pytest.raises(SearchFailure) as caught:
            await read(url, **settings)
        return caught.value

    return fail


async def test_html_is_read_as_title_and_text_without_scripts(serve, read):
    server = serve(lambda n, path: (200, HTML, PAGE))
    page = await read(f"{server.url}/dune?x=1#part")
    assert (page.url, page.title, page.text) == (f"{server.url}/dune?x=1#part", "Dune", "A novel.")
    path, headers, _ = server.requests[0]
    assert (path, headers["Host"]) == ("/dune?x=1", f"127.0.0.1:{server.port}")


@pytest.mark.parametrize(
    "charset", ["", "; charset=utf-8", "; charset=no-such", "; charset=undefined", "; charset=hex"]
)
async def test_plain_text_is_read_with_its_address_as_title(serve, read, charset):
    server = serve(lambda n, path: (200, {"Content-Type": f"Text/Plain{charset}"}, "<b>5 < 6</b> é".encode()))
    page = await read(server.url)
    assert (page.title, page.text) == (server.url, "<b>5 < 6</b> é")


async def test_the_charset_of_the_header_is_used(serve, read):
    headers = {"Content-Type": "text/html; charset=koi8-r"}
    server = serve(lambda n, path: (200, headers, "<html><body><p>Дюна</p></body></html>".encode("koi8-r")))
    assert (await read(server.url)).text == "Дюна"


async def test_a_long_page_is_cut_and_marked(serve, read):
    server = serve(lambda n, path: (200, TEXT, b"A sentence. " * 1000))
    text = (await read(server.url, max_chars=100)).text
    assert len(text) <= 100
    assert text.endswith("A sentence. [cut]")


async def test_a_page_without_text_is_told_by_its_cause(serve, fail):
    server = serve(lambda n, path: (200, HTML, b"<html><body><script>steal()</script></body></html>"))
    assert (await fail(server.url)).cause == "no_text"


async def test_a_page_that_breaks_the_parser_is_a_failure_of_that_page(serve, fail, monkeypatch):
    def broken(html):
        raise RecursionError

    monkeypatch.setattr(module, "read_html", broken)
    server = serve(lambda n, path: (200, HTML, PAGE))
    assert (await fail(server.url)).cause == "no_text"


async def test_a_page_over_the_limit_is_refused_also_when_it_is_packed(serve, fail, read):
    body = b"word " * 10_000
    server = serve(lambda n, path: (200, TEXT, body))
    assert (await fail(server.url, max_bytes=len(body) - 1)).cause == "size"
    packed = serve(lambda n, path: (200, TEXT | {"Content-Encoding": "gzip"}, gzip.compress(body)))
    assert (await fail(packed.url, max_bytes=len(body) - 1)).cause == "size"
    assert (await read(packed.url, max_bytes=len(body), max_chars=10**6)).text == body.decode().strip()


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Content-Type": "application/pdf"},
        {"Content-Type": "image/svg+xml"},
        TEXT | {"Content-Encoding": "gzip, gzip"},
        TEXT | {"Content-Encoding": "zstd"},
    ],
)
async def test_other_types_and_codings_are_refused(serve, fail, headers):
    server = serve(lambda n, path: (200, headers, b"x"))
    assert (await fail(server.url)).cause == "type"


@pytest.mark.parametrize("status", [204, 304, 404, 500])
async def test_a_status_other_than_200_is_a_failure(serve, fail, status):
    server = serve(lambda n, path: (status, TEXT, b""))
    assert (await fail(server.url)).cause == f"status_{status}"


async def test_a_broken_coding_is_a_failure(serve, fail):
    server = serve(lambda n, path: (200, TEXT | {"Content-Encoding": "gzip"}, b"not gzip"))
    assert (await fail(server.url)).cause == "connection"


async def test_a_hanging_server_ends_at_the_deadline(serve, fail):
    server = serve(lambda n, path: server.hang())
    begin = time.monotonic()
    assert (await fail(server.url, deadline_s=0.3)).cause == "timeout"
    assert time.monotonic() - begin < 2


async def test_a_closed_port_and_an_unknown_host_are_connection_failures(serve, fail):
    server = serve(lambda n, path: PAGE)
    server.close()
    assert (await fail(server.url)).cause == "connection"
    assert (await fail("http://no-such-host.invalid/")).cause == "connection"


@pytest.mark.parametrize(
    "url",
    [
        "file:///etc/passwd",
        "ftp://a.example/",
        "gopher://a.example/",
        "data:text/html,x",
        "javascript:alert(1)",
        "dune",
        "",
        "http://",
        "http:///path",
        "//a.example/",
        "http://a.example:99999/",
        "http://[::1/",
        "http://a.example:0/",
        "http://user:pw@a.example/",
        "http://a.example/\n",
    ],
)
async def test_what_is_not_a_web_address_is_refused(fail, url):
    failure = await fail(url)
    assert failure.cause == "url"
    assert "\n" not in str(failure)


async def test_a_redirect_is_followed_and_the_page_keeps_its_address(serve, read):
    server = serve(lambda n, path: (302, {"Location": "/new"}, b"") if n == 1 else (200, HTML, PAGE))
    page = await read(f"{server.url}/old")
    assert (page.url, page.text) == (f"{server.url}/old", "A novel.")
    assert [path for path, *_ in server.requests] == ["/old", "/new"]


async def test_redirects_are_counted(serve, fail):
    server = serve(lambda n, path: (302, {"Location": "/again"}, b""))
    assert (await fail(server.url, max_redirects=3)).cause == "redirects"
    assert len(server.requests) == 4


@pytest.mark.parametrize(
    ("location", "cause"),
    [
        ("http://127.0.0.2:{port}/", "address"),
        ("//127.0.0.2:{port}/", "address"),
        ("http://169.254.169.254/latest/meta-data/", "address"),
        ("http://[::1]:{port}/", "address"),
        ("http://[::ffff:10.0.0.1]/", "address"),
        ("http://0x7f.2:{port}/", "address"),
        ("file:///etc/passwd", "url"),
    ],
)
async def test_a_redirect_to_what_is_not_public_is_refused_unasked(serve, fail, location, cause):
    server = serve(lambda n, path: (302, {"Location": location.format(port=server.port)}, b""))
    assert (await fail(server.url)).cause == cause
    assert len(server.requests) == 1


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "[::1]", "2130706433", "127.0.0.1."])
async def test_this_machine_is_refused_unless_it_is_allowed(serve, fail, host):
    server = serve(lambda n, path: (200, HTML, PAGE))
    failure = await fail(f"http://{host}:{server.port}/", allowed_networks=())
    assert failure.cause in ("address", "connection")  # not every machine has ::1, or takes the last form
    assert server.requests == []


async def test_one_private_address_among_several_is_enough_to_refuse(serve, fail, monkeypatch):
    async def resolve(host, port):
        return ["127.0.0.1", "10.0.0.1"]

    monkeypatch.setattr(module, "resolve", resolve)
    server = serve(lambda n, path: (200, HTML, PAGE))
    assert (await fail(f"http://site.example:{server.port}/")).cause == "address"
    assert server.requests == []


async def test_the_address_that_was_checked_is_the_one_connected_to(serve, read, monkeypatch):
    looked_up = []

    async def resolve(host, port):
        looked_up.append((host, port))
        return ["127.0.0.1"]

    monkeypatch.setattr(module, "resolve", resolve)
    server = serve(lambda n, path: (200, HTML, PAGE))
    assert (await read(f"http://site.example:{server.port}/")).text == "A novel."
    assert looked_up == [("site.example", server.port)]
    assert server.requests[0][1]["Host"] == f"site.example:{server.port}"


async def test_the_next_address_of_a_host_is_tried(serve, read, monkeypatch):
    async def resolve(host, port):
        return ["127.0.0.3", "127.0.0.1"]  # nothing listens at the first

    monkeypatch.setattr(module, "resolve", resolve)
    server = serve(lambda n, path: (200, HTML, PAGE))
    page = await read(f"http://site.example:{server.port}/", allowed_networks=("127.0.0.0/8",))
    assert page.text == "A novel."


async def test_cookies_of_one_site_do_not_reach_another(serve, read):
    server = serve(
        lambda n, path: (302, {"Location": "/b", "Set-Cookie": "a=1"}, b"") if n == 1 else (200, HTML, PAGE)
    )
    await read(server.url)
    assert all("Cookie" not in headers for _, headers, _ in server.requests)


@pytest.mark.parametrize(
    ("settings", "field"),
    [
        ({"deadline_s": 0}, "deadline_s"),
        ({"max_chars": 6}, "max_chars"),
        ({"allowed_networks": ("10.0.0.1/8",)}, "allowed_networks"),
        ({"allowed_networks": ("here",)}, "allowed_networks"),
    ],
)
def test_settings_that_cannot_work_name_their_field(settings, field):
    with pytest.raises(ServerError, match=field):
        PageSettings(**settings)
