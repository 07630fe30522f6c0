"""Data frames, tensors and pynapple's objects go in, and results come out in their kind."""

import warnings

import numpy as np
import pytest
import torch
from sklearn.decomposition import PCA
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from dynacl import DCL, InputError, OnSteps, TimeSeries

T = 60
Y = np.cumsum(np.random.default_rng(0).standard_normal((T, 3)), axis=0)


def tiny(**changed):
    usual = {"n_components": 2, "max_iter": 2, "batch_size": 16, "random_state": 0,
             "device": "cpu"}  # fmt: skip
    return DCL(**(usual | changed))


@pytest.fixture(scope="module", autouse=True)
def quiet():
    """Fits of two steps say that they are bad; that is not the matter here."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="predictions of the training data|.*collapsed")
        yield


@pytest.fixture(scope="module")
def pandas():
    return pytest.importorskip("pandas", reason="pandas is not installed")


@pytest.fixture(scope="module")
def polars():
    return pytest.importorskip("polars", reason="polars is not installed")


@pytest.fixture(scope="module")
def model(pandas):
    """Fitted to a frame, with a window of three steps."""
    return tiny(dynamics="switching", n_modes=2, time_lags=(0, 2)).fit(dated(pandas))


def dated(pandas, n=T):
    days = pandas.date_range("2026-01-01", periods=n, freq="D")
    return pandas.DataFrame(Y[:n], columns=list("abc"), index=days)


def test_a_pandas_frame_comes_out_with_the_index_of_its_rows(pandas, model):
    frame = dated(pandas)
    z = model.transform(frame)
    assert isinstance(z, pandas.DataFrame)
    assert list(z.columns) == list(model.get_feature_names_out()) == ["dcl0", "dcl1"]
    assert z.index.equals(frame.index[2:])  # two steps have no full window
    assert model.transform(frame, pad=True).index.equals(frame.index)
    assert model.predict(frame).index.equals(frame.index[2:])
    modes = model.modes(frame)
    assert isinstance(modes, pandas.Series)
    assert modes.index.equals(frame.index[2:-1])  # it takes the next step to tell a mode
    with pytest.warns(UserWarning, match="X does not have valid feature names"):
        plain = model.transform(Y)
    np.testing.assert_array_equal(z.to_numpy(), plain)


def test_trials_in_frames_come_out_as_frames(pandas, model):
    trials = {"long": dated(pandas), "short": dated(pandas, 20)}
    found = model.transform(trials)
    assert list(found) == ["long", "short"]
    for name, frame in trials.items():
        assert found[name].index.equals(frame.index[2:])
    listed = model.transform(list(trials.values()))
    np.testing.assert_array_equal(listed[1].to_numpy(), found["short"].to_numpy())


def test_a_polars_frame_comes_out_as_one(polars, model):
    frame = polars.DataFrame({"a": Y[:, 0], "b": Y[:, 1], "c": Y[:, 2]})
    z = model.transform(frame)
    assert isinstance(z, polars.DataFrame)
    assert z.columns == ["dcl0", "dcl1"]
    assert z.shape == (T - 2, 2)


def test_times_come_from_an_index_or_a_column_of_dates(pandas, polars):
    frame = dated(pandas)
    np.testing.assert_array_equal(TimeSeries.of(frame).times, frame.index.to_numpy())
    table = polars.DataFrame({"when": frame.index.to_numpy(), "a": Y[:, 0]})
    with pytest.warns(UserWarning, match="column 'when' is taken for time, not for a feature"):
        series = TimeSeries.of(table)
    assert series.names == ("a",)
    np.testing.assert_array_equal(series.times, frame.index.to_numpy())
    seconds = TimeSeries.of(frame.set_index(0.5 * np.arange(T)))
    np.testing.assert_array_equal(seconds.times, 0.5 * np.arange(T))


def test_missing_values_of_a_frame_are_missing(pandas, polars):
    whole = [1, 2, None, 4, 5, 6]
    for frame in (
        pandas.DataFrame({"a": pandas.array(whole, dtype="Int64"), "b": np.arange(6.0)}),
        polars.DataFrame({"a": whole, "b": np.arange(6.0)}),
    ):
        with pytest.raises(InputError, match=r"at 1 of 6 steps, in feature 'a' \(first at step 2"):
            TimeSeries.of(frame)
        with pytest.warns(UserWarning, match="bridged"):
            series = TimeSeries.of(frame, missing="interpolate")
        assert series.observations[:, 0].tolist() == [1, 2, 3, 4, 5, 6]


def test_text_in_a_frame_is_refused_by_name_and_taken_as_labels(polars):
    frame = polars.DataFrame({"a": Y[:, 0], "action": ["rest"] * T})
    with pytest.raises(InputError, match="column 'action' holds String; wanted numbers"):
        TimeSeries.of(frame)
    series = TimeSeries.of(frame[["a"]], labels=frame[["action"]])
    assert series.labels["action"].tolist() == ["rest"] * T


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        (["b", "a", "c"], "Feature names must be in the same order as they were in fit"),
        (["a", "b", "z"], "Feature names unseen at fit time:\n- z"),
    ],
)
def test_columns_that_are_not_those_of_the_fit_are_an_error(pandas, model, columns, said):
    frame = pandas.DataFrame(Y, columns=columns)
    with pytest.raises(InputError, match=said):
        model.transform(frame)
    with pytest.raises(InputError, match="its columns are not those of"):
        TimeSeries.of([dated(pandas), frame])


def test_a_saved_model_knows_the_names_of_its_columns(pandas, model, tmp_path):
    model.save(tmp_path / "run")
    loaded = DCL.load(tmp_path / "run", device="cpu")
    assert loaded.feature_names_in_.tolist() == ["a", "b", "c"]
    with pytest.raises(InputError, match="in the same order"):
        loaded.transform(dated(pandas)[["c", "b", "a"]])


def test_columns_of_the_control_input_keep_their_names_and_order(pandas, tmp_path):
    u = pandas.DataFrame(np.random.default_rng(1).normal(size=(T, 2)), columns=["push", "pull"])
    series = TimeSeries.of(Y, u)
    assert series.control_names == ("push", "pull")
    series.write(tmp_path / "driven.npz")
    assert TimeSeries.read(tmp_path / "driven.npz").control_names == ("push", "pull")
    tiny().fit(Y, u=u).save(tmp_path / "run")
    loaded = DCL.load(tmp_path / "run", device="cpu")
    other = u[["pull", "push"]]
    for use in (
        lambda: loaded.predict(Y, u=other),
        lambda: loaded.forecast(Y, 3, u=other[:3]),
    ):
        with pytest.raises(InputError, match="u: its columns are pull, push; this model was fitted "
                                             "with push, pull"):  # fmt: skip
            use()
    np.testing.assert_array_equal(loaded.predict(Y, u=u), loaded.predict(Y, u=u.to_numpy()))


def test_names_pass_the_check_of_scikit_learn(pandas):
    from sklearn.utils.estimator_checks import check_dataframe_column_names_consistency

    check_dataframe_column_names_consistency("DCL", tiny())


def test_set_output_decides_for_arrays_frames_and_trials(pandas, polars, model):
    frame = dated(pandas)
    try:
        model.set_output(transform="polars")
        assert isinstance(model.transform(frame), polars.DataFrame)
        model.set_output(transform="pandas")
        assert model.transform(frame).index.equals(frame.index[2:])
        trials = model.transform(TimeSeries.of([frame, frame]))
        assert [type(z) for z in trials] == [pandas.DataFrame] * 2
    finally:
        model.set_output(transform="default")


def test_tensors_come_out_as_tensors_with_gradients_or_without(model):
    tracked = torch.tensor(Y, requires_grad=True)
    fitted = tiny().fit(tracked)
    z = fitted.transform([tracked, tracked.detach()[:30]])
    assert [type(x) for x in z] == [torch.Tensor] * 2
    np.testing.assert_array_equal(z[0].numpy(), fitted.transform(Y))
    assert TimeSeries.of(Y, u=tracked).n_controls == 3


@pytest.mark.long  # pynapple takes seconds to import
def test_epochs_of_pynapple_are_trials():
    nap = pytest.importorskip("pynapple", reason="pynapple is not installed")
    epochs = nap.IntervalSet(start=[0, 30], end=[20, 59])
    frame = nap.TsdFrame(t=np.arange(T), d=Y, columns=["a", "b", "c"]).restrict(epochs)
    series = TimeSeries.of(frame)
    assert series.lengths.tolist() == [21, 30]
    assert series.names == ("a", "b", "c")
    fitted = tiny(dynamics="switching", n_modes=2, time_lags=(0, 1)).fit(frame)
    z = fitted.transform(frame)
    assert isinstance(z, nap.TsdFrame)
    assert z.t.tolist() == [*range(1, 21), *range(31, 60)]
    np.testing.assert_array_equal(z.time_support.values, epochs.values)
    trials = fitted.transform(TimeSeries.of([Y[:21], Y[30:]]))
    np.testing.assert_array_equal(z.d, np.concatenate(trials))
    assert isinstance(fitted.modes(frame), nap.Tsd)


# -- with scikit-learn and iTuna ---------------------------------------------------------------


def test_trials_go_through_a_pipeline_and_keep_their_bounds():
    trials = [5 + 3 * Y[:25], 5 + 3 * Y[25:]]
    whole = make_pipeline(OnSteps(StandardScaler()), OnSteps(PCA(2)), tiny())
    z = whole.fit(trials).transform(trials)
    assert [len(x) for x in z] == [25, 35]
    before = whole[:-1].transform(trials)
    by_hand = PCA(2).fit_transform(StandardScaler().fit_transform(np.concatenate(trials)))
    np.testing.assert_allclose(np.concatenate(before), by_hand, rtol=1e-4, atol=1e-4)
    alone = tiny().fit(before).transform(before)
    for found, wanted in zip(z, alone, strict=True):
        np.testing.assert_array_equal(found, wanted)


def test_a_series_keeps_what_it_carries_through_a_pipeline():
    series = TimeSeries.of([Y[:25], Y[25:]], u=Y[:, :1], labels=np.arange(T))
    found = OnSteps(StandardScaler()).fit(series).transform(series)
    np.testing.assert_array_equal(found.control, series.control)
    np.testing.assert_array_equal(found.labels["label"], np.arange(T))
    np.testing.assert_allclose(found.observations.mean(0), 0, atol=1e-6)


def test_ituna_measures_the_consistency_of_models():
    with warnings.catch_warnings(action="ignore"):
        ituna = pytest.importorskip("ituna", reason="iTuna is not installed")
    angle = 0.2 * np.arange(400)
    turning = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    noisy = turning @ np.random.default_rng(1).standard_normal((2, 4))
    made = ituna.metrics.PairwiseConsistency(indeterminacy=ituna.metrics.Affine())
    models = ituna.ConsistencyEnsemble(tiny(max_iter=5), made, random_states=2)
    models.fit(noisy)
    assert [m.random_state for m in models.estimators_] == models._random_states
    assert models.score(noisy) > 0.9  # both see the plane that the data turn in
    assert np.shape(models.transform(noisy)) == (400, 2)
