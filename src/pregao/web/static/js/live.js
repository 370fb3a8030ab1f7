// The live feed: books and trades as they arrive, and feed health.

import { Line, Newest, ask } from "./api.js";
import { points } from "./auction.js";
import { Chart } from "./charts.js";
import { alpha, colours, element, find, legend, note, table } from "./dom.js";
import * as format from "./format.js";
import { article, card } from "./health.js";
import { histogram } from "./latency.js";

const KINDS = { valid: "good", empty: "good", stale: "bad", unconfirmed: "warn", building: "warn", live: "good" };
const REMEMBERED = 900;

export function beginLive(page, config, { heatmap, bars, problem, quote, showQueue, COLUMNS, views }) {
  page.days = config.days;
  page.day = config.days[0].day;
  page.offset = config.days[0].offset;
  page.span = 60e9;
  for (const each of find("#heat-span").children) {
    each.hidden = each.dataset.value === "0";
    each.setAttribute("aria-pressed", String(Number(each.dataset.value) === page.span));
  }
  bars.none = "no trades since the page started";
  bars.interval = "5s";
  find("#health-gaps").closest(".panel").querySelector("h2").textContent = "Counts";
  views.health = new LiveHealth(page);
  views.latency = new LiveLatency(page);
  if (config.exchange) {
    find('.views [data-view="exchange"]').hidden = false;
    import("./exchange.js").then(({ ExchangeView }) => { views.exchange = new ExchangeView(page, problem); });
  }
  note("#ladder", "waiting for the feed …");
  let lastTrade = null;
  let traded = false;

  const line = new Line("/ws/live", {
    // The server closes a socket that sends no message.
    onopen: () => { problem(null); line.send(page.about ? page.target() : {}); },
    onlost: () => problem("The server of this page does not respond. Is `pregao ui` still running?"),
    onmessage: (message) => {
      if (message.error) problem(message.error);
      if (message.health) {
        page.health = message.health;
        views.health.push(message.health);
        views.latency.push(message.health);
        state(message.health);
        if (!page.about) begin();
        else if (traded) {
          traded = false;
          bars.fetch({ fit: false }).catch((error) => problem(error.message));
        }
      }
      if (message.book && message.id === page.about?.id) take(message.book);
    },
  });

  function take(book) {
    const fresh = book.trades.filter((trade) => lastTrade === null || trade[5] > lastTrade);
    if (book.trades.length) lastTrade = Math.max(lastTrade ?? 0, ...book.trades.map((trade) => trade[5]));
    page.book = book;
    page.trades = book.trades;
    page.about.status = book.status;
    page.dirty = true;
    quote();
    showQueue(page.book, page.chosen, page);
    // Busts count too, as they change bars.
    const version = `${book.trades.length} ${lastTrade} ${book.trades.filter((trade) => trade[4] !== null).length}`;
    traded ||= version !== page.tradesVersion;
    page.tradesVersion = version;
    page.fresh = [...(page.fresh ?? []), ...fresh];
  }

  // Advance time even if nothing happens.
  setInterval(() => {
    if (!page.book || !page.health) return;
    const now = page.health.at + (performance.now() - page.healthSeen) * 1e6;
    page.at = Math.round(now);
    heatmap.follow(page.at, page.book, page.fresh ?? [], page.span, COLUMNS);
    page.fresh = [];
    page.dirty = true;
  }, 100);

  // Show whether all channels are live, and if not, the reasons.
  function state(health) {
    page.healthSeen = performance.now();
    document.title = `Pregão · ${health.ready ? "live" : "not live"}`;
    const reasons = health.channels.filter((one) => one.state !== "live").map((one) => `Channel ${one.number}: ${one.meaning}.`).join(" ");
    if (reasons === page.reasons) return;
    page.reasons = reasons;
    problem(reasons || null, "info");
  }

  // Called every second until an instrument is chosen, by the page or by the user.
  let chosen = false;
  async function begin() {
    const found = await ask("/api/instruments").catch(() => null);
    if (chosen) return;
    if (found?.instruments.length) page.choose(found.instruments[0]);
    else note("#ladder", "waiting for instrument definitions …");
  }

  const choices = new Newest();
  page.choose = async (one) => {
    chosen = true;
    try {
      const about = await choices.ask("/api/instrument", { channel: one.channel, id: one.id });
      page.about = { ...about, begin: 0, end: 86400e9, trades: 0 };
    } catch (error) {
      if (error.name === "AbortError") return;
      chosen = !!page.about;
      problem(error.message);
      return;
    }
    note("#ladder", null);
    heatmap.reason = "the book is drawn as time passes";
    page.digits = format.decimals(page.about.tick);
    page.chosen = null;
    page.book = null;
    page.trades = [];
    lastTrade = null;
    heatmap.clear();
    heatmap.step = 0;
    find("#symbol").textContent = page.about.symbol;
    find("#symbol").title = page.about.description ?? "";
    bars.load(page).catch((error) => problem(error.message));
    line.send(page.target());
    if (page.view !== "market") views[page.view]?.load?.(page);
  };
}

