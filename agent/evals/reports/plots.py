"""Plots as SVG that stand in a page by themselves: no script, no font, nothing fetched.

Colours are classes of the page's style sheet, so that both are readable in the dark.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from agent.safe_text import plain

WIDTH, HEIGHT = 520, 260
LEFT, RIGHT, TOP, BOTTOM = 44, 12, 12, 36
"""Room around the axes, for their labels."""


@dataclass(frozen=True)
class Line:
    """One curve over the same places: its values from 0 to 1, each with its interval."""

    name: str
    values: Sequence[tuple[float, float, float]]


def curves(title: str, places: Sequence[str], lines: Sequence[Line]) -> str:
    """Shares over places that are as far apart as each other, such as k = 1, 2, 4, 8."""
    parts = [*_shares(), *_places(places)]
    for number, line in enumerate(lines):
        points = [
            (_across(at, len(places)), *map(_up, some)) for at, some in enumerate(line.values)
        ]
        band = [f"{x:.1f},{high:.1f}" for x, _, _, high in points]
        band += [f"{x:.1f},{low:.1f}" for x, _, low, _ in reversed(points)]
        path = " ".join(f"{x:.1f},{value:.1f}" for x, value, _, _ in points)
        parts.append(f'<polygon class="band c{number % 6}" points="{" ".join(band)}"/>')
        parts.append(f'<polyline class="line c{number % 6}" points="{path}"/>')
        for (x, y, _, _), (value, low, high), place in zip(
            points, line.values, places, strict=True
        ):
            said = f"{line.name}, {place}: {value:.3f} [{low:.3f}, {high:.3f}]"
            parts.append(
                f'<circle class="dot c{number % 6}" cx="{x:.1f}" cy="{y:.1f}" r="3.5">'
                f"<title>{_text(said)}</title></circle>"
            )
    return _svg(title, parts) + _legend([line.name for line in lines])


def bars(title: str, rows: Sequence[tuple[str, Sequence[float]]], names: Sequence[str]) -> str:
    """Counts as bars that lie on each other's ends, a row each; ``names`` are of the parts."""
    longest = max((sum(values) for _, values in rows), default=0) or 1
    label, step = 190, 24
    height = step * len(rows) + 8
    parts = []
    for at, (name, values) in enumerate(rows):
        x, y = float(label), 4 + at * step
        parts.append(f'<text x="{label - 6}" y="{y + 14}" class="end">{_text(_short(name))}</text>')
        for number, value in enumerate(values):
            wide = (WIDTH - label - 50) * value / longest
            said = _text(f"{name}, {names[number]}: {value:g}")
            box = f'x="{x:.1f}" y="{y}" width="{wide:.1f}" height="16"'
            parts.append(f'<rect class="bar c{number % 6}" {box}><title>{said}</title></rect>')
            x += wide
        parts.append(f'<text x="{x + 6:.1f}" y="{y + 14}">{sum(values):g}</text>')
    return _svg(title, parts, height) + _legend(names if len(names) > 1 else [])


def _svg(title: str, parts: Sequence[str], height: int = HEIGHT) -> str:
    return (
        f'<svg role="img" viewBox="0 0 {WIDTH} {height}" aria-label="{_text(title)}">'
        f"<title>{_text(title)}</title>{''.join(parts)}</svg>"
    )


def _legend(names: Sequence[str]) -> str:
    items = (f'<li class="c{n % 6}">{_text(name)}</li>' for n, name in enumerate(names))
    return f'<ul class="legend">{"".join(items)}</ul>' if names else ""


def _shares() -> list[str]:
    """The axis of shares, with a line at each quarter."""
    found = []
    for quarter in range(5):
        y = _up(quarter / 4)
        found.append(f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y}" y2="{y}"/>')
        found.append(f'<text x="{LEFT - 6}" y="{y + 4}" class="end">{quarter / 4:g}</text>')
    return found


def _places(places: Sequence[str]) -> list[str]:
    return [
        f'<text x="{_across(at, len(places)):.1f}" y="{HEIGHT - 12}" class="mid">'
        f"{_text(place)}</text>"
        for at, place in enumerate(places)
    ]


def _across(at: int, many: int) -> float:
    wide = WIDTH - LEFT - RIGHT - 40
    return LEFT + 20 + (wide * at / (many - 1) if many > 1 else wide / 2)


def _up(share: float) -> float:
    return TOP + (HEIGHT - TOP - BOTTOM) * (1 - share)


def _text(text: str) -> str:
    """Text of a plot; signs that show as nothing, or turn others round, are spelled out."""
    return escape(plain(text))


def _short(text: str) -> str:
    return text if len(text) <= 28 else text[:27] + "…"
