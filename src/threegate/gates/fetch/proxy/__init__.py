"""The managed proxy: the only process of ThreeGate that opens a connection to the network."""
