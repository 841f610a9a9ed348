"""The interactive review on a terminal: list, show, approve, deny.

It reads keys in raw mode and draws whole frames on the alternate screen, without `curses`: tests
compare frames as values, every byte sent to the terminal is one of a dozen sequences named in
`screen`, and signing can take the terminal and give it back.

`screen` owns the terminal and reads keys, `cells` measures and prints text, `pager` knows what was
on screen, `state` holds what the reviewer looks at, `press` maps keys to changes (pure), `views`
draws frames (pure), `workspace` reads and decides requests, `loop` joins them and is what the
command calls.
"""
