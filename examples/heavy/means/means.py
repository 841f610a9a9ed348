"""A table with a column `group` and a column `y`: mean and spread by group, and a plot of both."""

import matplotlib.pyplot as plt
import pandas as pd

table = pd.read_csv("/in/table")
means = table.groupby("group")["y"].agg(["mean", "std", "count"])
means.to_csv("/out/means.csv")
means["mean"].plot.bar(yerr=means["std"], title=f"{len(table)} rows")
plt.savefig("/out/means.png", dpi=80)
print(means)
