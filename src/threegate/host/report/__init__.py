"""Reports: an analysis or a run with everything it rests on, as one document."""
