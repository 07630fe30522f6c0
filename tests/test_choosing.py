"""Choosing: what is held out, what it tells, and the simplest choice that is not clearly behind."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from dynacl import InputError, TimeSeries, plots
from dynacl.choosing.folds import HELD, fold, span, steps_ahead
from dynacl.choosing.judged import Judged, decibels, together
from dynacl.choosing.rule import NOTHING, Selection, select_among
from dynacl.parameters import PARAMETERS

GIVEN = {name: p.default for name, p in PARAMETERS.items()}


def counted(*lengths):
    """Trials whose rows are numbered through, with a gap between two trials."""
    starts = np.cumsum([0, *[n + 10_000 for n in lengths]])
    return TimeSeries.of([np.arange(a, a + n, dtype=float)[:, None]
                          for a, n in zip(starts, lengths, strict=False)])  # fmt: skip


def rows(series):
    return set(series.given().ravel().astype(int).tolist())


@pytest.mark.parametrize("lengths", [[30] * 25, [900], [400, 150, 700]], ids=["many", "one", "few"])
def test_what_is_held_out_is_never_near_what_is_trained_on(lengths):
    series = counted(*lengths)
    folds = [fold(series, k, 5) for k in range(HELD)]
    for seen, held in folds:
        assert not rows(seen) & rows(held)
        if len(lengths) < 20:  # pieces of one trial: predictions must not reach over
            assert min(abs(a - b) for a in rows(held) for b in rows(seen)) > 5
    assert not any(rows(a[1]) & rows(b[1]) for a, b in pairwise(folds))


def test_whole_trials_are_all_held_out_once():
    series = counted(*[30] * 25)
    assert set.union(*(rows(fold(series, k, 5)[1]) for k in range(HELD))) == rows(series)


def test_data_that_are_too_short_to_choose_by_are_refused():
    with pytest.raises(InputError, match="X: has 60 samples in 1 trials; wanted at least 5 pieces"):
        fold(counted(60), 0, 5)


@pytest.mark.parametrize("length", [8, 60, 100, 850])
@pytest.mark.parametrize("lags", [(0,), (0, 1, 2)])
def test_predictions_have_room_in_what_is_held_out(length, lags, turning):
    series = TimeSeries.of(turning(20 * length), trial_length=length)
    given = GIVEN | {"time_lags": lags}
    ahead = steps_ahead(series, given)
    held = fold(series, 0, span(given, ahead))[1]
    assert len(held.steps(max(ahead), max(lags) + 1, allow_short=True)) > 0
    one = TimeSeries.of(series.observations)
    ahead = steps_ahead(one, given)
    held = fold(one, 0, span(given, ahead))[1]
    assert len(held.steps(max(ahead), max(lags) + 1)) > 0


def test_an_asymmetric_model_is_judged_one_step_ahead(turning):
    assert steps_ahead(TimeSeries.of(turning(500)), GIVEN | {"asymmetric": True}) == (1,)


def test_decibels_are_the_ratio_of_predicted_to_missed():
    assert decibels([0.5]) == pytest.approx(0)
    assert decibels([1 / 11, 1 / 101]) == pytest.approx(15)  # 10 and 20
    assert decibels([0.0]) == pytest.approx(60, abs=1e-3)
    assert decibels([7.0]) == decibels([1.0]) == pytest.approx(-30, abs=1e-2)


def made(missed, d=1, spread=0.0, groups=20, **choice):
    """A choice that misses this share at two horizons, more in some groups than in others."""
    factor = 1 + spread * np.linspace(-1, 1, groups)
    share = np.outer(factor, np.broadcast_to(missed, 2))
    choice = {"n_components": d} | choice
    return Judged(choice, (d, d * d), (1, 10), np.full(groups, 7), {"model": 7 * share})


def test_the_standard_error_is_that_of_leaving_out_groups_one_at_a_time():
    one = made(0.2, spread=0.9)
    left_out = [
        decibels(np.delete(one.missed["model"], i, 0).sum(0) / np.delete(one.counts, i).sum())
        for i in range(20)
    ]
    variance = 19 / 20 * np.square(np.array(left_out) - np.mean(left_out)).sum()
    assert one.error() == pytest.approx(variance**0.5, rel=1e-9)
    assert one.by_group().mean() == pytest.approx(one.decibels(), rel=1e-12)
    assert made(0.2).error() == pytest.approx(0, abs=1e-9)


def test_folds_of_a_choice_are_judged_as_one():
    both = together([made(0.1, groups=6), made(0.3, groups=6)], score=2.0)
    assert both.share() == pytest.approx([0.2, 0.2])
    assert len(both.counts) == 12
    assert both.about == {"score": 2.0}


@pytest.mark.parametrize(
    ("missed", "expected"),
    [
        ((0.9, 0.4, 0.01, 0.009, 0.0085), 2),  # leaps, then creeps
        ((0.99, 0.96, 0.9595, 0.959), 1),  # the same, where most is noise
        ((0.01, 0.0001), 1),  # nearly all was predicted already, but a hundred times less is missed
        ((0.3, 0.2, 0.1, 0.05), 3),
    ],
)
def test_the_simplest_choice_that_is_not_clearly_behind_is_taken(missed, expected):
    tried = [made(share, d) for d, share in enumerate(missed)]
    found = select_among(tried[::-1])  # in whatever order
    assert found.recommended == expected
    assert found.parameters == {"n_components": expected}
    assert [row.choice["n_components"] for row in found.rows] == list(range(len(missed)))


def test_where_groups_differ_much_the_standard_error_decides():
    """Within a decibel and a half, and the error of the best is more than that."""
    tried = [made(0.25, 1, spread=0.99, groups=4), made(0.19, 2, spread=0.99, groups=4)]
    assert 1 < tried[1].decibels() - tried[0].decibels() < tried[1].error()
    assert select_among(tried).recommended == 0
    assert select_among([made(0.25, 1), made(0.19, 2)]).recommended == 1


def test_of_equal_latents_the_dynamics_with_fewer_numbers_is_the_simpler():
    linear = made(0.1, 2, dynamics="linear")
    switching = replace(made(0.1, 2, dynamics="switching"), size=(2, 20))
    assert select_among([switching, linear]).parameters["dynamics"] == "linear"


def test_nothing_is_recommended_where_nothing_is_predicted():
    found = select_among([made(1.01, 1, spread=0.05), made(0.9995, 2, spread=0.05)])
    assert found.recommended is None
    assert found.reason.startswith(NOTHING)
    with pytest.raises(InputError, match=NOTHING):
        _ = found.parameters
    assert select_among([made(0.98, 1, spread=0.05)]).recommended == 0


def test_a_choice_no_better_than_persistence_says_so():
    one = made(0.1)
    one = replace(one, missed={**one.missed, "persistence": one.missed["model"]})
    assert "not clearly better than persistence" in select_among([one]).reason


def test_a_selection_comes_back_from_json_as_it_was():
    found = select_among([made(0.5, 1), made(0.1, 2)])
    assert Selection.read(found.plain()) == found
    assert "> n_components=2" in str(found)


def test_the_picture_rings_what_is_recommended():
    found = select_among([made(share, d, dynamics="linear") for d, share in ((1, 0.5), (2, 0.1))])
    drawn = {line.get_label(): line for line in plots.selection(found).lines}
    assert drawn["recommended"].get_xdata().tolist() == [2]
    assert drawn["recommended"].get_ydata().tolist() == [found.rows[1].decibels]
    with pytest.raises(InputError, match="wanted choices of n_components"):
        plots.selection(select_among([replace(made(0.5), choice={"dynamics": "linear"})]))


def test_the_picture_is_over_modes_where_only_these_differ():
    kinds = [{"dynamics": "linear"}, *({"dynamics": "switching", "n_modes": k} for k in (6, 4, 5))]
    tried = [replace(made(0.5 / k.get("n_modes", 1), 3), choice={"n_components": 3} | k)
             for k in kinds]  # fmt: skip
    ax = plots.selection(select_among(tried))
    assert ax.get_xlabel() == "modes"
    assert ax.get_xticks().tolist() == [1, 4, 5, 6]
    curves = {c.get_label(): c.lines[0].get_xdata() for c in ax.containers}
    assert {name: list(x) for name, x in curves.items()} == {"linear": [1], "switching": [4, 5, 6]}
    both = [replace(one, choice=one.choice | {"n_components": 4}) for one in tried]
    assert plots.selection(select_among([*tried, *both])).get_xlabel() == "latents"


def test_the_band_of_the_picture_is_what_the_rule_takes_for_no_gain():
    found = select_among(
        [made(0.25, 1, spread=0.99, groups=4), made(0.19, 2, spread=0.99, groups=4)]
    )
    (band,) = plots.selection(found).patches
    top = found.rows[1].decibels
    assert [band.get_y(), band.get_y() + band.get_height()] == pytest.approx(
        [top - found.rows[1].error, top]
    )
