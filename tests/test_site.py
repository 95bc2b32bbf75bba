"""The built site, as files and in a browser. `make docs` builds it, and then runs these tests."""

import gzip
import json
import os
import shutil
import threading
from collections import defaultdict
from contextlib import contextmanager
from functools import partial
from html.parser import HTMLParser
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from skdpsco.privacy import gaussian_mu

ROOT = Path(__file__).parents[1]
SITE = ROOT / "docs" / "_build" / "html"
CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")
DRIVER = shutil.which("chromedriver")
SOME_PAGES = [
    "index.html", "tutorials.html", "auto_examples/plot_first_model.html", "choosing.html",
    "expectations.html", "algorithms.html", "glossary.html", "from-epsilon-to-noise.html",
    "field.html", "field/diffprivlib.html", "proofs/noise.html", "api/models.html",
    "api/generated/skdpsco.PrivateLasso.html", "api/generated/skdpsco.PrivateSynthesizer.html",
    "api/generated/skdpsco.privacy.Tries.html", "api/generated/skdpsco.Ledger.html",
]  # fmt: skip
PHONE = 390  # pixels


if not (SITE / "index.html").is_file():
    pytest.skip("there is no built site: run `make docs`", allow_module_level=True)


class Page(HTMLParser):
    """Links, anchors and what a page loads."""

    def __init__(self, path):
        super().__init__()
        self.links, self.anchors, self.loaded, self.images = [], set(), [], []
        self.feed(path.read_text("utf-8"))

    def handle_starttag(self, tag, attributes):
        found = dict(attributes)
        self.anchors |= {found[key] for key in ("id", "name") if found.get(key)}
        if tag == "a" and "href" in found:
            self.links.append(found["href"])
        elif tag == "link" and found.get("rel") in ("stylesheet", "preload", "icon"):
            self.loaded.append(found["href"])
        elif tag in ("script", "img", "iframe", "source") and "src" in found:
            self.loaded.append(found["src"])
        if tag == "img":
            self.images.append(found)


@pytest.fixture(scope="module")
def pages():
    found = sorted(SITE.rglob("*.html"))
    return {path: Page(path) for path in found if "_static" not in path.parts}


def test_links_and_anchors(pages):
    broken = defaultdict(list)
    for path, page in pages.items():
        for link in page.links + page.loaded:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = path
            if parts.path:
                target = Path(os.path.normpath(path.parent / unquote(parts.path)))
            anchors = pages[target].anchors if target in pages else set()
            known = not parts.fragment or unquote(parts.fragment) in anchors
            if not target.is_file() or not known:
                broken[str(path.relative_to(SITE))].append(link)
    assert dict(broken) == {}
    assert len(pages) > 200


def test_nothing_is_loaded_from_elsewhere(pages):
    for path, page in pages.items():
        outside = [link for link in page.loaded if urlsplit(link).netloc]
        assert outside == [], path


@pytest.mark.parametrize(
    "name", sorted(path.stem for path in (ROOT / "examples").glob("plot_*.py"))
)
def test_examples_draw_one_figure_and_print_what_it_costs(pages, name):
    """Sphinx runs the examples, and stops at an error."""
    page = SITE / "auto_examples" / f"{name}.html"
    figures = [image["src"] for image in pages[page].images if f"sphx_glr_{name}_" in image["src"]]
    assert len(figures) == 1
    outputs = page.read_text("utf-8").split("sphx-glr-script-out")[1:]
    assert any("epsilon" in output for output in outputs)


def test_images_have_texts(pages):
    for path, page in pages.items():
        for image in page.images:
            # A thumbnail stands beside its title, which a reader need not hear twice.
            assert image.get("alt") or image["src"].endswith("_thumb.png"), (path, image)


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *arguments):
        pass


@pytest.fixture(scope="module")
def address():
    """Where a server on this machine shows the site."""
    handler = partial(Quiet, directory=str(SITE))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()
        thread.join()


@pytest.fixture(scope="module")
def browser(address):
    webdriver = pytest.importorskip("selenium.webdriver", reason="there is no selenium")
    if CHROMIUM is None or DRIVER is None:
        pytest.skip("there is no browser: install chromium and chromium-driver")
    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM
    for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", "--window-size=1200,900"):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"performance": "ALL"})
    service = webdriver.ChromeService(executable_path=DRIVER)
    driver = webdriver.Chrome(options=options, service=service)
    driver.set_page_load_timeout(120)
    yield driver
    driver.quit()


