"""Pictures show what they are given, to every eye, at the width of a column."""

from itertools import groupby, pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.text import Text
from sklearn.decomposition import PCA

from dynacl import InputError, plots
from dynacl.flows import FixedPoints
from dynacl.plots import style
from dynacl.plots.eigenvalues import NEVER
from dynacl.plots.embedding import principal_axes
from dynacl.plots.modes import visits
from dynacl.prediction import HeldOut
from dynacl.spectrum import Spectrum

RNG = np.random.default_rng(0)
LATENTS = [RNG.standard_normal((n, 5)) * [5, 3, 2, 1, 0.5] for n in (40, 30)]
MODES = [np.repeat([0, 1, 2, 0], 10)[:39], np.repeat([2, 1, 0], 10)[:29]]
TURN = np.array([[np.cos(0.3), -np.sin(0.3)], [np.sin(0.3), np.cos(0.3)]])
SPECTRUM = Spectrum.of(np.stack([0.9 * TURN, 1.01 * TURN, np.diag([0.8, 0.3])]))
JUDGED = HeldOut((1, 4, 20), {"model": np.array([0.1, 0.2, 0.4]), "persistence":
                              np.array([0.2, 0.9, np.inf])})  # fmt: skip
HISTORY = [{"step": i, "loss": 5 / i, "held_out": -(i // 3) / 3} for i in range(1, 10)]
FIXED = FixedPoints(np.eye(2, 5), np.array([[0.5], [1.5]]), np.array([-1, -1]))
PICTURES = {
    "embedding": lambda ax=None: plots.embedding(LATENTS, ax=ax),
    "embedding by mode": lambda ax=None: plots.embedding(LATENTS, MODES, ax=ax),
    "mode_raster": lambda ax=None: plots.mode_raster(MODES, ax=ax),
    "mode_durations": lambda ax=None: plots.mode_durations(MODES, ax=ax),
    "transitions": lambda ax=None: plots.transitions(np.full((3, 3), 1 / 3), ax=ax),
    "eigenvalues": lambda ax=None: plots.eigenvalues(SPECTRUM, ax=ax),
    "time_constants": lambda ax=None: plots.time_constants(SPECTRUM, ax=ax),
    "flow_field": lambda ax=None: plots.flow_field(LATENTS, LATENTS[::1], FIXED, ax=ax),
    "forecast": lambda ax=None: plots.forecast([1, 2], [1, 3], past=[0, 1], name="$x$", ax=ax,
                                               interval=([0, 1], [2, 3])),
    "held_out": lambda ax=None: plots.held_out(JUDGED, ax=ax),
    "held_out at one step": lambda ax=None: plots.held_out(
        HeldOut((1,), {k: v[:1] for k, v in JUDGED.missed.items()}), ax=ax),
    "training": lambda ax=None: plots.training(HISTORY, 11.0, several_from=3, ax=ax),
    "held_out_curve": lambda ax=None: plots.held_out_curve(HISTORY, ax=ax),
    "recovered": lambda ax=None: plots.recovered([1, 2, 1], {"DCL": [1, 2, 2]}, ax=ax),
    "consistency": lambda ax=None: plots.consistency(np.eye(3), ["one", "two", "three"], ax=ax),
    "correlations": lambda ax=None: plots.canonical_correlations([0.9, 0.8, 0.1], 2, ax=ax),
}  # fmt: skip
THREE = {"embedding in 3-D": lambda: plots.embedding(LATENTS, dimensions=3)}


@pytest.mark.parametrize("draw", PICTURES.values(), ids=PICTURES)
def test_a_picture_is_drawn_on_the_axes_that_it_is_given(draw):
    ax = Figure().subplots()
    assert draw(ax) is ax
    assert ax.has_data()


@pytest.mark.parametrize("draw", [*PICTURES.values(), *THREE.values()], ids=[*PICTURES, *THREE])
def test_words_of_a_picture_lie_within_a_column_and_are_large_enough(draw):
    figure = draw().figure
    figure.draw_without_rendering()
    assert figure.get_figwidth() == style.COLUMN
    words = [t for t in figure.findobj(Text) if t.get_text().strip() and t.get_visible()]
    ticks = {
        tick.label1
        for ax in figure.axes
        for axis in (ax.xaxis, ax.yaxis)
        for tick in axis.get_major_ticks() + axis.get_minor_ticks()
    }
    canvas = figure.bbox
    for text in words:
        assert text.get_size() >= 6
        if text in ticks:
            continue  # matplotlib has some outside the limits, which it does not draw
        extent = text.get_window_extent()
        assert canvas.x0 - 1 <= extent.x0, text
        assert extent.x1 <= canvas.x1 + 1, text
        assert canvas.y0 - 1 <= extent.y0, text
        assert extent.y1 <= canvas.y1 + 1, text


def test_pictures_leave_no_figures_behind_in_pyplot():
    from matplotlib import pyplot

    for draw in PICTURES.values():
        draw()
    assert pyplot.get_fignums() == []


# Machado, Oliveira and Fernandes (2009), severity 1.
BLINDNESS = {
    "none": np.eye(3),
    "protanopia": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216],
                   [-0.003882, -0.048116, 1.051998]],
    "deuteranopia": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413],
                     [-0.011820, 0.042940, 0.968881]],
    "tritanopia": [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602],
                   [0.004733, 0.691367, 0.303900]],
}  # fmt: skip


