"""Draw the figures of the concepts: ``python packaging/draw_figures.py`` writes docs/figures."""

from __future__ import annotations

from html import escape
from pathlib import Path

FIGURES = Path(__file__).parents[1] / "docs" / "figures"
NAMES = ("ink", "muted", "line", "teal", "red", "blue", "amber")
INK, MUTED, LINE, TEAL, RED, BLUE, AMBER = (f"var(--{name})" for name in NAMES)
FILLS = {colour: f"{colour[:-1]}-fill)" for colour in (TEAL, RED, BLUE, AMBER, LINE)}
LIGHT = {
    "paper": "#ffffff", "ink": "#1b2733", "muted": "#5d6b78", "line": "#9aa7b3",
    "teal": "#0b8f7a", "red": "#d6473f", "blue": "#2f6fde", "amber": "#c98512",
    "teal-fill": "#e2f3f0", "red-fill": "#fbe7e5", "blue-fill": "#e5eefc",
    "amber-fill": "#faf0dc", "line-fill": "#f1f4f6",
}  # fmt: skip
DARK = {
    "paper": "#1e2129", "ink": "#e6e9ee", "muted": "#a3adb8", "line": "#6d7a87",
    "teal": "#2cc4a9", "red": "#f0736b", "blue": "#7aa7f7", "amber": "#e0a93f",
    "teal-fill": "#123a35", "red-fill": "#43201f", "blue-fill": "#1d2f52",
    "amber-fill": "#3d2f12", "line-fill": "#2b303a",
}  # fmt: skip


def _style() -> str:
    """Return the colors: those that the reader's system prefers, or those chosen on the site."""
    light, dark = (
        "".join(f"--{name}:{value};" for name, value in each.items()) for each in (LIGHT, DARK)
    )
    return (
        f"<style>svg.figure{{{light}}}"
        f"@media (prefers-color-scheme: dark){{svg.figure{{{dark}}}}}"
        f'[data-md-color-scheme="default"] svg.figure{{{light}}}'
        f'[data-md-color-scheme="slate"] svg.figure{{{dark}}}</style>'
    )


class Figure:
    """An SVG figure of boxes, arrows and text."""

    def __init__(self, width: int, height: int, title: str) -> None:
        self.name = title
        self.parts = [
            f'<svg xmlns="http://www.w3.org/2000/svg" class="figure" '
            f'viewBox="0 0 {width} {height}" role="img" '
            'font-family="system-ui, sans-serif" font-size="14">',
            f"<title>{escape(title)}</title>",
            _style(),
            '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" '
            'markerHeight="7" orient="auto">'
            f'<path d="M0 0 8 4 0 8z" fill="{LINE}"/></marker></defs>',
            f'<rect width="{width}" height="{height}" rx="10" fill="var(--paper)"/>',
        ]

    def box(
        self,
        x: float,
        y: float,
        w: float,
        h: float,
        words: str,
        colour: str = LINE,
        small: str = "",
    ) -> None:
        """Add a box with text, and a smaller line below it."""
        self.parts.append(
            f'<rect x="{x}" y="{y}" width="{w}" height="{h}" rx="6" fill="{FILLS[colour]}" '
            f'stroke="{colour}" stroke-width="1.4"/>'
        )
        lower = 9 if small else -5
        self.text(x + w / 2, y + h / 2 - lower + (5 if small else 0), words, INK, "middle")
        if small:
            self.text(x + w / 2, y + h / 2 + 14, small, MUTED, "middle", 12)

    def text(
        self, x: float, y: float, words: str, colour: str = MUTED, anchor: str = "start",
        size: int = 14, bold: bool = False,
    ) -> None:  # fmt: skip
        """Add text at a position."""
        weight = ' font-weight="600"' if bold else ""
        self.parts.append(
            f'<text x="{x}" y="{y}" fill="{colour}" text-anchor="{anchor}" '
            f'font-size="{size}"{weight}>{escape(words)}</text>'
        )

    def arrow(
        self, x: float, y: float, to_x: float, to_y: float, words: str = "", colour: str = LINE
    ) -> None:
        """Add an arrow, with text above its middle."""
        self.parts.append(
            f'<line x1="{x}" y1="{y}" x2="{to_x}" y2="{to_y}" stroke="{colour}" '
            'stroke-width="1.6" marker-end="url(#tip)"/>'
        )
        if words:
            self.text((x + to_x) / 2, (y + to_y) / 2 - 7, words, MUTED, "middle", 12)

    def line(self, x: float, y: float, to_x: float, to_y: float, colour: str = LINE) -> None:
        """Add a line."""
        self.parts.append(
            f'<line x1="{x}" y1="{y}" x2="{to_x}" y2="{to_y}" stroke="{colour}" '
            'stroke-width="1.4"/>'
        )

    def svg(self) -> str:
        """Return the figure as SVG text."""
        return "\n".join([*self.parts, "</svg>"]) + "\n"


