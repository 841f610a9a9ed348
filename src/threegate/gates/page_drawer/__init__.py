"""Pages of stored PDF files become plain pixels here, in a sandbox of their own."""
