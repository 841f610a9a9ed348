"""The console: what waits, what is known and what happened, in the operator's browser.

The only package of the host that listens.  It shows what `threegate review` and the other
commands compute, and never imports a gate.
"""
