# Every strength that two packets give in MPa, their mean, and by how much they fall.
import re

strengths = [
    float(number)
    for packet in (first, second)
    for text in packet["sections"]["Excerpts"]
    for number in re.findall(r"([0-9]+[.][0-9]+) MPa", text)
]
strengths.sort(reverse=True)
most, least = strengths[0], strengths[-1]
mean = sum(strengths) / len(strengths)
fall = 100 * (most - least) / most
found = f"{len(strengths)} strengths from {most} to {least} MPa"
f"{found}, mean {mean:.2f} MPa, a fall of {fall:.0f} percent"
