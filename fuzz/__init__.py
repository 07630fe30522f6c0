"""Files from strangers: what is damaged or meant to do harm must end in one of our own errors.

    python -m fuzz                      10,000 inputs for every reader, as `make fuzz`
    python -m fuzz model --inputs 500   one reader

Input number i of a reader is always the same, so what was found can be found again. Every reader
runs in a child process: a crash is a finding like any other. tests/test_fuzz.py runs a few inputs
of each.
"""
