# Turns a table as people export it into records: one spelling of each column name, numbers as
# numbers, dates as ISO dates, and every row that cannot be read named with the reason.
# Input `table`: the text of the file, with `;` between cells and a decimal comma.
import csv

COLUMNS = {"sample": "sample", "date": "date", "temp. (c)": "temperature_c", "mpa": "strength_mpa"}


def number(cell: str) -> float:
    return float(cell.replace(".", "").replace(",", "."))


def date(cell: str) -> str:
    day, month, year = cell.split(".")
    return f"{int(year):04d}-{int(month):02d}-{int(day):02d}"


READ = {"sample": str, "date": date, "temperature_c": number, "strength_mpa": number}

lines = table.lstrip("\ufeff").splitlines()
rows = list(csv.reader(lines, delimiter=";"))
head = [COLUMNS[cell.strip().lower()] for cell in rows[0]]

records = []
refused = []
for place, row in enumerate(rows[1:], 2):
    cells = [cell.strip() for cell in row]
    if not any(cells):
        continue
    if len(cells) != len(head):
        refused.append({"row": place, "reason": f"{len(cells)} cells, not {len(head)}"})
        continue
    try:
        records.append({name: READ[name](cell) for name, cell in zip(head, cells)})
    except ValueError:
        refused.append({"row": place, "reason": "a number or a date that is none"})

{"records": records, "refused": refused}
