"""A headless Chromium for tests, driven over the WebDriver protocol by the standard library alone."""

import base64
import json
import os
import re
import shutil
import subprocess
import tempfile
import urllib.error
import urllib.request
from contextlib import contextmanager, suppress
from pathlib import Path

FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
)
ELEMENT = "element-6066-11e4-a52e-4f735466cecf"
"""The key of an element's id, as the WebDriver standard has it."""

DIRECT = urllib.request.build_opener(urllib.request.ProxyHandler({}))
"""Past any proxy of the environment."""


def programs() -> tuple[str | None, str | None]:
    """Chromium and its driver, where they are installed."""
    browser = next(
        (found for name in ("chromium", "chromium-browser", "google-chrome") if (found := shutil.which(name))), None
    )
    return browser, shutil.which("chromedriver")


class Browser:
    """One session."""

    def __init__(self, port: int, session: str) -> None:
        self.base = f"http://127.0.0.1:{port}/session/{session}"

    def __call__(self, method: str, path: str, **body: object):
        return call(method, f"{self.base}{path}", body)

    def open(self, page: Path, width: int, height: int, scheme: str) -> None:
        """Show a file in a viewport of that size, in the colours "light" or "dark"."""
        self.devtools("Network.enable")
        self.devtools(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 500
        )
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self.devtools("Emulation.setEmulatedMedia", features=features)
        self("POST", "/url", url=page.as_uri())

    def devtools(self, command: str, **params: object):
        return self("POST", "/goog/cdp/execute", cmd=command, params=params)

    def run(self, script: str, *arguments: object):
        return self("POST", "/execute/sync", script=script, args=list(arguments))

    def find(self, selector: str) -> list[str]:
        found = self("POST", "/elements", using="css selector", value=selector)
        return [each[ELEMENT] for each in found]

    def click(self, element: str) -> None:
        """As a person does: it must be there to be seen, with nothing over it."""
        self("POST", f"/element/{element}/click")

    def requests(self) -> list[str]:
        """The addresses asked for since the last call."""
        messages = [json.loads(each["message"])["message"] for each in self("POST", "/se/log", type="performance")]
        return [m["params"]["request"]["url"] for m in messages if m["method"] == "Network.requestWillBeSent"]

    def picture(self, path: Path) -> None:
        """The whole page as a PNG."""
        found = self.devtools("Page.captureScreenshot", format="png", captureBeyondViewport=True)
        path.write_bytes(base64.b64decode(found["data"]))


def call(method: str, url: str, body: dict[str, object]):
    """Ask the driver. Raises `AssertionError` with its words."""
    data = json.dumps(body).encode() if method == "POST" else None
    request = urllib.request.Request(url, data, {"Content-Type": "application/json"}, method=method)
    try:
        with DIRECT.open(request, timeout=120) as answer:
            return json.load(answer)["value"]
    except urllib.error.HTTPError as error:
        raise AssertionError(json.load(error)["value"]["message"]) from error


@contextmanager
def chromium():
    """A browser of its own, with an empty profile; it and its driver end with the block."""
    browser, driver = programs()
    with tempfile.TemporaryDirectory(prefix="ckptstore-browser-", ignore_cleanup_errors=True) as profile:
        process = subprocess.Popen(
            [driver, "--port=0"],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env={**os.environ, "HOME": profile},
        )
        try:
            session = begin(process, browser, f"{profile}/profile")
            try:
                yield session
            finally:
                with suppress(AssertionError, OSError):
                    session("DELETE", "")
        finally:
            process.terminate()
            process.wait(timeout=30)
            process.stdout.close()


def begin(process: subprocess.Popen, browser: str, profile: str) -> Browser:
    """A session with the driver, once it says where it listens."""
    said = (re.search(r"successfully on port ([0-9]+)", line) for line in process.stdout)
    port = next(int(found[1]) for found in said if found)
    wanted = {
        "browserName": "chrome",
        "goog:chromeOptions": {"binary": browser, "args": [*FLAGS, f"--user-data-dir={profile}"]},
        "goog:loggingPrefs": {"performance": "ALL"},
    }
    made = call("POST", f"http://127.0.0.1:{port}/session", {"capabilities": {"alwaysMatch": wanted}})
    return Browser(port, made["sessionId"])
