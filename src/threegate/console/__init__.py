"""The console: requests, artifacts and the log, in the operator's browser.

The only package of the host that listens.  It shows what `threegate review` and the other
commands compute, and never imports a gate.
"""