def streams() -> Figure:
    """Draw the streams of a channel."""
    made = Figure(
        860, 300, "The three streams of a channel; the incremental stream is on two feeds"
    )
    made.box(20, 100, 130, 90, "Exchange", BLUE, "channel 51")
    rows = (
        (30, "incremental, feed A", TEAL, ("41", "42", "43", "44", "45", "46")),
        (90, "incremental, feed B", TEAL, ("41", "42", "43", "44", "45", "46")),
        (160, "snapshot, in a loop", AMBER, ("1", "2", "3", "1", "2", "3")),
        (230, "definition, in a loop", AMBER, ("1", "2", "1", "2", "1", "2")),
    )
    for y, name, colour, numbers in rows:
        made.arrow(155, 145, 205, y + 18)
        made.text(215, y + 22, name, INK)
        for at, number in enumerate(numbers):
            made.box(385 + 52 * at, y, 42, 34, number, colour)
        made.arrow(385 + 52 * 6, y + 17, 735, y + 17)
    made.box(740, 100, 100, 90, "Reader", BLUE, "merges A and B")
    return made


def recovery() -> Figure:
    """Draw a gap and how it is closed."""
    made = Figure(860, 330, "How a gap is closed: by the other feed, by rptSeq, or by a snapshot")
    for at, number in enumerate(("41", "42", "–", "44", "45", "46", "47", "48")):
        made.box(120 + 88 * at, 30, 62, 36, number, RED if number == "–" else TEAL)
        if at:
            made.arrow(120 + 88 * at - 25, 48, 120 + 88 * at - 2, 48)
    made.text(20, 53, "packets", INK)
    made.text(327, 88, "43 is lost on both feeds", RED, "middle", 12)
    states = (
        ("PETR4", (("valid", TEAL, 2), ("unconfirmed", AMBER, 2), ("valid", TEAL, 4))),
        ("VALE3", (("valid", TEAL, 2), ("unconf.", AMBER, 1), ("stale: messages queued", RED, 3),
                   ("valid", TEAL, 2))),
    )  # fmt: skip
    for row, (name, spans) in enumerate(states):
        y, x = 120 + 90 * row, 120.0
        made.text(20, y + 23, name, INK)
        for words, colour, count in spans:
            width = 88 * count - 6
            made.box(x, y, width, 36, words, colour)
            x += 88 * count
    made.text(
        472, 180, "45 continues its rptSeq: none of its messages was lost", MUTED, "middle", 12
    )
    made.arrow(648, 300, 648, 250)
    made.text(
        648, 318, "a snapshot as of 46 heals it, then 47 and 48 are applied", MUTED, "middle", 12
    )
    return made


def books() -> Figure:
    """Draw positions in a book, published and derived."""
    made = Figure(860, 330, "The same bids by position, and by price and priority")
    for x, title, heads in (
        (30, "below version 15: the message has the position", ("position", "price", "order")),
        (450, "from version 15: price, then the lower number", ("price", "number", "")),
    ):
        made.text(x, 34, title, INK, bold=True)
        for at, head in enumerate(heads):
            made.text(x + 20 + 120 * at, 64, head, MUTED, size=12)
    orders = (
        ("none", "17", "MOA"),
        ("36.08", "12", ""),
        ("36.08", "19", "new"),
        ("36.07", "9", ""),
    )
    for row, (price, number, note) in enumerate(orders):
        y = 74 + 52 * row
        colour = BLUE if note == "new" else TEAL
        made.box(30, y, 90, 40, str(row + 1), colour)
        made.box(135, y, 110, 40, price, colour)
        made.box(260, y, 110, 40, number, colour)
        made.box(450, y, 110, 40, price, colour)
        made.box(575, y, 110, 40, number, colour)
        words = {"MOA": "no price: first", "new": "higher number: after 12"}.get(note, "")
        made.text(700, y + 25, words, MUTED, size=12)
    made.text(30, 306, "an insertion at 3 moves the order at 3 to 4", MUTED, size=12)
    made.text(450, 306, "the position is derived; no order moves", MUTED, size=12)
    return made


