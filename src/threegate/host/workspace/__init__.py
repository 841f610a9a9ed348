"""A workspace on disk: its life from `init` to `restore`, its index, its artifacts."""
