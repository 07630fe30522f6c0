"""Every table and figure of the paper: a small module of data each, and what runs them.

`catalogue` has them by name. Importing this package alone is light: the command line does.
"""
