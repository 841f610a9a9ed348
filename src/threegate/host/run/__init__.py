"""Running what was approved, in whichever lane its request names: ready, claim, run, store."""
