"""Row-wise log-sum-exp of negative squared distances, by a C kernel compiled at first use.

    s_ij = b_j − c ‖q_i − k_j‖²,  lse_i = log Σ_j exp s_ij,  p_ij = exp(s_ij − lse_i)
    ∂lse_i/∂q_i = −2c Σ_j p_ij (q_i − k_j),  ∂lse_i/∂k_j = 2c p_ij (q_i − k_j),  ∂lse_i/∂b_j = p_ij

Same functions as reference.py, float32 on the CPU only. Where it cannot be compiled (`compiling`)
or disagrees with PyTorch, `available()` is False and says so once: reference.py is slower, and
rounds otherwise. `DYNACL_NATIVE=0` switches it off.
"""

from __future__ import annotations

import ctypes
import logging
import math
import os
import subprocess
import warnings
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from dynacl.objective import compiling

_LOG2E = 1 / math.log(2)
# Points within this squared distance of their centre (times scale, as a power of 2) may use
# ‖q‖² − 2qk + ‖k‖²: logits are then off by 5e-5 at most.
_EXPANDABLE = 256.0
_WORTH_A_LOOK = 1 << 16  # pairs; below, finding out costs more than it gains

_log = logging.getLogger(__name__)


def available() -> bool:
    """Whether the kernel is compiled, loaded and agrees with PyTorch; found out once."""
    return _kernel() is not None


def supports(*tensors: Tensor) -> bool:
    """Whether the functions here may be called with these tensors (embeddings, bias)."""
    fit = all(x.dtype == torch.float32 and x.device.type == "cpu" and x.numel() for x in tensors)
    return fit and available()


def row_lse(
    q: Tensor, k: Tensor, bias: Tensor | None = None, skip: Tensor | None = None, scale: float = 1.0
) -> Tensor:
    """log Σ_j exp(bias_j − scale ‖q_i − k_j‖²) for each row i, over the j not in skip_i; (B,)."""
    rows, d = q.shape
    # The kernel trusts these sizes with its life.
    for name, x, shape in (
        ("k", k, (len(k), d)),
        ("bias", bias, (len(k),)),
        ("skip", skip, (rows, -1 if skip is None else skip.shape[-1])),
    ):
        if x is not None and x.shape != shape:
            raise ValueError(f"{name} has shape {tuple(x.shape)}; wanted {shape}")
    gradient = torch.is_grad_enabled() and q.requires_grad
    out: Tensor = _RowLse.apply(q, k, bias, skip, scale, gradient)  # type: ignore[no-untyped-call]
    return out


class _RowLse(torch.autograd.Function):
    """The forward pass gives the query gradient for free; keys and bias take a second pass."""

    @staticmethod
    def forward(
        ctx: Any,
        q: Tensor,
        k: Tensor,
        bias: Tensor | None,
        skip: Tensor | None,
        scale: float,
        gradient: bool,
    ) -> Tensor:
        skip = None if skip is None else skip.to("cpu", torch.int64).contiguous()
        lse, reference, total = (q.new_empty(len(q)) for _ in range(3))
        grad_q = torch.empty_like(q, memory_format=torch.contiguous_format) if gradient else None
        for points in _forms(q, k, bias, scale):
            out = [lse, reference, total, grad_q]
            _call("rows", points, skip, scale, [points.row_term, *out])
            if grad_q is None or grad_q.abs().max() >= points.doubtful:
                break
        ctx.points, ctx.skip, ctx.scale = points, skip, scale
        ctx.save_for_backward(reference, total, grad_q)
        return lse

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, upstream: Tensor) -> tuple[Tensor | None, ...]:
        reference, total, grad_q = ctx.saved_tensors
        points: _Points = ctx.points
        need_q, need_k, need_bias = ctx.needs_input_grad[:3]
        grad_k = grad_bias = None
        if need_k or need_bias:
            grad_k, grad_bias = torch.empty_like(points.k), torch.empty_like(points.key_term)
            weight = torch.where(total > 0, upstream / total, 0.0)
            row_term = points.row_term - reference
            _call("keys", points, ctx.skip, ctx.scale, [row_term, weight, grad_k, grad_bias])
        return (
            upstream[:, None] * grad_q if need_q else None,
            grad_k,
            grad_bias if need_bias else None,
            None,
            None,
            None,
        )


class _Points(NamedTuple):
    """What the kernel reads: a pair's logit, as a power of 2, is key_term + row_term + f(q, k).

    f = −c ‖q − k‖², or, where `expanded`, 2c q·k, the squared norms being in the terms.
    """

    q: Tensor
    k: Tensor
    key_term: Tensor
    row_term: Tensor
    expanded: bool
    doubtful: float  # a gradient below this is mostly rounding


