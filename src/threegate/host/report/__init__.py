"""Reports: an analysis with all it rests on, as one document for people elsewhere."""
