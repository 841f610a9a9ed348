# Turns nested bibliographic records into a flat table, one row for each author, with a key that
# is the same on every machine: the digest of the record's own canonical JSON.
# Input `works`: a list as a library exports it.  Functions: sha256_hex, json_dumps.
rows = []
for work in works:
    key = sha256_hex(json_dumps(work))[:16]
    year = work["issued"]["date-parts"][0][0]
    for place, author in enumerate(work.get("author", []), 1):
        rows.append(
            {
                "key": key,
                "title": " ".join(work["title"].split()),
                "year": year,
                "place": place,
                "author": f"{author['family']}, {author.get('given', '?')}",
            }
        )

by_year: dict[str, int] = {}
for row in rows:
    by_year[str(row["year"])] = by_year.get(str(row["year"]), 0) + 1

{"rows": rows, "authors_by_year": by_year}
