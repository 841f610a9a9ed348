# Every strength that two packets give in MPa, their mean, and by how much they fall.
import re

strengths = [
    float(number)
    for packet in (first, second)
    for text in packet["sections"]["Excerpts"]
    for number in re.findall(r"([0-9]+[.][0-9]+) MPa", text)
]
strengths.sort(reverse=True)
mean = sum(strengths) / len(strengths)
fall = 100 * (strengths[0] - strengths[-1]) / strengths[0]
f"{len(strengths)} strengths from {strengths[0]} to {strengths[-1]} MPa, mean {mean:.2f} MPa, a fall of {fall:.0f} percent"
