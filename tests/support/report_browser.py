"""A real browser for tests: headless Chromium, spoken to through chromedriver by plain HTTP."""

import base64
import json
import shutil
import socket
import subprocess
import time
import urllib.error
import urllib.request
from pathlib import Path

FLAGS = [
    "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update",
    "--disable-dev-shm-usage", "--no-first-run", "--hide-scrollbars", "--force-device-scale-factor=1",
]  # fmt: skip


def find() -> tuple[str, str] | None:
    """Chromium and its driver, where both are installed."""
    browser = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    driver = shutil.which("chromedriver")
    return (browser, driver) if browser and driver else None


class Browser:
    """One session with its own profile; use it as a context."""

    def __init__(self, folder: Path, width: int = 1280, height: int = 900, *, dark: bool = False) -> None:
        browser, driver = find()
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        self.downloads = folder / "downloads"
        self.downloads.mkdir(parents=True, exist_ok=True)
        self._address = f"http://127.0.0.1:{port}"
        self._process = subprocess.Popen(
            [driver, f"--port={port}"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        self._wait()
        look = ["--force-dark-mode", "--blink-settings=preferredColorScheme=0"] if dark else []
        options = {
            "binary": browser,
            "args": [
                *FLAGS,
                *look,
                f"--window-size={width},{height}",
                f"--user-data-dir={folder / 'profile'}",
            ],
            "prefs": {
                "download.default_directory": str(self.downloads),
                "profile.default_content_setting_values.automatic_downloads": 1,  # several in a row, without asking
            },
        }
        logs = {"browser": "ALL", "performance": "ALL"}
        wanted = {"browserName": "chrome", "goog:chromeOptions": options, "goog:loggingPrefs": logs}
        made = self._call("POST", "/session", {"capabilities": {"alwaysMatch": wanted}})
        self._session = f"/session/{made['sessionId']}"
        self.command(
            "Emulation.setEmulatedMedia",
            features=[{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}],
        )
        self.command(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=width < 600,
        )

    def __enter__(self) -> "Browser":
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self._call("DELETE", self._session)
        finally:
            self._process.terminate()
            self._process.wait(10)

    def open(self, path: Path) -> None:
        """Open a file, and forget what was logged before: the browser's own first page asks for much."""
        self._call("POST", f"{self._session}/url", {"url": "about:blank"})
        time.sleep(0.3)
        for kind in ("browser", "performance"):
            self.logs(kind)
        self._call("POST", f"{self._session}/url", {"url": path.resolve().as_uri()})

    def run(self, script: str, *arguments: object) -> object:
        """What a piece of JavaScript returns."""
        return self._call(
            "POST", f"{self._session}/execute/sync", {"script": script, "args": list(arguments)}
        )

    def command(self, name: str, **parameters: object) -> object:
        """A command of the browser's own protocol."""
        return self._call("POST", f"{self._session}/goog/cdp/execute", {"cmd": name, "params": parameters})

    def keys(self, selector: str, text: str) -> None:
        """Type into what a selector finds, as a user at the keyboard would."""
        found = self._call("POST", f"{self._session}/element", {"using": "css selector", "value": selector})
        self._call("POST", f"{self._session}/element/{next(iter(found.values()))}/value", {"text": text})

    def logs(self, kind: str) -> list[dict[str, object]]:
        return self._call("POST", f"{self._session}/se/log", {"type": kind})

    def requests(self) -> list[str]:
        """Addresses of all requests since the last call."""
        found = [json.loads(entry["message"])["message"] for entry in self.logs("performance")]
        return [m["params"]["request"]["url"] for m in found if m["method"] == "Network.requestWillBeSent"]

    def screenshot(self, path: Path, *, whole: bool = True) -> None:
        shot = self.command(
            "Page.captureScreenshot", captureBeyondViewport=whole, **({"clip": self._page()} if whole else {})
        )
        path.write_bytes(base64.b64decode(shot["data"]))

    def _page(self) -> dict[str, float]:
        size = self.run(
            "return [document.documentElement.clientWidth, document.documentElement.scrollHeight]"
        )
        return {"x": 0, "y": 0, "width": size[0], "height": size[1], "scale": 1}

    def _wait(self) -> None:
        for _ in range(100):
            try:
                if self._call("GET", "/status")["ready"]:
                    return
            except (urllib.error.URLError, ConnectionError):
                time.sleep(0.1)
        raise RuntimeError("chromedriver did not start")

    def _call(self, method: str, path: str, body: object = None) -> object:
        data = None if body is None and method != "POST" else json.dumps(body or {}).encode()
        request = urllib.request.Request(
            self._address + path, data, {"Content-Type": "application/json"}, method=method
        )
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return json.loads(answer.read())["value"]
        except urllib.error.HTTPError as problem:
            raise RuntimeError(json.loads(problem.read())["value"]["message"]) from None