def lab(rgb):
    """CIELAB of linear sRGB, by its definition."""
    xyz = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])
    x, y, z = (
        t ** (1 / 3) if t > (6 / 29) ** 3 else t / (3 * (6 / 29) ** 2) + 4 / 29
        for t in xyz @ rgb / (xyz @ np.ones(3))
    )
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


def linear(colour):
    return np.array([c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4
                     for c in to_rgb(colour)])  # fmt: skip


@pytest.mark.parametrize("blindness", BLINDNESS)
def test_categories_can_be_told_apart_with_any_colour_vision(blindness):
    seen = [lab((np.array(BLINDNESS[blindness]) @ linear(c)).clip(0, 1)) for c in style.CATEGORIES]
    apart = [np.linalg.norm(a - b) for i, a in enumerate(seen) for b in seen[:i]]
    assert min(apart) > 10  # a difference of 2.3 can just be noticed


@pytest.mark.parametrize(
    "name", [r"$\frac{1$", "$", r"\$x\$", "a\nb\x00", "<b>&amp;</b>", "x" * 500, "%s {x} _^", ""]
)
def test_any_name_that_comes_with_data_can_be_drawn(name):
    ax = plots.forecast([1, 2], name=name)
    ax.figure.draw_without_rendering()  # mathematics that does not parse would fail here
    assert len(ax.get_ylabel().replace(r"\$", "$")) <= style.LONGEST


# -- embedding -------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [2, 3])
def test_embedding_is_that_of_principal_components(n):
    x = np.concatenate(LATENTS)
    drawn = plots.embedding(LATENTS, dimensions=n).collections[0]
    points = np.stack(drawn._offsets3d if n == 3 else drawn.get_offsets().T, axis=1)
    wanted = PCA(n).fit_transform(x)
    np.testing.assert_allclose(abs((points * wanted).sum(0)), np.square(wanted).sum(0), rtol=1e-6)


def test_steps_of_a_mode_have_its_colour_and_unknown_ones_are_grey():
    drawn = plots.embedding(LATENTS, MODES).collections[0]
    colours = [tuple(c) for c in drawn.get_facecolors()[:, :3]]
    wanted = [to_rgb(style.CATEGORIES[k]) for k in MODES[0]] + [to_rgb(style.MUTED)]
    np.testing.assert_allclose(colours[:40], wanted)


def test_time_starts_anew_with_each_trial():
    drawn = plots.embedding(LATENTS).collections[0]
    np.testing.assert_array_equal(drawn.get_array(), [*range(40), *range(30)])


def test_time_is_in_seconds_where_a_step_has_a_length():
    ax = plots.embedding(LATENTS, interval=0.5)
    np.testing.assert_array_equal(ax.collections[0].get_array()[:3], [0, 0.5, 1])
    assert "time (s)" in [other.get_ylabel() for other in ax.figure.axes]


def test_pictures_of_parts_can_have_the_axes_of_the_whole():
    whole = plots.embedding(LATENTS)
    parts = [plots.embedding(part, axes_of=LATENTS) for part in LATENTS]
    assert {ax.get_xlabel() for ax in parts} == {whole.get_xlabel()}
    points = np.concatenate([ax.collections[0].get_offsets() for ax in parts])
    np.testing.assert_allclose(points, whole.collections[0].get_offsets())


def test_labels_colour_by_name_and_by_number():
    words = [np.array(["rest"] * 40), np.array(["walk"] * 29 + [""])]
    texts = plots.embedding(LATENTS, words).get_legend().get_texts()
    assert [t.get_text() for t in texts] == ["rest", "walk"]
    speed = [np.linspace(0, 1, 40), np.linspace(1, 3, 30)]
    drawn = plots.embedding(LATENTS, speed, name="speed").collections[0]
    np.testing.assert_allclose(drawn.get_array(), np.concatenate(speed))


