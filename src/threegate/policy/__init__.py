"""The policy: files in, decisions out.

`compiler` reads the text of each file as untyped nodes (`nodes`), the schema of each section
(`sections`, built from `schema` and `leaves`) turns them into one canonical value with line
numbers, and `bundle` keeps both.  `decide` answers questions from a bundle; `decision` puts an
answer into words.

Only `compiler` opens files, and only `compiler` needs YAML: a gate that is handed a
bundle imports `bundle` and `decide` and never loads a YAML parser.
"""
