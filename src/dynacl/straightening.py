"""The last step of a flow: its latents are straightened, by what can be seen at a coarse scale.

Latents of a trained flow may be a smooth redrawing of the state: precise, but bent. The likelihood
does not leave it, as it counts every error of the encoder, and those at its kinks outweigh the
bend. A redrawing ψ of few coefficients sees averages over all of them. It minimises, over places
where noise was seen (`local_noise`), how uneven the noise is under the slopes of ψ (`evenness`),
and beside it

    ½ log det (E[r rᵀ] / (E|ψ' v|²/d) + floor²),   r = ψ' v − F(ψ),

what a field F of the model's own kind misses of ψ' v, in coordinates in which ψ has covariance 1.
Here v is the field of the latents as they are: averaged over many by least squares, with products
of more latents than F has. The dynamics are then fitted anew.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import comb

import torch
from torch import Tensor

from dynacl.dynamics.flow import Flow
from dynacl.dynamics.monomials import Monomials
from dynacl.encoders.redrawing import MOST, Redrawing, degree
from dynacl.objective.evenness import shared_noise
from dynacl.objective.limit import log_volume
from dynacl.refitting import fit_dynamics, spread
from dynacl.run import Run
from dynacl.sampling import Rows, encoded_pairs

PLACES = 10_000
PART = 2_000  # of them at a time
FLOOR = 0.1  # of the field's size: what is missed less than that counts no more
WEIGHT = 0.5  # of what the field misses, beside evenness
NEAR = 1e-3  # weight on the squares of what bends
EACH = 20  # places for each coefficient of the redrawing, at least
LOOKS = 200  # of the search, at most
GAIN = 0.1  # nats by which noise must get more even


@dataclass(frozen=True)
class Places:
    """Where noise was seen: latents of mean 0 and covariance 1, noise and field in them."""

    z: Tensor  # (n, d)
    noise: Tensor  # roots of its covariance, (n, d, d)
    field: Tensor  # (n, d)


def straighten(run: Run, data: Rows, said_of: Callable[[Run], str | None]) -> str:
    """Straighten the latents of a trained run; a sentence if that was done, "" if nothing was.

    Training that goes on does so with latents and dynamics as they were (`Run.go_on`).

    said_of: what is said of a run that may be handed out; None: it may not.
    """
    terms = run.dynamics.field_terms()
    if data.noise is None or data.u is not None or terms is None or too_few(data.noise.frames):
        return ""
    before, as_trained = run.weights(), run.as_trained
    run.rest()
    smooth = smooth_field(run, data)
    found, gain = search(places_of(run, data, smooth), terms)
    found.mean = smooth.whitened.mean.clone()
    found.root = smooth.whitened(found.mean)[1]
    if gain > GAIN and run.encoder.redraw(found.float().to(run.device)):
        run.keep_dynamics()
        fit_dynamics(run, data, spread(data), torch.Generator().manual_seed(0))
        said = said_of(run)
        if said is not None:
            run.wake()
            return (f"its latents were straightened: noise is more even in them, by {gain:.2f} "
                    f"nats{said}")  # fmt: skip
        run.restore(before)
        run.as_trained = as_trained
    run.wake()
    return ""


def too_few(frames: Tensor) -> bool:
    """Whether these places cannot carry even the fewest coefficients."""
    d = frames.shape[1]
    return comb(d + 2, 2) > most_products(len(frames[:PLACES]), d)


def most_products(n: int, d: int) -> int:
    return min(MOST, n // (EACH * d))


@torch.no_grad()
def smooth_field(run: Run, data: Rows) -> Flow:
    """The field of the latents as they are, by least squares."""
    now, following, _ = encoded_pairs(run, data, spread(data))
    d = now.shape[1]
    field = Flow(d, degree(d)).eval()
    field.refit(now.cpu(), following.cpu())
    return field


@torch.no_grad()
def places_of(run: Run, data: Rows, smooth: Flow) -> Places:
    assert data.noise is not None
    frames, roots = data.noise.frames[:PLACES], data.noise.roots[:PLACES]
    told = [run.encoder.with_slopes(part) for part in torch.split(frames, PART)]
    x, slopes = (torch.cat(part).cpu() for part in zip(*told, strict=True))
    z, root = smooth.whitened(x)
    noise = torch.linalg.solve_triangular(root, slopes @ roots.cpu(), upper=False)
    return Places(z.double(), noise.double(), smooth.field(z).double())


def search(places: Places, terms: Monomials) -> tuple[Redrawing, float]:
    """The redrawing of z that straightens most where the field is of these terms, and by how many
    nats the noise is more even then."""
    z, n, d = places.z, *places.z.shape
    psi = Redrawing(d, degree(d, most_products(n, d))).double()
    with torch.no_grad():
        psi.spread = psi.features(z).std(0).clamp(min=1e-9)
        features, slopes = psi.features(z), psi.slopes(z)
        flat = slopes.mT.reshape(n * d, -1)
        along = torch.einsum("nmd,nd->nm", slopes, places.field)
    theta = torch.zeros_like(psi.theta, requires_grad=True)
    optimizer = torch.optim.LBFGS(
        [theta], max_iter=LOOKS, history_size=LOOKS, line_search_fn="strong_wolfe"
    )

    def uneven() -> Tensor:
        jacobian = (flat @ theta).view(n, d, d).mT + torch.eye(d).to(theta)
        return shared_noise(jacobian @ places.noise) - log_volume(jacobian)

    def loss() -> Tensor:
        optimizer.zero_grad()
        missed = misfit(z + features @ theta, places.field + along @ theta, terms)
        total = uneven() + WEIGHT * missed + NEAR * theta.square().sum()
        if not total.isfinite():  # a step too far: back
            total = 1e3 + theta.square().sum()
        total.backward()  # type: ignore[no-untyped-call]
        return total

    before = float(uneven().detach())
    optimizer.step(loss)  # type: ignore[no-untyped-call]
    psi.theta = theta.detach()
    return psi, before - float(uneven().detach())


def misfit(x: Tensor, velocity: Tensor, terms: Monomials) -> Tensor:
    """½ log det of what a field of these terms misses of the velocities at states x."""
    n, d = x.shape
    centred = x - x.mean(0)
    root, _ = torch.linalg.cholesky_ex(centred.T @ centred / n + 1e-9 * torch.eye(d).to(x))
    z, v = (torch.linalg.solve_triangular(root, a.T, upper=False).T for a in (centred, velocity))
    m = terms(z)
    gram = m.T @ m / n + 1e-9 * torch.eye(m.shape[1]).to(m)
    missed = v - m @ torch.linalg.solve(gram, m.T @ v / n)
    relative = missed.T @ missed / (n * v.square().mean()) + FLOOR**2 * torch.eye(d).to(x)
    half: Tensor = 0.5 * torch.logdet(relative)
    return half
