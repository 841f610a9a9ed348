"""What is allowed: policy files in, decisions out.

Source text (`source`) becomes untyped nodes (`nodes`), the schema of each section
(`sections`, built from `schema` and `leaves`) turns them into one canonical value with
line numbers, and `bundle` keeps both.  `decide` answers questions from a bundle, `diff`
says what another one would widen, `explain` and `fields` put it into words.

Only `compiler` opens files, and only `compiler` needs YAML: a gate that is handed a
bundle imports `bundle` and `decide` and never loads a YAML parser.
"""