# -- modes -----------------------------------------------------------------------------------------


def test_raster_has_each_mode_at_its_step_and_nothing_behind_a_short_trial():
    image = plots.mode_raster(MODES).get_images()[0].get_array()
    np.testing.assert_array_equal(image[0], MODES[0])
    np.testing.assert_array_equal(image[1, :29], MODES[1])
    assert np.ma.getmaskarray(np.ma.masked_invalid(image[1, 29:])).all()


@given(st.lists(st.integers(0, 2), min_size=1, max_size=30))
def test_visits_are_what_one_counts_by_hand(modes):
    found = list(zip(*visits(np.array(modes)), strict=True))
    groups = [(k, len(list(run))) for k, run in groupby(modes)]
    assert [(k, n) for k, n, _ in found] == groups
    assert [w for *_, w in found] == [0 < i < len(groups) - 1 for i in range(len(groups))]


# -- dynamics --------------------------------------------------------------------------------------


def test_every_eigenvalue_is_drawn_and_what_grows_is_an_arrow():
    ax = plots.eigenvalues(SPECTRUM)
    dots = [line for line in ax.get_lines() if line.get_marker() == "o"]
    drawn = np.stack([line.get_xdata() + 1j * line.get_ydata() for line in dots])
    np.testing.assert_allclose(drawn, SPECTRUM.eigenvalues)
    low, high = np.array(ax.get_xlim()), np.array(ax.get_ylim())
    assert low[0] < drawn.real.min() < drawn.real.max() < low[1]
    assert high[0] < drawn.imag.min() < drawn.imag.max() < high[1]
    up = [line for line in plots.time_constants(SPECTRUM).get_lines() if line.get_marker() == "^"]
    assert [len(line.get_xdata()) for line in up if line.get_label() != NEVER] == [0, 1, 0]


@pytest.mark.parametrize("least", [1e-4, 3e-3, 0.2])
def test_words_about_the_mean_stand_within_the_picture(least):
    ax = plots.held_out(HeldOut((1, 4), {"model": np.array([least, 0.3]), "VAR": np.ones(2)}))
    ax.figure.draw_without_rendering()
    (words,) = (t for t in ax.texts if "mean" in t.get_text())
    assert words.get_window_extent().y1 <= ax.get_window_extent().y1


def test_what_does_not_shrink_is_named_and_has_no_height_of_its_own():
    turn = np.array([[0.8, -0.6], [0.6, 0.8]])

    def said(ax):
        ax.figure.draw_without_rendering()
        named = ax.get_legend().get_texts() if ax.get_legend() else []
        heights = [t.get_text() for t in ax.get_yticklabels(which="both") if t.get_text()]
        return {t.get_text() for t in named}, bool(heights)

    grows, both, shrinks = (Spectrum.of(np.stack(m) @ turn) for m in (
        [1.01 * np.eye(2)], [1.01 * np.eye(2), 0.9 * np.eye(2)], [0.9 * np.eye(2)]
    ))  # fmt: skip
    assert said(plots.time_constants(grows)) == ({NEVER}, False)
    assert said(plots.time_constants(both)) == ({"mode 0", "mode 1", NEVER}, True)
    assert said(plots.time_constants(shrinks)) == (set(), True)


@pytest.mark.parametrize("turned", [0.05, 0.4, 2.5])
def test_words_of_rings_stand_on_rings_of_that_time_within_the_picture(turned):
    c, s = np.cos(turned), np.sin(turned)
    spectrum = Spectrum.of(0.99 * np.array([[[c, -s], [s, c]]]), 1, 0.5)
    ax = plots.eigenvalues(spectrum)
    (left, right), (low, high) = ax.get_xlim(), ax.get_ylim()
    for word in ax.texts:
        x, y = word.get_position()
        time = float(word.get_text().removesuffix(" s"))
        assert abs(x + 1j * y) == pytest.approx(np.exp(-0.5 / time), rel=1e-3)
        margin = 0.1 * (right - left)
        assert left + margin < x < right - margin
        assert low + margin < y < high - margin
    assert ax.texts or turned < 0.1  # so near the circle, no ring can be told from it


def test_ticks_of_powers_of_ten_are_plain_numbers():
    narrow = Spectrum.of(np.stack([np.diag(np.exp(-1 / np.array([3.4, 7.2])))]))
    ax = plots.time_constants(narrow)
    ax.figure.draw_without_rendering()
    said = [t.get_text() for t in ax.get_yticklabels(which="both") if t.get_text()]
    assert {"4", "5", "6", "7"} <= set(said)  # of 3.4 to 7.2
    assert all(float(text) > 0 for text in said)


