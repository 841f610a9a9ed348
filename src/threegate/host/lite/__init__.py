"""The host's side of the lite lane: inputs in, boxed runs, results out."""
