// Latencies: percentiles per minute, and a histogram.

import { ask } from "./api.js";
import { points } from "./auction.js";
import { Chart } from "./charts.js";
import { alpha, choice, colours, find, hover, legend, note, surface } from "./dom.js";
import * as format from "./format.js";

const TITLES = { engine: "engine (T5 to T11)", network: "network (T11 to capture)", network_raw: "network, uncorrected clocks", feeds: "feed A to feed B" };
const SHARES = [["p50", 2], ["p90", 3], ["p99", 4], ["p99.9", 5]];

export class LatencyView {
  async load(context) {
    this.context = context;
    note("#latency-lines", "loading …");
    const { day, channel } = context.target();
    this.data = await ask("/api/latency", { day, channel });
    const measures = Object.keys(this.data.minutes);
    this.measure = measures.includes(this.measure) ? this.measure : ["network", "feeds", ...measures].find((name) => measures.includes(name));
    choice(find("#latency-choice"), measures.map((name) => [name, TITLES[name] ?? name]), this.measure, (name) => { this.measure = name; this.draw(); });
    this.draw();
  }

  draw() {
    if (!this.data) return;
    const minutes = this.data.minutes[this.measure];
    note("#latency-lines", minutes ? null : "no latencies in the lake (`pregao analytics` builds the table)");
    this.lines ??= new Chart(find("#latency-lines"), { prices: false });
    this.lines.clear();
    const spread = this.data.spread[this.measure] ?? [];
    if (minutes) {
      const hue = colours();
      const shades = [hue.bid, alpha(hue.accent, 1), hue.ask, hue.muted];
      SHARES.forEach(([title, column], index) => {
        this.lines.add("line", { color: shades[index], lineWidth: index === 2 ? 2 : 1, priceLineVisible: false, lastValueVisible: false })
          .setData(points(minutes, this.context.offset, (row) => row[column]));
      });
      this.lines.fit();
      legend("#latency-lines", SHARES.map(([title, column], index) => [`${title} ${format.span(minutes.at(-1)?.[column])}`, shades[index]]));
    }
    note("#latency-spread", spread.length ? null : "no events with this latency on this day");
    const events = spread.reduce((sum, [, count]) => sum + count, 0);
    find("#latency-note").textContent = events ? `${format.count(events)} events` : "";
    histogram(find("#latency-spread"), spread);
  }
}

// Histogram with ten bins per decade of nanoseconds.
export function histogram(host, spread) {
  if (!described.has(host)) {
    hover(host, (x) => {
      const { spread: shown, low, bar } = described.get(host);
      const bin = shown.length ? low + Math.floor((x - LEFT) / bar) : NaN;
      const [, count] = shown.find(([own]) => own === bin) ?? [];
      return count === undefined ? null : `${format.span(10 ** (bin / 10))} to ${format.span(10 ** ((bin + 1) / 10))}: ${format.count(count)} events`;
    });
  }
  described.set(host, { spread: [] });
  const { context: draw, width, height } = surface(host);
  if (!spread.length) return;
  const hue = colours();
  const low = spread[0][0];
  const high = spread.at(-1)[0] + 1;
  const largest = Math.max(...spread.map(([, count]) => count));
  const bottom = height - 20;
  const bar = (width - LEFT - 8) / (high - low);
  const x = (bin) => LEFT + (bin - low) * bar;
  described.set(host, { spread, low, bar });
  const y = (count) => bottom - (count / largest) * (bottom - 14);
  draw.font = `10.5px ${hue.mono}`;
  draw.textBaseline = "middle";
  draw.textAlign = "right";
  const step = format.round(largest / Math.max(1, Math.floor(bottom / 45)));
  for (const count of format.multiples(step, largest, step)) {
    draw.fillStyle = hue.line;
    draw.fillRect(LEFT, Math.round(y(count)), width - LEFT, 1);
    draw.fillStyle = hue.text;
    draw.fillText(format.short(count), LEFT - 6, y(count));
  }
  draw.fillText("events", LEFT - 6, bottom + 11);
  for (const [bin, count] of spread) {
    draw.fillStyle = alpha(hue.bid, 0.75);
    draw.fillRect(x(bin) + 1, y(count), Math.max(1, bar - 2), bottom - y(count));
  }
  // Round latencies: 1, 2, 5, 10, … of a unit, as far apart as their texts need.
  draw.fillStyle = hue.text;
  draw.textAlign = "center";
  const factors = (10 * bar) / 3 > 62 ? [1, 2, 5] : [1];
  const decades = Math.max(1, Math.ceil(62 / (10 * bar)));
  for (let decade = Math.floor(low / 10); decade <= high / 10; decade += decades) {
    for (const factor of factors) {
      const bin = 10 * (decade + Math.log10(factor));
      const left = x(bin);
      if (bin < low - 1e-9 || bin > high || left < LEFT + 20 || left > width - 24) continue;
      draw.fillRect(Math.round(left), bottom, 1, 3);
      draw.fillText(format.roundSpan(factor * 10 ** decade), left, height - 8);
    }
  }
}

const LEFT = 52;
const described = new WeakMap();
