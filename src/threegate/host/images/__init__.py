"""Guest images: locked packages in, one digest out."""
