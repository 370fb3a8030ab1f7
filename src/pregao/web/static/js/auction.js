// Auctions of an instrument: theoretical price, imbalance, result.

import { ask } from "./api.js";
import { Chart, filled } from "./charts.js";
import { alpha, choice, colours, element, find, legend, note } from "./dom.js";
import * as format from "./format.js";

export class AuctionView {
  // What the chart shows, for tests.
  get shape() {
    return this.price ? { panes: this.price.chart.panes().length } : null;
  }

  constructor() {
    this.auctions = [];
    this.shown = 0;
  }

  async load(context) {
    this.context = context;
    note("#auction-price", "loading …");
    const { about, offset } = context;
    const auctions = await ask("/api/auctions", context.target());
    if (about !== context.about) return;
    this.auctions = auctions;
    this.shown = Math.max(0, this.auctions.findIndex((one) => context.at >= one.begin && context.at <= (one.end ?? Infinity)));
    choice(find("#auction-choice"), this.auctions.map((one, index) => [index, `${format.words(one.kind)} ${format.clock(one.begin, offset, 0)}`]), this.shown, (index) => { this.shown = index; this.draw(); });
    this.draw();
  }

  draw() {
    const auction = this.auctions[this.shown];
    note("#auction-price", auction ? null : "no auction of this instrument in the lake\n(`pregao analytics` builds the table)");
    this.price ??= new Chart(find("#auction-price"));
    this.price.clear();
    find("#auction-facts").replaceChildren();
    if (!auction) {
      legend("#auction-price", []);
      find("#auction-facts").append(element("dt", { text: "no auction" }), element("dd", { text: "–" }));
      return;
    }
    const { offset, digits } = this.context;
    const hue = colours();
    const precise = { type: "price", precision: digits, minMove: 10 ** -digits };
    const line = this.price.add("line", { color: hue.accent, lineWidth: 2, lineType: 1, priceFormat: precise, priceLineVisible: false, lastValueVisible: false });
    const path = points(auction.path, offset, (row) => row[1] === null ? null : row[1] / 10000);
    line.setData(filled(path, 1));
    const sizes = this.price.add("area", { priceScaleId: "left", priceLineVisible: false, lastValueVisible: false, lineColor: alpha(hue.bid, 0.7), topColor: alpha(hue.bid, 0.25), bottomColor: alpha(hue.bid, 0), lineWidth: 1, priceFormat: { type: "volume" } });
    sizes.priceScale().applyOptions({ visible: true, borderColor: hue.line, scaleMargins: { top: 0.72, bottom: 0 } });
    sizes.setData(points(auction.path, offset, (row) => row[2]));
    // A second pane has the same time axis and the same width.
    const columns = this.price.add("columns", { priceFormat: { type: "volume" }, base: 0, priceLineVisible: false, lastValueVisible: false }, 1);
    columns.setData(points(auction.imbalances, offset, (row) => row[1]).map((one) => ({ ...one, color: one.value >= 0 ? hue.bid : hue.ask })));
    const last = auction.path.findLast((row) => row[1] !== null);
    const names = last ? [[`theoretical price ${format.price(last[1], digits)} (right)`, hue.accent], [`quantity ${format.count(last[2])} (left)`, hue.bid]] : [["no theoretical price was published", hue.muted]];
    names.push(auction.imbalances.length ? ["imbalance: buyers above, sellers below", hue.ask] : ["no imbalance was published", hue.muted]);
    legend("#auction-price", names);
    this.price.share([3, auction.imbalances.length ? 2 : 0]);
    this.price.seconds(true);
    this.price.fit();
    const facts = [
      ["kind", format.words(auction.kind)],
      ["start", format.clock(auction.begin, offset, 3)],
      ["end", format.clock(auction.end, offset, 3)],
      ["scheduled end", format.clock(auction.scheduled, offset, 3)],
      ["extensions", format.count(auction.extensions)],
      ["price", auction.price === null ? "none" : format.price(auction.price, digits)],
      ["quantity", format.count(auction.volume)],
      ["trades", format.count(auction.trades)],
    ];
    for (const [name, value] of facts) find("#auction-facts").append(element("dt", { text: name }), element("dd", { text: value }));
  }
}

// Points of a chart, by ascending second; of several in one second, the last.
export function points(rows, offset, value) {
  const found = new Map();
  for (const row of rows) {
    const point = value(row);
    if (point !== null && point !== undefined) found.set(Math.floor(row[0] / 1e9) + offset, point);
  }
  return [...found].sort((a, b) => a[0] - b[0]).map(([time, point]) => ({ time, value: point }));
}
