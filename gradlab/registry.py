"""The ops as one explicit table."""

SPECS = {}