// One row per second of the last 15 minutes.
class Past {
  constructor() {
    this.rows = [];
  }

  push(row) {
    this.rows.push(row);
    if (this.rows.length > REMEMBERED) this.rows.shift();
  }
}

class LiveHealth {
  constructor(page) {
    this.page = page;
    this.past = new Past();
  }

  push(health) {
    const messages = health.channels.reduce((sum, one) => sum + (one.counters.messages ?? one.counters.packets ?? 0), 0);
    if (this.before && health.at > this.before.at) this.past.push([health.at, ((messages - this.before.messages) * 1e9) / (health.at - this.before.at)]);
    this.before = { at: health.at, messages };
    this.health = health;
    if (this.page.view === "health") this.draw();
  }

  async load() {
    this.draw();
    const news = await ask("/api/news").catch(() => []);
    find("#health-news").replaceChildren(...news.reverse().map((one) => article(one, this.page.offset)));
    if (!news.length) find("#health-news").append(element("p", { class: "note", text: "no news since the page started" }));
  }

  draw() {
    const { health } = this;
    note("#health-rates", health ? null : "waiting for the feed …");
    if (!health) return;
    const hue = colours();
    if (!this.rates) {
      this.rates = new Chart(find("#health-rates"), { unit: format.rate });
      this.rates.seconds(true);
      this.series = this.rates.add("area", { lineColor: hue.bid, topColor: alpha(hue.bid, 0.35), bottomColor: alpha(hue.bid, 0.02), lineWidth: 1, priceLineVisible: false, lastValueVisible: false });
    }
    this.series.setData(points(this.past.rows, this.page.offset, (row) => row[1]));
    this.rates.fit();
    const cards = [];
    const books = {};
    for (const one of health.channels) {
      cards.push(card(`channel ${one.number}`, one.state, KINDS[one.state] ?? "warn"));
      for (const [state, count] of Object.entries(one.books)) books[state] = (books[state] ?? 0) + count;
    }
    for (const [state, count] of Object.entries(books)) cards.push(card(`books ${state}`, format.count(count), KINDS[state]));
    find("#health-states").replaceChildren(...cards);
    find("#health-feeds").replaceChildren(table(
      [["ch", false], ["feed", false], ["what", false], ["count", true]],
      health.channels.flatMap((one) => Object.entries(one.feeds).flatMap(([feed, counters]) =>
        Object.entries(counters).filter(([, count]) => count).map(([name, count]) => [one.number, feed, format.words(name), format.count(count)])))));
    find("#health-packets").replaceChildren(table(
      [["ch", false], ["stream", false], ["feed", false], ["joined", false], ["packets", true], ["dropped", true]],
      health.channels.flatMap((one) => one.lines.map((line) => [one.number, line.stream, line.feed, line.joined ? "yes" : "", format.count(line.packets), format.count(line.dropped)]))));
    find("#health-gaps").replaceChildren(table(
      [["ch", false], ["what", false], ["count", true]],
      health.channels.flatMap((one) => Object.entries(one.counters).filter(([, count]) => count).map(([name, count]) => [one.number, format.words(name), format.count(count)]))));
  }
}

class LiveLatency {
  constructor(page) {
    this.page = page;
    this.past = new Past();
  }

  push(health) {
    const delays = health.channels.map((one) => one.delays).filter((each) => each[0] !== null);
    if (delays.length) this.past.push([health.at, ...[0, 1, 2].map((index) => Math.max(1, ...delays.map((each) => each[index])))]);
    if (this.page.view === "latency") this.draw();
  }

  load() {
    this.draw();
  }

  draw() {
    note("#latency-lines", this.past.rows.length ? null : "waiting for the feed …");
    if (!this.past.rows.length) return;
    this.spread();
    const hue = colours();
    if (!this.lines) {
      this.lines = new Chart(find("#latency-lines"), { prices: false });
      this.series = [hue.bid, hue.accent, hue.ask].map((color) =>
        this.lines.add("line", { color, lineWidth: 1, priceLineVisible: false, lastValueVisible: false }));
      this.lines.seconds(true);
      legend("#latency-lines", [["p50", hue.bid], ["p99", hue.accent], ["max", hue.ask]]);
    }
    this.series.forEach((series, index) => series.setData(points(this.past.rows, this.page.offset, (row) => row[index + 1])));
    this.lines.fit();
  }

  // Histogram of all packets of the channel of the current instrument.
  async spread() {
    const data = await ask("/api/latency").catch(() => null);
    const spread = data?.spread[this.page.about?.channel] ?? Object.values(data?.spread ?? {})[0] ?? [];
    const packets = spread.reduce((sum, [, count]) => sum + count, 0);
    find("#latency-note").textContent = `${format.count(packets)} packets, from sending to receiving`;
    this.shown = spread;
    histogram(find("#latency-spread"), spread);
  }
}
