"""Readers: one per kind of document, each `read(raw, answer) -> Document`, raising `Unread`.

A reader that needs a library is imported by the payload of the box that has the library, and
by nothing else.
"""
