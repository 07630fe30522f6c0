"""Files from strangers: what is damaged or meant to do harm must end in one of our own errors.

    python -m fuzz                      10,000 inputs for every reader, as `make fuzz`
    python -m fuzz model --inputs 500   one reader

Input number i of a reader is damaged in the same places each time; what crashes or is wrong is kept
in build/fuzz, as models, MAT and NWB files have an id or a date of their own. Every reader runs in
a child process: a crash is a finding like any other. tests/test_fuzz.py runs a few inputs of each.
"""