def test_a_legend_of_several_rows_is_read_row_by_row():
    texts = plots.eigenvalues(Spectrum.of(np.stack([np.eye(2)] * 6))).get_legend().get_texts()
    columns, n = 4, 6
    drawn = [t.get_text() for t in texts]  # column by column, the first ones longer
    rows = [len(range(i, n, columns)) for i in range(columns)]
    starts = np.r_[0, np.cumsum(rows)]
    read = [drawn[starts[j] + i] for i in range(2) for j in range(columns) if i < rows[j]]
    assert read == [f"mode {k}" for k in range(6)]


def test_arrows_of_a_rotation_are_at_right_angles_to_where_they_stand():
    x = RNG.standard_normal((4000, 2))
    turn = np.array([[0.0, -1.0], [1.0, 0.0]])
    arrows = plots.flow_field(x, x + 0.01 * x @ turn.T).collections[0]
    at, step = arrows.get_offsets(), np.stack([arrows.U, arrows.V], 1)
    far = np.linalg.norm(at, axis=1) > 1
    cosine = (at * step).sum(1) / np.linalg.norm(at, axis=1) / np.linalg.norm(step, axis=1)
    assert abs(cosine[far]).max() < 0.2
    left = at[:, 0] * step[:, 1] - at[:, 1] * step[:, 0]
    assert (left[far] > 0).all()


def test_fixed_points_are_filled_where_they_attract():
    x = np.concatenate(LATENTS)[:, :2]
    fixed = FixedPoints(np.array([[0.0, 0], [1, 1]]), np.array([[0.5], [1.5]]), np.array([-1, -1]))
    lines = plots.flow_field(x, x, fixed).get_lines()
    rings = {r.get_markerfacecolor(): r.get_xydata() for r in lines if r.get_marker() == "o"}
    centre, axes, _ = principal_axes(x)
    np.testing.assert_allclose(rings[style.TRUE], (fixed.points[:1] - centre) @ axes)
    np.testing.assert_allclose(rings["white"], (fixed.points[1:] - centre) @ axes)


# -- predictions and training ----------------------------------------------------------------------


def test_forecast_begins_where_the_past_ends_and_strides_by_the_offset():
    ax = plots.forecast([5, 6], [1, 2, 3, 4], past=[8, 9], stride=2, step=0.1)
    lines = {line.get_label(): line.get_xydata() for line in ax.get_lines()}
    np.testing.assert_allclose(lines["model"], [[0.2, 5], [0.4, 6]])
    np.testing.assert_allclose(lines["observed"][:, 0], [0.1, 0.2, 0.3, 0.4])
    past = ax.get_lines()[0].get_xydata()
    np.testing.assert_allclose(past, [[-0.1, 8], [0, 9]])


def test_steps_of_a_short_training_are_whole_numbers():
    ax = plots.training([{"step": i, "loss": 1.0} for i in range(1, 20)])
    ax.figure.draw_without_rendering()
    assert all(tick == int(tick) for tick in ax.get_xticks())


def test_each_look_at_held_out_data_is_one_dot():
    (line,) = plots.held_out_curve(HISTORY).get_lines()
    assert line.get_xdata().tolist() == [1, 3, 6, 9]
    np.testing.assert_allclose(line.get_ydata(), np.exp([0, -1 / 3, -2 / 3, -1]))
    assert all(a > b for a, b in pairwise(line.get_ydata()))


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: plots.embedding(LATENTS, dimensions=4), "dimensions: got 4"),
        (lambda: plots.embedding(LATENTS, "colour"), "by: got 'colour'"),
        (lambda: plots.embedding(LATENTS, [np.zeros(50), np.zeros(3)]), "by: got 2 trials"),
        (lambda: plots.mode_raster([np.zeros(3)]), "modes: wanted whole numbers"),
        (lambda: plots.transitions(np.ones((2, 3))), "matrix: got shape"),
        (lambda: plots.flow_field(LATENTS, LATENTS[0]), "predicted: got shape"),
        (lambda: plots.forecast([1, 2], interval=([1], [2])), "interval: got shape"),
        (lambda: plots.held_out_curve([{"step": 1, "loss": 2}]), "history: nothing was held out"),
        (lambda: plots.consistency(np.ones((1, 1))), "matrix: got shape"),
        (lambda: plots.consistency(np.eye(2), ["a"]), "names: got 1"),
        (lambda: plots.canonical_correlations([]), "values: got shape"),
        (lambda: plots.recovered([1, 2], {"DCL": [1]}), "aligned"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_cannot_be_drawn_is_refused_by_name(call, said):
    with pytest.raises(InputError, match=said):
        call()
