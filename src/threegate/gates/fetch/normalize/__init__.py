"""FETCH-normalize: turns a retrieval record and raw bytes into one research packet."""
