"""Where latents live: on a plane or on a sphere, with the similarity φ that fits.

A geometry is one object: its projection, its similarity and that one's sum over negatives, the
kernel of its density estimates, and what it changes in the training. `BY_NAME` is the only place
that knows the names of `DCL(similarity=…)`.
"""

# name: (module of this package, class)
BY_NAME: dict[str, tuple[str, str]] = {
    "euclidean": ("flat", "Flat"),
    "dot": ("sphere", "Sphere"),
}
