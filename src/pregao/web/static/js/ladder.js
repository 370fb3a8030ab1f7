// Price ladder: asks above, bids below, with the orders of each level by priority.

import { alpha, colours, element, find, hover, surface, table } from "./dom.js";
import * as format from "./format.js";

const ROW = 21;
const HEAD = 20;

// Rows of the ladder, the highest ask first; computed from the book alone, then drawn.
export function ladderRows(book, lines) {
  const [bids, asks] = book.sides;
  const half = Math.max(1, Math.floor((lines - 1) / 2));
  const rows = [];
  const add = (side, from, at) => {
    const [price, size, orders] = from.levels[at];
    rows.push({ side, at, price, size, orders, queue: (from.queues[at] ?? []).map((order) => order[0] ?? order) });
  };
  for (let at = Math.min(half, asks.levels.length) - 1; at >= 0; at -= 1) add("ask", asks, at);
  rows.push({ side: "spread", ...spread(bids.levels[0], asks.levels[0]) });
  for (let at = 0; at < Math.min(half, bids.levels.length); at += 1) add("bid", bids, at);
  return rows;
}

function spread(bid, ask) {
  if (!bid || !ask || bid[0] === null || ask[0] === null) return { spread: null, middle: null };
  return { spread: ask[0] - bid[0], middle: (ask[0] + bid[0]) / 2 };
}

export class Ladder {
  constructor(canvas, { onlevel }) {
    this.canvas = canvas;
    this.before = new Map();
    this.flashes = new Map();
    this.rows = [];
    this.chosen = null;
    canvas.addEventListener("click", (event) => {
      const row = this.rowAt(event.offsetY);
      if (row) onlevel(row);
    });
    hover(canvas, (_x, y) => {
      const row = this.rowAt(y);
      return row && `${row.side} ${format.price(row.price, this.digits)}: ${format.count(row.size)} in ${format.count(row.orders)} ${row.orders === 1 ? "order" : "orders"}`;
    });
  }

  // The level at a height of the canvas; null for the spread and outside.
  rowAt(y) {
    const row = this.rows[Math.floor((y - HEAD - this.top) / ROW)];
    return row && row.side !== "spread" ? row : null;
  }

