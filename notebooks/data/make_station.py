"""Make `station.csv`: one year of a small weather and solar station, by the day.

Simulated by the hour (sun height, clouds and cold spells that last, a house that is heated) and reduced to days, with
the faults that real stations have: days without a reading, and a stuck sensor. The same file every time.
"""

import csv
import datetime
import math
import random
from pathlib import Path

START = datetime.date(2025, 1, 1)
DAYS = 365
LATITUDE = math.radians(50.1)
PANEL_KWP = 8.2
DEAD_LOGGER = range(151, 156)  # nothing at all was written
STUCK_THERMOMETER = range(288, 292)  # the same value for days
LOST_PACKETS = (36, 97, 203, 254, 319)  # single missing production values

HEADER = ["date", "t_min_c", "t_mean_c", "t_max_c", "sun_kwh_m2", "pv_kwh", "load_kwh"]


def elevation(day: int, hour: float) -> float:
    """Sine of the sun's height; below zero at night."""
    declination = math.radians(-23.44) * math.cos(2 * math.pi * (day + 10) / 365.25)
    angle = math.radians(15 * (hour - 12))
    return math.sin(LATITUDE) * math.sin(declination) + math.cos(LATITUDE) * math.cos(declination) * math.cos(angle)


def clear_sky(height: float) -> float:
    """kW on a square metre that lies flat, by the air that the light has to pass (Meinel's formula)."""
    return 1.353 * 0.7 ** (height**-0.678) * height * 1.1 if height > 0 else 0.0


def simulate(chance: random.Random) -> list[list[str]]:
    rows = []
    clouds, spell = 0.5, 0.0
    stuck = 0.0
    for day in range(DAYS):
        date = START + datetime.timedelta(days=day)
        clouds = min(1.0, max(0.0, clouds + 0.35 * (0.55 - clouds) + chance.gauss(0, 0.22)))
        spell = 0.86 * spell + chance.gauss(0, 1.25)
        season = 10.2 - 9.4 * math.cos(2 * math.pi * (day - 18) / 365.25)
        temperatures, sun, pv, load = [], 0.0, 0.0, 0.0
        for hour in range(24):
            height = max(0.0, elevation(day, hour + 0.5))
            light = clear_sky(height) * (1 - 0.78 * clouds**1.6)
            warmth = season + spell + (4.6 - 3.1 * clouds) * math.sin(2 * math.pi * (hour - 9) / 24)
            temperatures.append(warmth + chance.gauss(0, 0.25))
            sun += light
            pv += PANEL_KWP * light * 0.84 * (1 - 0.004 * max(0.0, warmth - 20))
            people = 0.32 + 0.5 * math.exp(-((hour - 19) ** 2) / 7) + 0.25 * math.exp(-((hour - 7) ** 2) / 4)
            load += people + 0.055 * max(0.0, 16 - warmth) + abs(chance.gauss(0, 0.06))
        weekend = 1.18 if date.weekday() >= 5 else 1.0
        if day == STUCK_THERMOMETER.start:
            stuck = temperatures[0]
        if day in STUCK_THERMOMETER:
            temperatures = [stuck]
        mean = sum(temperatures) / len(temperatures)
        row = [min(temperatures), mean, max(temperatures), sun, pv, load * weekend]
        shown = [f"{value:.{digits}f}" for value, digits in zip(row, (1, 1, 1, 2, 2, 2))]
        if day in DEAD_LOGGER:
            shown = [""] * len(shown)
        if day in LOST_PACKETS:
            shown[4] = ""
        rows.append([date.isoformat(), *shown])
    return rows


def main() -> None:
    with open(Path(__file__).with_name("station.csv"), "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(HEADER)
        writer.writerows(simulate(random.Random(20250101)))


if __name__ == "__main__":
    main()
