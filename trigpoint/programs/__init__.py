"""Query programs: the typed language, its resolver, and how programs are generated and selected."""
