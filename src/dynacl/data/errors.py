"""The errors that a user's input can raise."""


class InputError(ValueError):
    """Input that cannot be used. The message names the argument, what came and what is wanted."""


class InputTypeError(InputError, TypeError):
    """Input of a kind that cannot be numbers."""


class UnlikeFitError(InputError):
    """Data with other columns than those that a model was fitted to."""