def _forms(q: Tensor, k: Tensor, bias: Tensor | None, scale: float) -> Iterator[_Points]:
    """The expanded form if it may be accurate enough, then the exact one."""
    q, k = q.contiguous(), k.contiguous()
    bias = None if bias is None else (bias * _LOG2E).contiguous()
    if len(q) * len(k) >= _WORTH_A_LOOK:
        # Not by a handful of torch operations: on a busy machine each waits for its threads.
        kernel, n, d = _kernel(), ctypes.c_int64, ctypes.c_int64(k.shape[1])
        assert kernel is not None
        centre = k.new_empty(k.shape[1])
        kernel.dynacl_mean(n(len(k)), d, _pointer(k), _pointer(centre))
        c, largest = ctypes.c_float(scale * _LOG2E), 0.0
        near_q, row_term = torch.empty_like(q), q.new_empty(len(q))
        near_k, key_term = torch.empty_like(k), k.new_empty(len(k))
        for x, b, near, term in ((q, None, near_q, row_term), (k, bias, near_k, key_term)):
            pointers = map(_pointer, (x, centre, b, near, term))
            largest = max(kernel.dynacl_centre(n(len(x)), d, c, *pointers), largest)
        if scale * _LOG2E * largest <= _EXPANDABLE:
            # float32 rounds q Σp − Σpk to about 2e-7 of the largest norm; 1e-4 is wanted.
            doubtful = 2 * scale * 5e-3 * largest**0.5
            yield _Points(near_q, near_k, key_term, row_term, True, doubtful)
    key_term = k.new_zeros(len(k)) if bias is None else bias
    yield _Points(q, k, key_term, q.new_zeros(len(q)), False, 0.0)


def _pointer(x: Tensor | None) -> ctypes.c_void_p | None:
    return None if x is None else ctypes.c_void_p(x.data_ptr())


def _call(
    side: str, points: _Points, skip: Tensor | None, scale: float, rest: list[Tensor | None]
) -> None:
    kernel = _kernel()
    assert kernel is not None
    q, k, key_term = points.q, points.k, points.key_term
    status = getattr(kernel, f"dynacl_{side}")(
        *map(ctypes.c_int64, (*q.shape, len(k))),
        ctypes.c_int(points.expanded),
        ctypes.c_float(scale * _LOG2E),
        ctypes.c_int64(0 if skip is None else skip.shape[1]),
        *map(_pointer, (skip, q, k, key_term, *rest)),
        _parallel(),
        ctypes.c_int(torch.get_num_threads()),
    )
    if status == -1:
        raise MemoryError("no memory for the index of skipped pairs")
    if status == -2:
        raise IndexError(f"skip names a column beyond the last of {len(k)} keys")


@cache
def _parallel() -> ctypes.c_void_p | None:
    """`GOMP_parallel` of the OpenMP runtime that torch itself is linked to; None: one thread.

    A second runtime in the process would bring a second pool of spinning threads.
    """
    try:
        torch_library = ctypes.CDLL(str(Path(torch.__file__).parent / "lib" / "libtorch_cpu.so"))
        return ctypes.cast(torch_library.GOMP_parallel, ctypes.c_void_p)
    except (OSError, AttributeError) as reason:
        _log.debug("kernel runs on one thread: %s", reason)
        return None


# Set while the kernel is being checked, as the check goes through the functions above.
_candidate: ctypes.CDLL | None = None


def _kernel() -> ctypes.CDLL | None:
    return _candidate or _checked_kernel()


@cache
def _checked_kernel() -> ctypes.CDLL | None:
    global _candidate
    if os.environ.get("DYNACL_NATIVE", "1") == "0":
        return None
    try:
        _candidate = compiling.load()
        _candidate.dynacl_centre.restype = ctypes.c_float
        if _agrees_with_torch():
            return _candidate
        reason = "it disagrees with PyTorch"
    except (OSError, subprocess.SubprocessError, RuntimeError, AttributeError) as error:
        reason = str(error).splitlines()[0]
    finally:
        _candidate = None
    warnings.warn(f"no compiled kernel: {reason}. The loss is computed by PyTorch, which is slower "
                  "and differs in the last digits; DYNACL_NATIVE=0 says that this is meant",
                  stacklevel=2)  # fmt: skip
    return None


def _agrees_with_torch() -> bool:
    generator = torch.Generator().manual_seed(0)
    for d in (3, 11):
        q = torch.randn(37, d, generator=generator).requires_grad_()
        k = torch.randn(301, d, generator=generator).requires_grad_()
        with torch.enable_grad():
            wanted = (-(q.double()[:, None] - k.double()).square().sum(2)).logsumexp(1)
            wanted_grad = torch.autograd.grad(wanted.mean(), (q, k))
            got = row_lse(q, k)
            got_grad = torch.autograd.grad(got.mean(), (q, k))
        pairs = [(got, wanted.float()), *zip(got_grad, wanted_grad, strict=True)]
        if not all(torch.allclose(a, b, rtol=1e-4, atol=1e-5) for a, b in pairs):
            return False
    return True
