"""Models on this machine: the catalogue, the cache, pulling, the model server and the embedder."""