  draw(book, { digits, last, chosen, calm = false }) {
    const { context: draw, width, height } = surface(this.canvas);
    this.rows = [];
    if (!book) return;
    const hue = colours();
    this.digits = digits;
    const lines = Math.floor((height - HEAD) / ROW);
    const half = Math.max(1, Math.floor((lines - 1) / 2));
    this.rows = ladderRows(book, lines);
    const asks = this.rows.findIndex((row) => row.side === "spread");
    this.top = Math.max(0, (half - asks) * ROW);
    const largest = Math.max(1, ...this.rows.map((row) => row.size ?? 0));
    const middle = Math.round(width / 2);
    const priceHalf = 40;
    const sizeWidth = 58;
    const now = performance.now();
    draw.font = `11px ${hue.sans}`;
    draw.fillStyle = hue.muted;
    draw.textBaseline = "middle";
    draw.textAlign = "right";
    draw.fillText("bids", middle - priceHalf - 6, HEAD / 2);
    draw.textAlign = "left";
    draw.fillText("asks", middle + priceHalf + 6, HEAD / 2);
    draw.textAlign = "center";
    draw.fillText("price", middle, HEAD / 2);
    draw.textAlign = "left";
    draw.fillText("orders", 5, HEAD / 2);
    draw.textAlign = "right";
    draw.fillText("orders", width - 5, HEAD / 2);
    draw.font = `12px ${hue.mono}`;
    const seen = new Map();
    this.rows.forEach((row, index) => {
      const y = HEAD + this.top + index * ROW;
      const center = y + ROW / 2;
      if (row.side === "spread") {
        draw.fillStyle = hue.raised;
        draw.fillRect(0, y, width, ROW);
        draw.fillStyle = hue.muted;
        draw.textAlign = "center";
        draw.font = `11px ${hue.mono}`;
        const text = row.spread === null ? "" : `${format.price(row.spread, digits)}`;
        draw.fillText(text ? `spread ${text}` : "no spread", middle, center);
        draw.font = `12px ${hue.mono}`;
        return;
      }
      const bid = row.side === "bid";
      const color = bid ? hue.bid : hue.ask;
      const key = `${row.side}${row.price}`;
      seen.set(key, row.size);
      const old = this.before.get(key);
      if (!calm && old !== undefined && old !== row.size) this.flashes.set(key, now);
      const flash = this.flashes.get(key);
      if (flash !== undefined) {
        const left = 1 - (now - flash) / 260;
        if (left <= 0) this.flashes.delete(key);
        else {
          draw.fillStyle = alpha(color, Math.round(22 * left) / 100);
          draw.fillRect(bid ? 0 : middle, y, middle, ROW);
        }
      }
      if (chosen && chosen.side === row.side && chosen.price === row.price) {
        draw.strokeStyle = hue.accent;
        draw.strokeRect(0.5, y + 0.5, width - 1, ROW - 1);
      }
      // The queue: a segment per order, the first one next to the price.
      const longest = middle - priceHalf - sizeWidth - 30;
      const full = (row.size / largest) * longest;
      let x = 0;
      const edge = middle + (bid ? -1 : 1) * (priceHalf + sizeWidth);
      for (let index = 0; index < row.queue.length; index += 1) {
        const piece = (row.queue[index] / row.size) * full;
        const gap = piece > 2.5 ? 1 : 0;
        draw.fillStyle = alpha(color, index === 0 ? 0.95 : index % 2 ? 0.46 : 0.62);
        draw.fillRect(bid ? edge - x - piece + gap : edge + x, y + 4, Math.max(0.6, piece - gap), ROW - 8);
        x += piece;
      }
      if (x < full - 0.5) {
        draw.fillStyle = alpha(color, 0.28);
        draw.fillRect(bid ? edge - full : edge + x, y + 4, full - x, ROW - 8);
      }
      draw.fillStyle = hue.text;
      draw.textAlign = bid ? "right" : "left";
      draw.fillText(format.short(row.size), middle + (bid ? -1 : 1) * (priceHalf + 4), center);
      draw.fillStyle = hue.muted;
      draw.font = `10px ${hue.mono}`;
      draw.textAlign = bid ? "left" : "right";
      draw.fillText(String(row.orders), bid ? 5 : width - 5, center);
      draw.font = `12px ${hue.mono}`;
      const traded = last !== null && last === row.price;
      if (traded) {
        draw.fillStyle = alpha(hue.accent, 0.25);
        draw.fillRect(middle - priceHalf, y + 1, 2 * priceHalf, ROW - 2);
      }
      draw.fillStyle = color;
      draw.textAlign = "center";
      draw.fillText(format.price(row.price, digits), middle, center);
    });
    this.before = seen;
    if (!this.rows.some((row) => row.side !== "spread")) {
      draw.fillStyle = hue.muted;
      draw.textAlign = "center";
      draw.fillText("no orders in the book at this time", middle, height / 2 + ROW);
    }
  }

  get moving() {
    return this.flashes.size > 0;
  }
}

// Show the orders of one level, by priority.
export function showQueue(book, chosen, { digits, offset }) {
  const host = find("#queue");
  if (!chosen || !book) {
    host.hidden = true;
    return;
  }
  const side = book.sides[chosen.side === "bid" ? 0 : 1];
  const index = side.levels.findIndex(([price]) => price === chosen.price);
  const orders = index < 0 ? [] : (side.queues[index] ?? []);
  const [, , count] = index < 0 ? [null, null, 0] : side.levels[index];
  // During a replay, the server sends sizes only.
  const rows = orders.map((order) => (Array.isArray(order) ? order : [order])).map(([size, firm, since, id], position) => [
    String(position + 1), format.count(size), firm ?? "", since === null || since === undefined ? "" : format.clock(since, offset, 6), id ?? "",
  ]);
  const more = count - orders.length;
  host.replaceChildren(
    element("p", { class: "note", text: `${chosen.side} ${format.price(chosen.price, digits)}: ${count} orders${more > 0 ? `, the first ${orders.length}` : ""}` }),
    table([["position", false], ["size", true], ["firm", true], ["since", true], ["order", true]], rows, count > 0 && side.queues.length === 0 ? "the feed publishes price levels, not orders" : "no orders at this price"),
  );
  host.hidden = false;
}
