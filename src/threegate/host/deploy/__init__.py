"""Files for servers, generated from the policy in force: text in, text out."""
