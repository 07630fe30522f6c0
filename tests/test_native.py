"""The C kernel against the same sums in float64, term by term."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import Tensor

from dynacl.objective import compiling, native

pytestmark = pytest.mark.skipif(not native.available(), reason="no C compiler, or switched off")

DIMENSIONS = [1, 2, 3, 5, 6, 8, 13, 16, 32, 64, 128]
SHAPES = [(1, 1), (3, 7), (17, 1001), (130, 4099)]


def brute_force(
    q: Tensor,
    k: Tensor,
    bias: Tensor | None = None,
    skip: Tensor | None = None,
    scale: float = 1.0,
) -> Tensor:
    q, k = q.double(), k.double()
    # In float64 the expansion loses nothing that matters here: 1e-6 of a logit at scale 1e4.
    logits = scale * (2 * q @ k.T - q.square().sum(1)[:, None] - k.square().sum(1))
    if bias is not None:
        logits = logits + bias.double()
    if skip is not None:
        left_out = torch.zeros(len(q), len(k), dtype=torch.bool)
        for i, columns in enumerate(skip.tolist()):
            left_out[i, [j for j in columns if j >= 0]] = True
        logits = logits.masked_fill(left_out, -torch.inf)
    return logits.logsumexp(1)


def draw(rows: int, keys: int, d: int, scale: float = 1.0, seed: int = 0) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    q = scale * torch.randn(rows, d, generator=generator)
    return q, scale * torch.randn(keys, d, generator=generator)


def assert_equals_brute_force(
    q: Tensor,
    k: Tensor,
    bias: Tensor | None = None,
    skip: Tensor | None = None,
    scale: float = 1.0,
    atol: float = 0.0,
) -> None:
    def run(row_lse: object) -> tuple[Tensor, list[Tensor]]:
        given = [None if x is None else x.clone().requires_grad_() for x in (q, k, bias)]
        loss = row_lse(*given, skip, scale).mean()  # type: ignore[operator]
        wanted = [x for x in given if x is not None]
        return loss.detach(), list(torch.autograd.grad(loss, wanted))

    loss, gradients = run(native.row_lse)
    true_loss, true_gradients = run(brute_force)
    assert loss.dtype == torch.float32
    torch.testing.assert_close(loss.double(), true_loss, rtol=1e-5, atol=1e-6)
    for got, true in zip(gradients, true_gradients, strict=True):
        largest = true.abs().max()
        assert (got - true).abs().max() <= 1e-4 * largest + atol


@pytest.mark.parametrize("d", DIMENSIONS)
@pytest.mark.parametrize(("rows", "keys"), SHAPES)
def test_loss_and_gradients_equal_float64_in_every_shape(rows: int, keys: int, d: int) -> None:
    q, k = draw(rows, keys, d)
    assert_equals_brute_force(q, k)


@pytest.mark.parametrize("offset", [10.0, 1e3])
@pytest.mark.parametrize("d", [3, 6, 13])
def test_a_common_offset_changes_nothing(offset: float, d: int) -> None:
    q, k = draw(130, 4099, d)
    assert_equals_brute_force(q + offset, k + offset)


@pytest.mark.parametrize("d", [3, 13])
def test_small_differences_in_a_wide_cloud_keep_their_gradient(d: int) -> None:
    # ‖q‖² − 2qk + ‖k‖² would do for the logits here, but q Σp − Σpk would be all rounding.
    q, _ = draw(300, 1, d, 3.0)
    k = q + 1e-4 * draw(300, 1, d, seed=1)[0]
    assert_equals_brute_force(q, k, scale=4.0)


@pytest.mark.parametrize("scale", [1e-3, 1e-2, 0.1, 1.0, 10.0, 100.0, 1e3, 1e4])
@pytest.mark.parametrize("d", [1, 3, 6, 13, 64])
def test_loss_and_gradients_equal_float64_at_every_embedding_scale(scale: float, d: int) -> None:
    q, k = draw(130, 1001, d, scale)
    assert_equals_brute_force(q, k)


@pytest.mark.parametrize("d", [1, 3, 6, 13, 64])
@pytest.mark.parametrize("options", ["bias", "skip", "bias skip"])
def test_bias_and_skip_mean_what_they_say(options: str, d: int) -> None:
    rows, keys = 67, 333
    q, k = draw(rows, keys, d)
    generator = torch.Generator().manual_seed(1)
    skip = torch.randint(-1, keys, (rows, 5), generator=generator)
    skip[:, 1] = skip[:, 0]  # named twice, left out once
    skip[:, 2] = -1
    assert_equals_brute_force(
        q,
        k,
        3 * torch.randn(keys, generator=generator) if "bias" in options else None,
        skip if "skip" in options else None,
        scale=0.7,
        atol=1e-12,
    )


@pytest.mark.parametrize("scale", [1.0, 100.0, 1e4])
@pytest.mark.parametrize("d", [3, 6, 13])
def test_a_near_key_among_far_ones_keeps_its_gradient(scale: float, d: int) -> None:
    # Where training ends: embeddings of scale 1e4, the right key at distance ~1.
    q, _ = draw(100, 1, d, scale)
    _, far = draw(1, 900, d, scale, seed=1)
    near = q + 0.5 * torch.randn(q.shape, generator=torch.Generator().manual_seed(2))
    assert_equals_brute_force(q, torch.cat([far, near]))


@pytest.mark.parametrize("d", [3, 13])
def test_leaving_out_the_dominant_key_does_not_cancel(d: int) -> None:
    q, k = draw(50, 400, d, 10.0)
    k[:50] = q
    assert_equals_brute_force(q, k, skip=torch.arange(50)[:, None])


@pytest.mark.parametrize("value", [0.0, 1.0, 1e4])
def test_equal_embeddings_give_log_of_their_number_and_no_gradient(value: float) -> None:
    q = torch.full((20, 6), value, requires_grad=True)
    k = torch.full((100, 6), value, requires_grad=True)
    lse = native.row_lse(q, k)
    torch.testing.assert_close(lse, torch.full((20,), 100.0).log())
    lse.sum().backward()
    assert q.grad is not None
    assert k.grad is not None
    assert not q.grad.any()
    assert not k.grad.any()


def test_the_largest_key_counts_wherever_it_stands() -> None:
    for at in (0, 7, 8, 135, 136, 500):  # the ends of the kernel's tiles among them
        q, k = draw(19, 501, 3)
        k += 60  # every other term is below the smallest float32
        k[at] = 0.1
        assert_equals_brute_force(q, k)
        far = draw(19, 501, 3, 3000.0)[1]
        far[at] = 0.1
        assert_equals_brute_force(q, far)


def test_every_row_has_its_own_upstream_gradient() -> None:
    for d in (6, 13):
        q, k = (x.requires_grad_() for x in draw(33, 257, d))
        bias = torch.zeros(257, requires_grad=True)
        upstream = torch.linspace(-2, 3, 33)
        got = torch.autograd.grad(native.row_lse(q, k, bias), (q, k, bias), upstream)
        lse = brute_force(q, k, bias)
        for a, b in zip(
            got, torch.autograd.grad(lse, (q, k, bias), upstream.double()), strict=True
        ):
            torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5)


def test_only_the_gradients_asked_for_are_given() -> None:
    q, k = draw(5, 40, 3)
    bias = torch.zeros(40, requires_grad=True)
    native.row_lse(q, k, bias).mean().backward()
    torch.testing.assert_close(bias.grad.sum(), torch.tensor(1.0))
    assert not native.row_lse(q, k).requires_grad
    with torch.no_grad():
        assert not native.row_lse(q, k, bias).requires_grad


def test_a_row_that_skips_everything_is_empty() -> None:
    q, k = draw(3, 4, 2)
    q.requires_grad_()
    skip = torch.tensor([[0, 1, 2, 3], [-1, -1, -1, -1], [3, 2, 1, -1]])
    lse = native.row_lse(q, k, skip=skip)
    assert lse[0] == -torch.inf
    torch.testing.assert_close(lse[1:], brute_force(q, k, skip=skip)[1:].float())
    assert torch.isfinite(torch.autograd.grad(lse[1:].sum(), q)[0]).all()


@pytest.mark.parametrize("where", ["q", "k"])
@pytest.mark.parametrize("d", [3, 13])
def test_nan_does_not_go_unseen(where: str, d: int) -> None:
    q, k = draw(20, 300, d)
    (q if where == "q" else k)[11, 1] = torch.nan
    assert native.row_lse(q, k).isnan().any()


def test_non_contiguous_inputs_give_the_same() -> None:
    q, k = draw(40, 500, 6)
    bias = torch.randn(500)
    wide_q, wide_k = torch.zeros(40, 12), torch.zeros(6, 500)
    wide_q[:, ::2], wide_k[:] = q, k.T
    got = native.row_lse(wide_q[:, ::2], wide_k.T, torch.stack([bias, bias], 1)[:, 0])
    assert torch.equal(got, native.row_lse(q, k, bias))


@pytest.mark.parametrize("d", [6, 13])
def test_the_result_depends_neither_on_the_run_nor_on_the_number_of_threads(d: int) -> None:
    q, k = draw(130, 4099, d)

    def run() -> list[Tensor]:
        leaves = [x.clone().requires_grad_() for x in (q, k)]
        loss = native.row_lse(*leaves, skip=torch.arange(130)[:, None]).mean()
        return [loss.detach(), *torch.autograd.grad(loss, leaves)]

    before = torch.get_num_threads()
    try:
        results = []
        for threads in (1, 2, 2, 3):
            torch.set_num_threads(threads)
            results.append(run())
    finally:
        torch.set_num_threads(before)
    for other in results[1:]:
        for a, b in zip(results[0], other, strict=True):
            assert torch.equal(a, b)


def test_wrong_sizes_are_refused_before_the_kernel_sees_them() -> None:
    q, k = draw(4, 9, 3)
    with pytest.raises(ValueError, match="k has shape"):
        native.row_lse(q, k[:, :2])
    with pytest.raises(ValueError, match="bias has shape"):
        native.row_lse(q, k, torch.zeros(8))
    with pytest.raises(IndexError, match="9 keys"):
        native.row_lse(q, k, skip=torch.full((4, 1), 9))


def test_only_float32_on_the_cpu_is_supported() -> None:
    q, k = draw(4, 9, 3)
    assert native.supports(q, k)
    assert not native.supports(q.double(), k)
    assert not native.supports(q, k.to("meta"))
    assert not native.supports(q, k[:0])


def in_a_new_process(**environment: str) -> tuple[bool, str]:
    """Whether the kernel is available there, asked twice, and what is said about it."""
    code = "from dynacl.objective import native; print(native.available() and native.available())"
    source = str(Path(native.__file__).parents[2])
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": source, **environment},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.strip() == "True", done.stderr


def test_it_can_be_switched_off_silently() -> None:
    assert in_a_new_process(DYNACL_NATIVE="0") == (False, "")


def test_without_a_compiler_it_steps_aside_and_says_so_once(tmp_path: Path) -> None:
    there, said = in_a_new_process(PATH=str(tmp_path), XDG_CACHE_HOME=str(tmp_path))
    assert not there
    assert said.count("no compiled kernel: no C compiler found") == 1


def test_a_home_that_cannot_be_written_to_is_no_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "file" / "home"))
    assert compiling._cache_folder() is None


def test_a_user_whom_the_system_does_not_know_has_no_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr(compiling.Path, "home", unknown)
    assert compiling._cache_folder() is None


@pytest.mark.parametrize("damage", ["cut", "emptied", "changed"])
def test_a_damaged_file_in_the_cache_is_not_loaded_but_removed(tmp_path: Path, damage: str) -> None:
    """To load one that was cut would end the process by a signal."""
    good = bytes(range(256))
    path = tmp_path / f"made-{compiling._hash(good)}.so"
    path.write_bytes(good)
    assert compiling._kept(tmp_path, "made") == path
    assert compiling._kept(tmp_path, "other") is None
    bad = {"cut": good[:100], "emptied": b"", "changed": b"\1" + good[1:]}[damage]
    path.write_bytes(bad)
    assert compiling._kept(tmp_path, "made") is None
    assert not path.exists()


def test_a_broken_compiler_is_no_compiler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "cc").write_text("#!/bin/sh\nexit 1\n")
    (tmp_path / "cc").chmod(0o700)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with pytest.warns(UserWarning, match="no compiled kernel: "):
        assert native._checked_kernel.__wrapped__() is None


def test_a_cache_that_cannot_be_written_does_no_harm(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    assert native._checked_kernel.__wrapped__() is not None


def test_the_cache_is_private_and_holds_one_file_that_is_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert native._checked_kernel.__wrapped__() is not None
    assert native._checked_kernel.__wrapped__() is not None
    assert (tmp_path / "dynacl").stat().st_mode & 0o777 == 0o700
    (kept,) = (tmp_path / "dynacl").iterdir()
    whole = kept.read_bytes()
    assert kept.name.endswith(f"-{compiling._hash(whole)}.so")
    kept.unlink()  # not cut in place: this process has it in memory
    kept.write_bytes(whole[: len(whole) // 2])
    assert native._checked_kernel.__wrapped__() is not None  # compiled again
    (again,) = (tmp_path / "dynacl").iterdir()
    assert again.name.endswith(f"-{compiling._hash(again.read_bytes())}.so")