def wait_for(browser, script, seconds=60):
    """The first truthy value of a script."""
    from selenium.webdriver.support.ui import WebDriverWait

    return WebDriverWait(browser, seconds).until(lambda driver: driver.execute_script(script))


@pytest.mark.parametrize(
    ("words", "page"), [("PrivateLasso", "skdpsco.PrivateLasso"), ("ledger", "proofs/ledger")]
)
def test_search(browser, address, words, page):
    browser.get(f"{address}search.html?q={words}")
    found = f"return document.querySelector('#search-results a[href*=\"{page}\"]') !== null"
    assert wait_for(browser, found)


def test_the_chart_leads_to_estimators(browser, address):
    links = "return [...document.querySelectorAll('.chart a')].map((a) => a.getAttribute('href'))"
    browser.get(f"{address}choosing.html")
    targets = browser.execute_script(links)
    assert len([link for link in targets if "skdpsco.Private" in link]) >= 12
    script = "document.querySelector('.chart a[href*=\"PrivateLasso\"] text').dispatchEvent("
    browser.execute_script(script + "new MouseEvent('click', {bubbles: true, view: window}))")
    assert wait_for(browser, "return document.title.startsWith('PrivateLasso')")


@pytest.mark.parametrize(("n", "epsilon", "columns"), [(3, 0, 0), (5, -0.5, 2), (4, 0.9, 1)])
def test_the_plot_reacts(browser, address, n, epsilon, columns):
    browser.get(f"{address}choosing.html")
    text = "return document.querySelector('#noise output').textContent"
    before = wait_for(browser, text)
    for name, value in (("n", n), ("epsilon", epsilon), ("columns", columns), ("delta", "1e-8")):
        browser.execute_script(
            "const control = document.querySelector(`#noise [name=${arguments[0]}]`);"
            "control.value = arguments[1];"
            "control.dispatchEvent(new Event('input', {bubbles: true}));",
            name,
            str(value),
        )
    after = browser.execute_script(text)
    assert after != before
    shown = float(after.partition("standard deviation ")[2].partition(",")[0])
    right = 2.0 * 10 ** (columns / 2.0) / (10**n * gaussian_mu(10**epsilon, 1e-8))
    assert shown == pytest.approx(right, rel=0.05)  # two digits are shown
    dots = "return document.querySelectorAll('#noise svg circle').length"
    assert browser.execute_script(dots) == 1


@contextmanager
def screen(browser, width, height, *, mobile=False):
    size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": mobile}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    try:
        yield
    finally:
        browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


def test_a_phone_needs_no_horizontal_scrolling(browser, address):
    """Not of the page, nor of the article, which the theme lets scroll within the page."""
    widths = """
        return [document.documentElement, document.querySelector('.bd-article-container')]
            .map((element) => element.scrollWidth)"""
    with screen(browser, PHONE, 844, mobile=True):
        for page in SOME_PAGES:
            browser.get(address + page)
            assert max(browser.execute_script(widths)) <= PHONE, page


def test_the_first_page_is_light_and_asks_only_this_machine(browser, address):
    browser.get_log("performance")  # forgets earlier pages
    for page in reversed(SOME_PAGES):
        browser.get(address + page)
    events = [json.loads(entry["message"])["message"] for entry in browser.get_log("performance")]
    asked = {
        event["params"]["request"]["url"]
        for event in events
        if event["method"] == "Network.requestWillBeSent"
    }
    assert any(url.endswith(".css") or ".css?" in url for url in asked)
    assert [url for url in asked if not url.startswith((address, "data:", "blob:"))] == []
    names = browser.execute_script(
        "return performance.getEntriesByType('resource').map((entry) => entry.name)"
    )
    files = [SITE / urlsplit(name).path[1:] for name in ["/index.html", *names]]
    sizes = [len(gzip.compress(file.read_bytes())) for file in files if file.is_file()]
    assert len(sizes) > 10
    assert sum(sizes) < 1_000_000
