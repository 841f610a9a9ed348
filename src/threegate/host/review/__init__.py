"""The operator's review of requests: the sheet that is shown, approvals, denials and expiry."""
