"""The report in a browser: it draws, complains of nothing, and its controls change it."""

from dataclasses import replace

import numpy as np
import pytest

from browser import Browser, executable
from dynacl import report

pytestmark = pytest.mark.skipif(
    executable() is None, reason="no Chromium: apt-get install chromium"
)
NAME = "</script><script>window.hacked = 1</script><img src=x onerror='window.hacked = 1'>"

COMMANDS = ("dynacl fit data.csv --label-key place --modes 2 --max-iter 30 --out runs --report",
            "dynacl report runs 'two words.csv'")  # fmt: skip


@pytest.fixture(scope="module")
def path(switching_model, two_modes, tmp_path_factory):
    folder = tmp_path_factory.mktemp("page")
    labels = {NAME: np.array([NAME, "rest"])[np.arange(len(two_modes)) // 7 % 2]}
    series = replace(two_modes, names=(NAME,) * two_modes.n_features, labels=labels)
    report.write(folder / "a <b> & 'c'.html", switching_model, series, title=NAME, source=NAME,
                 commands=COMMANDS)  # fmt: skip
    report.write(folder / "alone.html", switching_model)
    return folder / "a <b> & 'c'.html"


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    opened = Browser(tmp_path_factory.mktemp("browser"))
    yield opened
    opened.close()


@pytest.fixture
def page(browser, path):
    browser.open(path)
    yield browser
    assert browser.errors == []
    assert {url.split(":")[0] for url in browser.events} <= {"file", "data"}


def pixels(page, canvas):
    return page.run(f"document.getElementById('{canvas}').toDataURL()")


def shades(page, canvas):
    """How many different colours a canvas shows."""
    return page.run(f"""(() => {{
        const c = document.getElementById('{canvas}');
        const {{data}} = c.getContext('2d').getImageData(0, 0, c.width, c.height);
        return new Set(new Uint32Array(data.buffer)).size;
    }})()""")


def middle(page, element):
    box = page.run(f"""(() => {{
        const e = document.getElementById('{element}');
        e.scrollIntoView({{block: 'center', behavior: 'instant'}});
        const r = e.getBoundingClientRect();
        return [r.left, r.top, r.width, r.height];
    }})()""")
    page.settle()
    return box


def test_both_pictures_are_drawn_and_nothing_is_complained_of(page):
    assert shades(page, "embedding") > 10
    assert shades(page, "timeline") > 5
    assert page.run("document.querySelectorAll('figure svg').length") > 5


def test_names_are_shown_as_text_and_never_run(page):
    assert page.run("window.hacked === undefined")
    assert page.run("document.querySelector('h1').textContent") == NAME
    labels = page.run("[...document.querySelectorAll('#colour label')].map(l => l.textContent)")
    assert labels == ["mode", "true mode", "time", "trial", NAME]
    page.run("[...document.querySelectorAll('#colour input')].at(-1).click()")
    page.settle()
    assert NAME in page.run("document.getElementById('key').textContent")
    assert page.run("document.images.length") == 0
    assert page.run("window.hacked === undefined")


def test_each_colour_changes_both_pictures_and_the_key(page):
    seen = []
    for i in (0, 2, 3, 4):
        page.run(f"document.querySelectorAll('#colour input')[{i}].click()")
        page.settle()
        key = page.run("document.getElementById('key').innerHTML")
        seen.append((pixels(page, "embedding"), pixels(page, "timeline"), key))
    for parts in zip(*seen, strict=True):
        assert len(set(parts)) == len(parts)


def test_the_mouse_turns_the_picture_and_points_tell_what_they_are(page):
    left, top, width, height = middle(page, "embedding")
    centre = (left + width / 2, top + height / 2)
    before = pixels(page, "embedding")
    page.drag(centre, (centre[0] + 90, centre[1] + 40))
    assert pixels(page, "embedding") != before
    page.run("document.getElementById('trial').value = '-1'")
    page.run("document.getElementById('trial').dispatchEvent(new Event('change'))")
    page.settle()
    lines = pixels(page, "timeline")
    for shift in range(0, 120, 8):  # somewhere near the middle there is a point
        page.mouse("mouseMoved", centre[0] + shift, centre[1])
        page.settle()
        if page.run("!document.getElementById('tip').hidden"):
            break
    said = page.run("document.getElementById('tip').textContent")
    assert said.startswith("trial ")
    assert "mode: " in said
    assert pixels(page, "timeline") != lines  # the line that shows where


def test_the_timeline_shows_where_it_is_in_the_embedding(page):
    left, top, width, height = middle(page, "timeline")
    before = pixels(page, "embedding")
    page.mouse("mouseMoved", left + width / 2, top + height * 0.6)
    page.settle()
    assert pixels(page, "embedding") != before
    assert "step" in page.run("document.getElementById('here').textContent")
    start = page.run("document.getElementById('trial').value")
    for kind in ("mousePressed", "mouseReleased"):
        page.mouse(kind, left + width / 2, top + height * 0.6, buttons=int(kind == "mousePressed"))
    page.settle()
    assert page.run("document.getElementById('trial').value") != start


def test_all_of_it_is_reached_and_moved_by_the_keyboard(page):
    reached = []
    for _ in range(40):
        page.key("Tab", code="Tab", windowsVirtualKeyCode=9)
        reached.append(page.run("document.activeElement.id || document.activeElement.name"))
    assert {"embedding", "timeline", "colour", "trial", "whiten", "lines", "play"} <= set(reached)
    page.run("document.getElementById('embedding').focus()")
    seen = {pixels(page, "embedding")}
    for key in ("ArrowLeft", "ArrowUp", "+"):
        page.key(key)
        seen.add(pixels(page, "embedding"))
    assert len(seen) == 4
    page.key("0")
    assert pixels(page, "embedding") in seen  # as it was
    page.run("document.getElementById('timeline').focus()")
    page.key("ArrowRight")
    page.key("ArrowRight")
    here = page.run("document.getElementById('here').textContent")
    page.key("ArrowRight")
    assert here.startswith("trial 0, step 1 ")
    assert page.run("document.getElementById('here').textContent").startswith("trial 0, step 2 ")
    page.key("ArrowDown")
    assert page.run("document.getElementById('here').textContent").startswith("trial 1, step 2 ")
    page.key("Escape")
    assert page.run("document.getElementById('trial').value") == "-1"


@pytest.mark.parametrize("button", ["whiten", "lines"])
def test_a_button_changes_the_picture_and_says_that_it_is_pressed(page, button):
    before = pixels(page, "embedding")
    state = f"document.getElementById('{button}').ariaPressed"
    was = page.run(state)
    page.run("document.getElementById('trial').value = '-1'")
    page.run("document.getElementById('trial').dispatchEvent(new Event('change'))")
    page.run(f"document.getElementById('{button}').click()")
    page.settle()
    assert page.run(state) != was
    assert pixels(page, "embedding") != before


def brightness(page):
    """Of the paper, and of the words on it."""
    return page.run("""['backgroundColor', 'color'].map(name => {
        const rgb = getComputedStyle(document.body)[name].match(/\\d+/g).map(Number);
        return (rgb[0] + rgb[1] + rgb[2]) / 3;
    })""")


def test_page_follows_the_reader_to_the_dark_and_prints_on_white(page):
    paper, ink = brightness(page)
    assert paper > 240 > 80 > ink
    light = pixels(page, "embedding")
    page.look(dark=True)
    paper, ink = brightness(page)
    assert paper < 40 < 200 < ink
    assert pixels(page, "embedding") != light
    text = "getComputedStyle(document.querySelector('figure svg text')).fill"
    assert page.run(text) == page.run("getComputedStyle(document.body).color").replace("a", "")
    page.look(dark=True, media="print")
    paper, ink = brightness(page)
    assert paper > 240 > 80 > ink
    assert page.run("getComputedStyle(document.querySelector('nav')).display") == "none"
    assert page.run("document.querySelector('#embedding').toDataURL().length") > 5000
    assert page.pdf().startswith(b"%PDF")
    for drawn in ("'#key i'", "'ul.said li', '::before'"):  # colours that say something
        selector, *part = drawn.split(", ")
        style = f"getComputedStyle({', '.join([f'document.querySelector({selector})', *part])})"
        assert page.run(f"{style}.printColorAdjust") == "exact"


def test_a_narrow_screen_does_not_scroll_sideways(page, path):
    page.open(path, width=390, height=800)
    assert page.run("document.documentElement.scrollWidth") <= 390


def test_commands_are_broken_between_words_and_copied_as_they_are(page, path):
    lines_of_a_word = """(() => {
        const found = [], code = document.querySelector('pre code');
        const walker = document.createTreeWalker(code, NodeFilter.SHOW_TEXT);
        while (walker.nextNode()) for (const part of walker.currentNode.data.matchAll(/[^ ]+/g)) {
            const range = document.createRange();
            range.setStart(walker.currentNode, part.index);
            range.setEnd(walker.currentNode, part.index + part[0].trimEnd().length);
            found.push(range.getClientRects().length);
        }
        return Math.max(...found);
    })()"""
    for width in range(360, 720, 20):
        page.open(path, width=width)
        assert page.run(lines_of_a_word) == 1
    page.open(path, width=2000)  # where both would fit into one line
    tops = "[...document.querySelectorAll('pre span')].map(s => s.offsetTop)"
    assert len(set(page.run(tops))) == len(COMMANDS)
    page.run("getSelection().selectAllChildren(document.querySelector('pre code'))")
    assert page.run("getSelection().toString()").strip() == "\n".join(COMMANDS)


def test_a_report_without_data_has_no_picture_to_turn_and_no_errors(browser, path):
    browser.open(path.with_name("alone.html"))
    assert browser.errors == []
    assert browser.run("document.getElementById('embedding') === null")
