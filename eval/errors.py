"""The one exception that ends an evaluation; a failed question never raises it."""


class EvalError(Exception):
    """The evaluation cannot start or go on; the message says what to do. Samples on disk stay valid."""
