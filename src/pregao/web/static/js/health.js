// Feed health: rates, states of books, feed leads, packets, gaps, news.

import { ask } from "./api.js";
import { points } from "./auction.js";
import { Chart } from "./charts.js";
import { alpha, colours, element, find, note, table } from "./dom.js";
import * as format from "./format.js";

const KINDS = { valid: "good", empty: "good", stale: "bad", unconfirmed: "warn", building: "warn" };

export function card(title, value, kind = null) {
  return element("div", { class: "card", "data-kind": kind }, element("b", { text: value }), element("span", { text: title }));
}

export class HealthView {
  async load(context) {
    note("#health-rates", "loading …");
    const { day } = context.target();
    const [health, news] = await Promise.all([ask("/api/health", { day }), ask("/api/news", { day })]);
    note("#health-rates", health.rates.length ? null : "no packets in the lake");
    this.rates ??= new Chart(find("#health-rates"), { unit: format.rate });
    this.rates.clear();
    const hue = colours();
    this.rates.add("area", { lineColor: hue.bid, topColor: alpha(hue.bid, 0.35), bottomColor: alpha(hue.bid, 0.02), lineWidth: 1, priceLineVisible: false, lastValueVisible: false })
      .setData(points(health.rates, context.offset, (row) => row[2] / 60));
    this.rates.fit();
    const cards = Object.entries(health.states).map(([state, count]) => card(state, format.count(count), KINDS[state]));
    for (const { result, snapshots } of health.audit) cards.push(card(`snapshots ${result}`, format.short(snapshots), result === "equal" ? "good" : result === "different" ? "bad" : null));
    for (const { closed_by, gaps } of health.closed) cards.push(card(`gaps ${closed_by ? `closed by ${closed_by}` : "open"}`, format.count(gaps), closed_by ? "warn" : "bad"));
    if (!health.closed.length) cards.push(card("gaps", "0", "good"));
    find("#health-states").replaceChildren(...cards);
    find("#health-feeds").replaceChildren(
      table([["first", false], ["events", true], ["lead p50", true], ["p90", true], ["p99", true]],
        health.feeds.map((row) => [row.feed, format.count(row.events), format.span(row.p50), format.span(row.p90), format.span(row.p99)]),
        "only one feed was captured, or `pregao analytics` has not run"));
    find("#health-packets").replaceChildren(
      table([["ch", false], ["stream", false], ["feed", false], ["outcome", false], ["packets", true], ["messages", true]],
        health.packets.map((row) => [row.channel, row.stream, row.feed, row.outcome, format.count(row.packets), format.count(row.messages)]), "no packets in the lake on this day"));
    find("#health-gaps").replaceChildren(
      table([["time", false], ["ch", false], ["instrument", false], ["missing", true], ["closed by", false]],
        health.gaps.map((row) => [format.clock(row.at, context.offset, 3), row.channel, row.symbol ?? "channel", missing(row), row.closed_by ?? "nothing"]),
        "no missing packets"));
    find("#health-news").replaceChildren(...news.map((one) => article(one, context.offset)));
    if (!news.length) find("#health-news").append(element("p", { class: "note", text: "no news on this day" }));
  }
}

const missing = ({ first_missing: first, last_missing: last }) => (first === null ? "?" : last === null || last === first ? String(first) : `${first}–${last}`);

export function article({ at, symbol, headline, text }, offset) {
  return element("article", {}, element("h3", { text: headline || "(no headline)" }),
    element("p", { class: "note", text: `${format.clock(at, offset, 0)}${symbol ? ` · ${symbol}` : ""}` }),
    element("p", { text }));
}
