"""`threegate review` on a terminal: list, show, approve, deny.

Written with a raw-mode reader of keys and whole frames on the alternate screen, not with
`curses`: a frame is then a value that tests compare, every byte that reaches the terminal
is one of a dozen sequences named in `screen`, and signing can take the terminal for itself
and give it back.

`keys` reads what is typed, `cells` measures text, `pager` knows what was on screen, `state`
says what the reviewer looks at, `press` what a key changes (pure), `views` what is drawn
(pure), `screen` owns the terminal, `desk` the workspace, `loop` joins them, and `start` is
what the command line calls.
"""
