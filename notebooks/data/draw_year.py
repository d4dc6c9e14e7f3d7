"""Draw a year of `station.csv` as an SVG file: python3 draw_year.py station.csv plot.svg"""

import csv
import datetime
import os
import sys

LEFT, WIDTH, TOP, HIGH, BARS, LOW = 56, 800, 64, 190, 310, 110
INK, SOFT, LINE, RED, SUN, USE = "#1f2933", "#616e7c", "#e4e7eb", "#c2410c", "#e3a008", "#64748b"
MOST_KWH = 48


def read(path):
    with open(path, encoding="utf-8") as file:
        for row in csv.DictReader(file):
            date = datetime.date.fromisoformat(row.pop("date"))
            yield date, {name: float(value) if value else None for name, value in row.items()}


def text(x, y, words, size=12, fill=SOFT, anchor="start", weight=400):
    style = f'font-size="{size}" fill="{fill}" text-anchor="{anchor}" font-weight="{weight}"'
    return f'<text x="{x:.1f}" y="{y:.1f}" {style}>{words}</text>'


def rule(y, label):
    yield f'<path d="M{LEFT} {y:.1f}h{WIDTH}" stroke="{LINE}"/>'
    yield text(LEFT - 10, y + 4, label, anchor="end")


def temperature(days):
    """The daily mean as a line in the band of the daily range; a missing reading breaks both."""

    def points(run, name):
        for index, day in run:
            yield f"{LEFT + WIDTH * index / (len(days) - 1):.1f},{TOP + HIGH * (32 - day[name]) / 44:.1f}"

    for celsius in range(-10, 31, 10):
        yield from rule(TOP + HIGH * (32 - celsius) / 44, celsius)
    runs = [[]]
    for index, (_, day) in enumerate(days):
        if day["t_mean_c"] is None:
            runs.append([])
        else:
            runs[-1].append((index, day))
    for run in filter(None, runs):
        band = " ".join([*points(run, "t_max_c"), *points(run[::-1], "t_min_c")])
        yield f'<polygon points="{band}" fill="{RED}" opacity=".18"/>'
        mean = " ".join(points(run, "t_mean_c"))
        yield f'<polyline points="{mean}" fill="none" stroke="{RED}" stroke-width="1.4"/>'


def energy(days):
    """Two bars a month: mean solar yield and mean use of a day."""
    for kwh in (0, 20, 40):
        yield from rule(BARS + LOW * (1 - kwh / MOST_KWH), kwh)
    for month in range(1, 13):
        middle = LEFT + WIDTH * (month - 0.5) / 12
        for offset, name, colour in ((-20, "pv_kwh", SUN), (2, "load_kwh", USE)):
            values = [day[name] for date, day in days if date.month == month and day[name] is not None]
            height = LOW * sum(values) / len(values) / MOST_KWH
            place = f'x="{middle + offset:.1f}" y="{BARS + LOW - height:.1f}"'
            yield f'<rect {place} width="18" height="{height:.1f}" rx="2" fill="{colour}"/>'
        yield text(middle, BARS + LOW + 18, datetime.date(2025, month, 1).strftime("%b"), anchor="middle")
    for place, words, colour in ((650, "solar yield", SUN), (750, "used", USE)):
        yield f'<rect x="{LEFT + place}" y="{BARS - 22}" width="11" height="11" rx="2" fill="{colour}"/>'
        yield text(LEFT + place + 16, BARS - 12, words)


def main(source, target):
    days = list(read(source))
    print(f"read {len(days)} days", flush=True)
    year = days[0][0].year
    parts = [
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 900 460" role="img" font-family="system-ui, sans-serif">',
        f"<title>Temperature, solar yield and use in {year}</title>",
        '<rect width="900" height="460" rx="10" fill="#fff"/>',
        text(LEFT, 34, f"{year} at the station", 20, INK, weight=600),
        text(LEFT, 54, "mean temperature of each day with its range, °C; below: solar yield and use, kWh a day"),
        *temperature(days),
        *energy(days),
        "</svg>\n",
    ]
    os.makedirs(os.path.dirname(target) or ".", exist_ok=True)
    with open(target, "w", encoding="utf-8") as file:
        file.write("\n".join(parts))
    print(f"wrote {target}, {os.path.getsize(target):,} bytes")


if __name__ == "__main__":
    main(*sys.argv[1:])
