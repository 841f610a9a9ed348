"""Whose signature counts: SSH signatures and the list of who may sign.

Pure: runs nothing, opens no file, reads no clock.  Signatures are made elsewhere, by
`ssh-keygen` (`threegate.host.keys.signatures`).
"""
