"""The operator's keys: which sign, and signatures by ssh-keygen."""
