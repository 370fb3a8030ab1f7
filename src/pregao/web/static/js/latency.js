// Latencies: percentiles per minute, and a histogram.

import { ask } from "./api.js";
import { points } from "./auction.js";
import { Chart } from "./charts.js";
import { alpha, choice, colours, find, note, surface } from "./dom.js";
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
        this.lines.add("line", { color: shades[index], lineWidth: index === 2 ? 2 : 1, title, priceLineVisible: false, lastValueVisible: true })
          .setData(points(minutes, this.context.offset, (row) => row[column]));
      });
      this.lines.fit();
    }
    const events = spread.reduce((sum, [, count]) => sum + count, 0);
    find("#latency-note").textContent = events ? `${format.count(events)} events` : "";
    histogram(find("#latency-spread"), spread);
  }
}

// Histogram with ten bins per decade of nanoseconds.
export function histogram(host, spread) {
  const { context: draw, width, height } = surface(host);
  if (!spread.length) return;
  const hue = colours();
  const low = spread[0][0];
  const high = spread.at(-1)[0] + 1;
  const largest = Math.max(...spread.map(([, count]) => count));
  const bottom = height - 20;
  const bar = width / (high - low);
  for (const [bin, count] of spread) {
    const tall = (count / largest) * (bottom - 8);
    draw.fillStyle = alpha(hue.bid, 0.75);
    draw.fillRect((bin - low) * bar + 1, bottom - tall, Math.max(1, bar - 2), tall);
  }
  draw.fillStyle = hue.muted;
  draw.font = `10.5px ${hue.mono}`;
  draw.textAlign = "center";
  draw.textBaseline = "middle";
  const stride = Math.max(1, Math.ceil(((high - low) * 70) / width));
  for (let bin = low; bin <= high; bin += stride) {
    draw.fillText(format.span(10 ** (bin / 10)), Math.min(width - 30, Math.max(30, (bin - low) * bar)), height - 9);
  }
}
