"""The six artifact formats that cross a gate: parsed strictly, with exactly one spelling each."""
