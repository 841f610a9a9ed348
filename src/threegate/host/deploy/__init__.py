"""The three levels around FETCH as files, made from the policy in force: text in, text out."""
