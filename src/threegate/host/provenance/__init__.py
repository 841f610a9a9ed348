"""Where artifacts come from: graphs, headlines, retraction, the texts that can be quoted."""