def events() -> Figure:
    """Draw the messages of one event."""
    made = Figure(860, 250, "One event: an incoming order trades with two resting orders")
    names = (
        ("Execution", "Summary 55", BLUE), ("Trade 53", "100 at 36.08", TEAL),
        ("Trade 53", "200 at 36.09", TEAL), ("Delete 51", "the first order", RED),
        ("Order 50", "CHANGE: 300 left", AMBER), ("Statistics", "27, 56, …", LINE),
    )  # fmt: skip
    for at, (name, small, colour) in enumerate(names):
        made.box(20 + 138 * at, 70, 126, 60, name, colour, small)
    made.line(20, 45, 836, 45)
    made.line(20, 45, 20, 60)
    made.line(836, 45, 836, 60)
    made.text(428, 35, "one event", INK, "middle", bold=True)
    made.arrow(773, 180, 773, 136)
    made.text(836, 200, "EndOfEvent: the book is consistent again", MUTED, "end", 12)
    made.text(20, 200, "before EndOfEvent the book may be crossed or too deep", MUTED, size=12)
    made.text(20, 225, "the messages may span several packets and several instruments",
              MUTED, size=12)  # fmt: skip
    return made


def auctions() -> Figure:
    """Draw the phases of a day."""
    made = Figure(860, 270, "The phases of a security group during a day")
    spans = (("closed", LINE, 90), ("opening call", AMBER, 150), ("open", TEAL, 200),
             ("auction", AMBER, 90), ("open", TEAL, 130), ("closing call", AMBER, 120),
             ("closed", LINE, 60))  # fmt: skip
    x = 10.0
    for words, colour, width in spans:
        made.box(x, 60, width - 6, 50, words, colour)
        x += width
    made.text(102, 45, "the book crosses", MUTED, size=12)
    made.text(350, 45, "orders trade immediately", MUTED, "middle", 12)
    made.text(495, 45, "outside the band", MUTED, "middle", 12)
    made.arrow(247, 165, 247, 114)
    made.text(247, 183, "all trade at one price; no aggressor", MUTED, "middle", 12)
    made.text(
        105, 215, "during the call: TheoreticalOpeningPrice 16, AuctionImbalance 19", MUTED, size=12
    )
    made.text(105, 240, "spreads and mid prices are meaningful only in the green phases", MUTED,
              size=12)  # fmt: skip
    return made


def sessions() -> Figure:
    """Draw an order entry session."""
    made = Figure(860, 420, "A session: negotiated once, established once per connection")
    for x, name in ((120, "client"), (740, "gateway")):
        made.box(x - 60, 16, 120, 36, name, BLUE)
        made.line(x, 52, x, 405)
    steps = (
        (1, "Negotiate (a higher sessionVerID)"), (0, "NegotiateResponse"),
        (1, "Establish (next number, keep-alive)"), (0, "EstablishAck"),
        (1, "SimpleNewOrder, number 1"), (0, "ExecutionReport_New, number 1"),
        (0, "ExecutionReport_Trade, number 2"), (1, "Sequence (heartbeat)"),
        (1, "RetransmitRequest, from 2"), (0, "Retransmission, ExecutionReport_Trade"),
    )  # fmt: skip
    for at, (outwards, words) in enumerate(steps):
        y = 84 + 34 * at
        made.arrow(*((126, y, 734, y) if outwards else (734, y, 126, y)), words)
    return made


def times() -> Figure:
    """Draw where the times are taken."""
    made = Figure(860, 300, "Where the times T1 to T11 are taken")
    made.box(20, 110, 110, 70, "Client", BLUE)
    made.box(230, 110, 120, 70, "Gateway", TEAL)
    made.box(460, 110, 150, 70, "Matching engine", TEAL)
    made.box(710, 110, 130, 70, "Market data", AMBER)
    made.arrow(132, 130, 226, 130)
    made.arrow(352, 130, 456, 130)
    made.arrow(456, 162, 354, 162)
    made.arrow(226, 162, 134, 162)
    made.arrow(612, 145, 706, 145)
    for x, y, name, words in (
        (75, 92, "T1", "sends"), (235, 92, "T2", "receives"), (465, 92, "T4", "receives"),
        (560, 92, "T5", "happens"), (235, 222, "T6", "answers"), (715, 92, "T10", "is written"),
        (795, 92, "T11", "is sent"),
    ):  # fmt: skip
        made.text(x, y - 18, name, INK, "middle" if x < 100 else "start", 16, bold=True)
        made.text(x, y, words, MUTED, "middle" if x < 100 else "start", 12)
    made.arrow(775, 184, 775, 236)
    made.box(700, 240, 150, 40, "your capture", BLUE)
    made.text(
        20,
        250,
        "T1 is from the client's clock, the capture time from the capturing host's;",
        MUTED,
        size=12,
    )
    made.text(20, 270, "all others are from the exchange's clock", MUTED, size=12)
    return made


def main() -> None:
    """Write all figures."""
    FIGURES.mkdir(exist_ok=True)
    for make in (streams, recovery, books, events, auctions, sessions, times):
        (FIGURES / f"{make.__name__}.svg").write_text(make().svg())


if __name__ == "__main__":
    main()
