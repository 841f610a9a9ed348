"""How a gate is confined: profiles, lock, launch, live probes."""
