"""The files of the dashboard's page, as `tertulia serve` serves them."""

from __future__ import annotations

import base64
import gzip
import hashlib
from pathlib import Path

import pytest

from tertulia.server.http.page_files import PAGE_POLICY, PAGES_FOLDER
from tests.server.served import Place, served, status
from tests.tables import each_row

SCRIPT = "parent.postMessage(1, '*')\n"
FILES = {
    "index.html": "<!doctype html><script type=module src=/app.js></script>",
    "frame.html": f"<!doctype html><SCRIPT>{SCRIPT}</SCRIPT><body></body>",
    "app.js": "import './vendor/preact.js'",
    "style.css": "body{margin:0}",
    "vendor/preact.js": "export {}",
    "vendor/LICENSE": "not served",
    "vendor.lock": "not served",
    "tsconfig.json": "not served",
    ".hidden.js": "not served",
    "a b.js": "not served",
}
NOT_SERVED = [
    *("/index.html", "/vendor", "/vendor/", "/vendor/LICENSE", "/vendor.lock", "/tsconfig.json", "/.hidden.js"),
    *("/a%20b.js", "/secret.js", "/app.js/", "/App.js", "//app.js", "/vendor/../../secret.txt", "/vendor/%2e%2e/x"),
    *("/..%2fsecret.txt", "/app.js%00", "/vendor%2fpreact.js%00.js", "/%2e/%2e%2e/secret.txt", "/app.js;x"),
]


@pytest.fixture
def pages(tmp_path: Path) -> Path:
    """A folder with a page, and a file beside it to which a link in the folder leads."""
    folder = tmp_path / "web"
    for name, text in FILES.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    (tmp_path / "secret.txt").write_text("secret")
    (folder / "secret.js").symlink_to(tmp_path / "secret.txt")
    return folder


async def get(place: Place, path: str, **headers: str | None) -> tuple[int, dict[str, str], str]:
    """Status, headers and body of an answer to a browser, which has no token yet."""
    answer = await place.raw(place.head("GET", path, **{"Authorization": None, **headers}))
    head, _, body = answer.decode().partition("\r\n\r\n")
    lines = [line.partition(": ") for line in head.split("\r\n")[1:]]
    assert len({name for name, _, _ in lines}) == len(lines)
    return status(answer), {name.lower(): value for name, _, value in lines}, body


async def test_each_file_has_its_type_its_tag_and_its_own_policy(pages: Path) -> None:
    """S004-26, D14, D15, UI.md 5.2: also without a token."""
    digest = base64.b64encode(hashlib.sha256(SCRIPT.encode()).digest()).decode()
    expected = {
        "/": ("index.html", "text/html; charset=utf-8", "no-store", PAGE_POLICY.format(styles="'self'")),
        "/frame.html": ("frame.html", "text/html; charset=utf-8", "no-store", f"script-src 'sha256-{digest}';"),
        "/app.js": ("app.js", "text/javascript; charset=utf-8", "no-cache", "default-src 'none'"),
        "/style.css": ("style.css", "text/css; charset=utf-8", "no-cache", "default-src 'none'"),
        "/vendor/preact.js": ("vendor/preact.js", "text/javascript; charset=utf-8", "no-cache", "default-src 'none'"),
    }
    async with served(pages=pages) as place:
        assert place.web.pages.paths == set(expected)
        for path, (name, kind, cached, policy) in expected.items():
            code, headers, body = await get(place, path)
            assert (code, body) == (200, FILES[name])
            assert (headers["content-type"], headers["cache-control"]) == (kind, cached)
            assert policy in headers["content-security-policy"]
            assert headers["x-content-type-options"] == "nosniff"
        frame = (await get(place, "/frame.html"))[1]["content-security-policy"]
        assert frame.startswith("sandbox allow-scripts; default-src 'none';")
        assert "'self'" not in frame.replace("frame-ancestors 'self'", "")


@each_row("tag", ["{}", "W/{}", '"another", {}', "*"])
async def test_a_file_that_the_browser_has_is_not_sent_again(pages: Path, tag: str) -> None:
    async with served(pages=pages) as place:
        etag = (await get(place, "/app.js"))[1]["etag"]
        code, headers, body = await get(place, "/app.js", If_None_Match=tag.format(etag))
        assert (code, body, headers["etag"]) == (304, "", etag)
        assert (await get(place, "/style.css", If_None_Match=etag))[0] == 200


