"""The Python benchmarks: this package side by side with what people would use instead, in one run.

``data`` makes the input, ``timing`` the measurement, ``table`` the report; one module per subject measures its rows.
"""
