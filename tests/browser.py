"""Chromium without a window, spoken to through a pipe (its DevTools protocol): no driver needed."""

import base64
import json
import os
import shutil
import subprocess
import time

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
FLAGS = ("--headless=new", "--no-sandbox", "--disable-gpu", "--remote-debugging-pipe",
         "--no-first-run", "--disable-extensions", "--force-device-scale-factor=1",
         "--hide-scrollbars", "--disable-dev-shm-usage", "--disable-background-networking",
         "--host-resolver-rules=MAP * ~NOTFOUND")  # fmt: skip
PATIENCE = 60  # seconds that an answer may take on a busy machine


def executable():
    """Where Chromium is, or None."""
    return next((path for path in map(shutil.which, NAMES) if path), None)


class Browser:
    """One page. `errors` holds what it complained of since `open`."""

    def __init__(self, folder):
        to_us, from_browser = os.pipe()
        to_browser, from_us = os.pipe()

        def pipes():  # the protocol is read at 3 and written at 4
            a, b = os.dup(to_browser), os.dup(from_browser)
            os.dup2(a, 3)
            os.dup2(b, 4)

        command = [executable(), *FLAGS, f"--user-data-dir={folder}", "about:blank"]
        self.process = subprocess.Popen(
            command, preexec_fn=pipes, close_fds=False, stderr=subprocess.DEVNULL
        )
        os.close(to_browser)
        os.close(from_browser)
        os.set_blocking(to_us, False)
        self.read, self.write, self.buffer, self.number = to_us, from_us, b"", 0
        self.errors, self.events, self.session = [], [], None
        targets = self.call("Target.getTargets")["targetInfos"]
        page = next(t["targetId"] for t in targets if t["type"] == "page")
        attached = self.call("Target.attachToTarget", targetId=page, flatten=True)
        self.session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def close(self):
        os.close(self.write)
        os.close(self.read)
        self.process.terminate()
        self.process.wait(PATIENCE)

    def call(self, method, **parameters):
        self.number += 1
        message = {"id": self.number, "method": method, "params": parameters}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.write, json.dumps(message).encode() + b"\0")
        answer = self._until(lambda m: m.get("id") == self.number)
        assert "error" not in answer, answer
        return answer["result"]

    def _until(self, wanted):
        """The first message that is wanted; complaints are kept on the way."""
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            while b"\0" in self.buffer:
                line, self.buffer = self.buffer.split(b"\0", 1)
                message = json.loads(line)
                self._listen(message)
                if wanted(message):
                    return message
            try:
                part = os.read(self.read, 1 << 20)
                assert part, "the browser has ended"
                self.buffer += part
            except BlockingIOError:
                time.sleep(0.005)
        raise TimeoutError("the browser does not answer")

    def _listen(self, message):
        about = message.get("params", {})
        match message.get("method"):
            case "Runtime.exceptionThrown":
                self.errors.append(about["exceptionDetails"])
            case "Runtime.consoleAPICalled" if about["type"] in ("error", "warning", "assert"):
                self.errors.append(about["args"])
            case "Log.entryAdded" if about["entry"]["level"] in ("error", "warning"):
                self.errors.append(about["entry"])
            case "Network.requestWillBeSent":
                self.events.append(about["request"]["url"])

    def open(self, path, width=1200, height=900, dark=False):
        self.errors, self.events = [], []
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height,
                  deviceScaleFactor=1, mobile=False)  # fmt: skip
        self.look(dark)
        self.call("Page.navigate", url=path.absolute().as_uri())
        self._until(lambda m: m.get("method") == "Page.loadEventFired")
        self.settle()

    def look(self, dark=False, media=""):
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", media=media, features=[scheme])
        self.settle()

    def settle(self):
        """Until two frames have been drawn."""
        self.run("new Promise(f => requestAnimationFrame(() => requestAnimationFrame(f)))")

    def run(self, code):
        """The value of an expression, or of what it promises."""
        found = self.call("Runtime.evaluate", expression=code, returnByValue=True,
                          awaitPromise=True)  # fmt: skip
        assert "exceptionDetails" not in found, found
        return found["result"].get("value")

    def key(self, key, **more):
        for kind in ("keyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key=key, **more)
        self.settle()

    def mouse(self, kind, x, y, buttons=0):
        button = "left" if buttons or kind == "mouseReleased" else "none"
        self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button=button, buttons=buttons,
                  clickCount=1)  # fmt: skip

    def drag(self, start, end):
        self.mouse("mousePressed", *start, buttons=1)
        self.mouse("mouseMoved", *end, buttons=1)
        self.mouse("mouseReleased", *end)
        self.settle()

    def screenshot(self, whole=True):
        found = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        return base64.b64decode(found["data"])

    def pdf(self):
        return base64.b64decode(self.call("Page.printToPDF", printBackground=False)["data"])
