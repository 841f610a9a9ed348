# Checks records against rules and names every problem: which record, which field, why.
# Nothing is repaired.  Input `records`; function regex_findall, which runs in linear time, so
# that no record can make a check take for ever.
RULES = {
    "doi": r"^10\.[0-9]{4,9}/[^\s]+$",
    "retrieved": r"^20[0-9]{2}-[01][0-9]-[0-3][0-9]$",
    "sha256": r"^[0-9a-f]{64}$",
}


def problems_of(record: dict[str, object]) -> list[dict[str, str]]:
    found = []
    for field in sorted(set(RULES) | set(record)):
        value = record.get(field)
        if field not in RULES:
            reason = "is not a field"
        elif value is None:
            reason = "is missing"
        elif not isinstance(value, str):
            reason = "is not a text"
        elif not regex_findall(RULES[field], value):
            reason = "is not spelled as it must be"
        else:
            continue
        found.append({"field": field, "reason": reason})
    return found


report = [{"record": n, "problems": problems_of(record)} for n, record in enumerate(records)]
bad = [entry for entry in report if entry["problems"]]
print(f"{len(records) - len(bad)} of {len(records)} hold")
{"valid": not bad, "bad": bad}
