"""SSH signatures, and the list of keys that may sign.

Pure: runs nothing, opens no file, reads no clock.  Signatures are made elsewhere, by
`ssh-keygen` (`threegate.host.keys.signatures`).
"""
