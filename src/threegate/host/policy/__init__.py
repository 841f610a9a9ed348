"""The policy in force: changes to it, the keys that sign, which approval covers a request."""
