# Ranks samples by mean strength; equal means share a rank, as in a race.
# Input `samples`: a list of {"name", "kind", "strength_mpa": [numbers]}.


def mean(values: list[float]) -> float:
    return sum(values) / len(values)


measured = [sample for sample in samples if sample["strength_mpa"]]
rows = [
    {
        "name": sample["name"],
        "mean_mpa": int(mean(sample["strength_mpa"]) * 1000 + 0.5) / 1000,
        "n": len(sample["strength_mpa"]),
    }
    for sample in measured
]
rows.sort(key=lambda row: (-row["mean_mpa"], row["name"]))

ranking = []
for place, row in enumerate(rows, 1):
    shared = bool(ranking) and ranking[-1]["mean_mpa"] == row["mean_mpa"]
    ranking.append({"rank": ranking[-1]["rank"] if shared else place, **row})

print(f"{len(ranking)} ranked, {len(samples) - len(measured)} without a measurement")
ranking