async def test_a_browser_that_takes_gzip_gets_it_and_a_tag_of_its_own(pages: Path) -> None:
    """What is packed and what is not are never taken for each other."""
    async with served(pages=pages) as place:
        plain = await get(place, "/app.js")
        answer = await place.raw(place.head("GET", "/app.js", Authorization=None, Accept_Encoding="gzip, br"))
        head, _, body = answer.partition(b"\r\n\r\n")
        assert gzip.decompress(body).decode() == plain[2] == FILES["app.js"]
        assert b"content-encoding: gzip" in head
        assert b"vary: accept-encoding" in head
        assert plain[1]["etag"].encode() not in head
        other = place.head("GET", "/app.js", Authorization=None, Accept_Encoding="gzip", If_None_Match=plain[1]["etag"])
        assert status(await place.raw(other)) == 200
        assert place.web.pages.file("/app.js").packed is place.web.pages.file("/app.js").packed


async def test_styles_come_with_what_names_them_and_later_scripts_are_not_asked_for_first(pages: Path) -> None:
    """D14: the policy knows the sheet that stands in the page by its digest, and lets no other in."""
    (pages / "style").mkdir()
    (pages / "style" / "base.css").write_text("/* a comment */\n  b { c: d }\n")
    for name in ("style.css", "print.css"):
        (pages / name).write_text('@import "./style/base.css";\nbody { margin: 0 }\n')
    (pages / "index.html").write_text('<!doctype html><link rel="stylesheet" href="/style.css" />')
    sheet = "b{c:d}body{margin:0}"
    (pages / "later.js").write_text("export {}")
    (pages / "app.js").write_text("import './vendor/preact.js'\nexport const later = () => import('./later.js')\n")
    async with served(pages=pages) as place:
        assert (await get(place, "/print.css"))[2] == sheet
        assert [(await get(place, path))[0] for path in ("/style.css", "/style/base.css")] == [401, 401]
        _, headers, body = await get(place, "/")
        assert body == f"<!doctype html><style>{sheet}</style>"
        digest = base64.b64encode(hashlib.sha256(sheet.encode()).digest()).decode()
        assert f"; style-src 'sha256-{digest}'; " in headers["content-security-policy"]
        assert "/later.js" in place.web.pages.paths
        assert headers["link"] == "</app.js>; rel=modulepreload, </vendor/preact.js>; rel=modulepreload"


@each_row("path", NOT_SERVED)
async def test_no_other_path_leads_to_a_file(pages: Path, path: str) -> None:
    """D15: not out of the folder, not along a link, and not to what belongs to no page."""
    async with served(pages=pages) as place:
        code, _, body = await get(place, path)
        assert code in (400, 401)
        answer = await place.raw(place.head("GET", path))
        assert status(answer) in (400, 404)
        assert b"secret" not in answer
        assert "not served" not in body


async def test_a_file_that_is_added_or_changed_later_is_not_served(pages: Path) -> None:
    """D15: the list is made at the start."""
    async with served(pages=pages) as place:
        (pages / "late.js").write_text("late")
        (pages / "app.js").write_text("changed")
        assert (await get(place, "/late.js"))[0] == 401
        assert (await get(place, "/app.js"))[2] == FILES["app.js"]


async def test_files_of_the_page_keep_the_other_checks(pages: Path) -> None:
    """D1, D2, D3: a wrong token, a foreign name and a foreign page are refused there too."""
    async with served(pages=pages) as place:
        assert (await get(place, "/app.js", Authorization="Bearer wrong"))[0] == 401
        assert (await get(place, "/app.js", Host="evil.example"))[0] == 421
        assert (await get(place, "/app.js", Origin="https://evil.example"))[0] == 403
        assert status(await place.raw(place.head("DELETE", "/app.js", Authorization=None))) == 405


def test_the_folder_of_the_page_belongs_to_the_package() -> None:
    """Everything below the package is in the wheel."""
    assert PAGES_FOLDER.parent == Path(__file__).parents[3] / "src" / "tertulia"
