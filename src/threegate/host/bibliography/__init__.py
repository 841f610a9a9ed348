"""Reading lists in and bibliographies out: BibTeX, RIS, CSL-JSON, plain lists."""
