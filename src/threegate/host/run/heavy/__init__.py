"""The host's side of the heavy lane: engine, snapshots, one microVM for each run."""
