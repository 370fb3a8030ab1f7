// Bars with volume; a click seeks to the time of a bar.

import { ask } from "./api.js";
import { Chart, filled } from "./charts.js";
import { alpha, choice, colours, find, note } from "./dom.js";

// Whether bars are shorter than a minute, so that their times need seconds.
const underAMinute = (interval) => interval.endsWith("s");

// Length of an interval in seconds, at least one.
const length = (interval) => Math.max(1, parseInt(interval, 10) * { ms: 0, s: 1, m: 60, h: 3600, d: 86400 }[/[a-z]+$/.exec(interval)[0]]);

export class Bars {
  constructor({ onseek }) {
    this.onseek = onseek;
    this.none = "no bars in the lake (`pregao analytics` builds them)";
    this.interval = "1m";
    this.times = [];
  }

  async load(context) {
    this.context = context;
    this.of = context.about;
    const intervals = context.about.intervals.filter((name) => name !== "1d");
    if (!intervals.includes(this.interval)) this.interval = intervals.includes("1m") ? "1m" : (intervals[0] ?? "1m");
    const seconds = context.about.end - context.about.begin;
    if (!this.chosen && seconds < 20 * 60e9 && intervals.includes("1s")) this.interval = "1s";
    choice(find("#bar-interval"), intervals.map((name) => [name, name]), this.interval, (name) => {
      this.interval = name;
      this.chosen = true;
      this.fetch();
    });
    await this.fetch();
  }

  async fetch({ fit = true } = {}) {
    const { context, interval } = this;
    const { about } = context;
    const request = { ...context.target(), interval, at: context.mode === "lake" ? context.at : undefined };
    this.turn = (this.turn ?? 0) + 1;
    const { turn } = this;
    const rows = about.intervals.length ? await ask("/api/bars", request) : [];
    // Ignore a late response for another instrument, interval or time.
    if (about !== context.about || turn !== this.turn) return;
    this.rows = rows;
    this.draw({ fit });
  }

  // Show the trades up to the current time of a replay: only the last bars change.
  async advance() {
    if (this.advancing || !this.rows || !this.context?.about.intervals.length) return;
    this.advancing = true;
    const { context, interval, rows, turn } = this;
    const { about, at } = context;
    const since = rows.at(-1)?.[0] ?? about.begin;
    try {
      const fresh = await ask("/api/bars", { ...context.target(), interval, at, since });
      if (about !== context.about || turn !== this.turn) return;
      this.rows = [...rows.filter(([start]) => start < (fresh[0]?.[0] ?? Infinity)), ...fresh];
      this.draw({ fit: false });
    } finally {
      this.advancing = false;
    }
  }

  draw({ fit = true } = {}) {
    const { offset, digits } = this.context;
    const hue = colours();
    const none = this.context.about.intervals.length && this.context.mode === "lake" ? "no trades up to this time" : this.none;
    note("#bars", this.rows.length ? null : none);
    if (!this.chart) {
      this.chart = new Chart(find("#bars"));
      this.chart.chart.subscribeClick(({ time }) => time !== undefined && this.onseek((time - this.context.offset) * 1e9));
    }
    this.chart.clear();
    const precise = { type: "price", precision: digits, minMove: 10 ** -digits };
    const seconds = (row) => Math.floor(row[0] / 1e9) + offset;
    const candles = this.chart.add("candles", {
      upColor: hue.bid, downColor: hue.ask, wickUpColor: hue.bid, wickDownColor: hue.ask, borderVisible: false, priceFormat: precise, lastValueVisible: false,
    });
    candles.priceScale().applyOptions({ scaleMargins: { top: 0.06, bottom: 0.27 } });
    // A bar whose trades set no last price has volume only.
    candles.setData(filled(this.rows.map((row) => row[1] === null ? { time: seconds(row) } : ({ time: seconds(row), open: row[1] / 1e4, high: row[2] / 1e4, low: row[3] / 1e4, close: row[4] / 1e4 })), length(this.interval)));
    const volume = this.chart.add("columns", { priceScaleId: "volume", priceFormat: { type: "volume" }, priceLineVisible: false, lastValueVisible: false });
    volume.priceScale().applyOptions({ scaleMargins: { top: 0.78, bottom: 0 } });
    volume.setData(this.rows.map((row) => ({ time: seconds(row), value: row[5], color: alpha(row[4] >= row[1] ? hue.bid : hue.ask, 0.5) })));
    this.chart.chart.applyOptions({ timeScale: { secondsVisible: underAMinute(this.interval) } });
    this.times = this.rows.map(seconds);
    if (fit) this.chart.fit();
    this.chart.marked = undefined;
    this.mark(this.context.at);
  }

  mark(at) {
    if (this.chart) this.chart.mark(Math.floor(at / 1e9) + this.context.offset, this.times);
  }
}
