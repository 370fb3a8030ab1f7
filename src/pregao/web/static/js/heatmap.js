// Heatmap of the book: price over time, brighter for larger sizes, with trades.

import { alpha, colours, hover, surface } from "./dom.js";
import * as format from "./format.js";

const STOPS = {
  dark: [[10, 13, 18], [19, 44, 88], [25, 104, 158], [47, 180, 174], [236, 203, 96], [255, 247, 214]],
  light: [[255, 255, 255], [214, 228, 246], [150, 192, 232], [74, 140, 206], [38, 88, 160], [84, 30, 92]],
};

const FEW = 500;

// Minimum size of the trades to draw, so that only the largest `FEW` are.
function threshold(trades) {
  const sizes = trades.map((trade) => trade[2]).sort((a, b) => b - a);
  return sizes[FEW];
}

function ramp(theme) {
  const stops = STOPS[theme === "light" ? "light" : "dark"];
  return Array.from({ length: 256 }, (_, index) => {
    const position = (index / 255) * (stops.length - 1);
    const low = Math.min(stops.length - 2, Math.floor(position));
    const share = position - low;
    const mixed = stops[low].map((value, part) => Math.round(value + (stops[low + 1][part] - value) * share));
    return (255 << 24) | (mixed[2] << 16) | (mixed[1] << 8) | mixed[0];
  });
}

export class Heatmap {
  constructor(canvas, { onseek }) {
    this.canvas = canvas;
    this.columns = [];
    this.trades = [];
    this.step = 0;
    this.ramps = {};
    this.dirty = true;
    this.back = document.createElement("canvas");
    canvas.addEventListener("click", (event) => {
      const at = this.timeAt?.(event.offsetX);
      if (at !== undefined) onseek(Math.round(at));
    });
    hover(canvas, (x, y) => this.describe(x, y));
  }

  // The quantity at a point: its price level, and the time.
  describe(x, y) {
    if (!this.scale || x > this.scale.right || y > this.scale.bottom) return null;
    const { grain, digits, offset, top } = this.scale;
    const time = this.timeAt(x);
    const column = this.columns.find((each) => each.time >= time) ?? this.columns.at(-1);
    if (time < this.columns[0].time - this.step) return null;
    const price = this.floor + Math.round((top - y) / this.scale.row) * grain;
    const sizes = ["bid", "ask"].map((name, which) => {
      const side = column.levels[which];
      let size = 0;
      for (let part = 0; part < side.length; part += 2) if (Math.abs(side[part] - price) < grain / 2) size += side[part + 1];
      return size ? `, ${name} ${format.count(size)}` : "";
    });
    return `${format.clock(Math.round(time), offset, 3)}, ${format.price(price, digits)}${sizes.join("") || ": nothing"}`;
  }

  // Load the server's response: times, and the levels at each; null repeats the previous levels.
  // The levels of a crossed book are those around its balance, which is the third entry.
  load({ times, columns, trades }) {
    this.columns = [];
    let levels = [[], []];
    times.forEach((time, index) => {
      levels = columns[index] ?? levels;
      this.columns.push({ time, levels });
    });
    this.step = times.length > 1 ? times[1] - times[0] : 1e9;
    this.trades = trades;
    this.rescale();
  }

  clear() {
    this.columns = [];
    this.trades = [];
    this.dirty = true;
  }

  // Update the current column with a book while time advances; append a column per time bin.
  follow(at, book, trades, span, maxColumns) {
    const levels = book.auction ?? book.sides.map((side) => {
      const flat = [];
      for (const [price, size] of side.levels.slice(0, 10)) if (price !== null) flat.push(price, size);
      return flat;
    });
    const last = this.columns.at(-1);
    if (!last || at < last.time - this.step || this.step <= 0) {
      this.step = span / maxColumns;
      this.columns = [{ time: at, levels }];
      this.dirty = true;
    } else if (at > last.time) {
      let time = last.time;
      while (time + this.step < at && this.columns.length < 4 * maxColumns) {
        time += this.step;
        this.columns.push({ time, levels: last.levels });
      }
      this.columns.push({ time: time + this.step, levels });
      this.dirty = true;
    } else {
      last.levels = levels;
      this.dirty ||= trades.length > 0;
    }
    while (this.columns.length > maxColumns) this.columns.shift();
    if (trades.length) this.trades = this.trades.concat(trades);
    const begin = this.columns[0].time - this.step;
    let expired = 0;
    while (expired < this.trades.length && this.trades[expired][0] < begin) expired += 1;
    if (expired) this.trades = this.trades.slice(expired);
    this.added = (this.added ?? 0) + 1;
    if (this.added % 30 === 1) this.rescale();
  }

  // Choose the range of prices, and the size of full brightness.
  rescale() {
    const best = [];
    const sizes = [];
    const stride = Math.max(1, Math.floor(this.columns.length / 120));
    for (let index = 0; index < this.columns.length; index += stride) {
      const [bids, asks, balance] = this.columns[index].levels;
      if (balance !== undefined) best.push(balance);
      if (bids.length) best.push(bids[Math.min(bids.length - 2, 12)], bids[0]);
      if (asks.length) best.push(asks[Math.min(asks.length - 2, 12)], asks[0]);
      for (const side of [bids, asks]) for (let part = 1; part < side.length; part += 2) sizes.push(side[part]);
    }
    for (const [, price] of this.trades) best.push(price);
    sizes.sort((a, b) => a - b);
    this.much = sizes.length ? Math.max(1, sizes[Math.floor(sizes.length * 0.97)]) : 1;
    best.sort((a, b) => a - b);
    if (best.length) {
      const low = best[Math.floor(best.length * 0.02)];
      const high = best[Math.ceil((best.length - 1) * 0.98)];
      const margin = Math.max(200, (high - low) * 0.06);
      this.low = low - margin;
      this.high = high + margin;
    }
    this.dirty = true;
  }

  // Draw the book as a small image: a column per time bin, a row per price.
  pixels(ramped, grain, ground) {
    this.floor = Math.floor(this.low / grain) * grain;
    const tall = Math.min(2000, Math.max(1, Math.ceil((this.high - this.floor) / grain) + 1));
    const wide = this.columns.length;
    if (!this.image || this.back.width !== wide || this.back.height !== tall) {
      this.back.width = wide;
      this.back.height = tall;
      this.image = new ImageData(wide, tall);
      this.words = new Uint32Array(this.image.data.buffer);
    }
    const [red, green, blue] = [1, 3, 5].map((at) => parseInt(ground.slice(at, at + 2), 16));
    this.words.fill((255 << 24) | (blue << 16) | (green << 8) | red);
    for (let column = 0; column < wide; column += 1) {
      for (const side of this.columns[column].levels.slice(0, 2)) {
        for (let part = 0; part < side.length; part += 2) {
          const row = tall - 1 - Math.round((side[part] - this.floor) / grain);
          if (row < 0 || row >= tall) continue;
          const share = Math.min(1, Math.sqrt(side[part + 1] / this.much));
          this.words[row * wide + column] = ramped[Math.round(24 + share * 231)];
        }
      }
    }
    this.back.getContext("2d").putImageData(this.image, 0, 0);
  }

  draw({ tick, digits, offset, at, span }) {
    if (!this.dirty && this.drawnTheme === document.documentElement.dataset.theme) return;
    const { context: draw, width, height } = surface(this.canvas);
    const hue = colours();
    this.dirty = false;
    this.drawnTheme = hue.theme;
    this.scale = null;
    if (!this.columns.length || this.low === undefined) {
      draw.fillStyle = hue.muted;
      draw.font = `12px ${hue.sans}`;
      draw.textAlign = "center";
      draw.textBaseline = "middle";
      draw.fillText(this.columns.length ? "the book was empty all this time" : this.reason ?? "", width / 2, height / 2, width - 16);
      return;
    }
    const ramped = (this.ramps[hue.theme] ??= ramp(hue.theme));
    const right = width - 58;
    const bottom = height - 18;
    const end = Math.max(this.columns.at(-1).time, 0);
    const begin = end - span;
    const x = (time) => ((time - begin) / span) * right;
    const y = (price) => bottom - ((price - this.low) / (this.high - this.low)) * bottom;
    this.timeAt = (offsetX) => begin + (Math.min(offsetX, right) / right) * span;
    const grain = Math.max(tick || 100, 1);
    draw.save();
    draw.beginPath();
    draw.rect(0, 0, right, bottom);
    draw.clip();
    this.pixels(ramped, grain, hue.panel);
    draw.imageSmoothingEnabled = false;
    const left = x(this.columns[0].time - this.step);
    const top = y(this.floor + (this.back.height - 0.5) * grain);
    draw.drawImage(this.back, left, top, x(end) - left, y(this.floor - 0.5 * grain) - top);
    this.scale = { right, bottom, grain, digits, offset, top: y(this.floor), row: y(this.floor) - y(this.floor + grain) };
    // Best bid and ask; in auctions, the price at which the sides balance.
    const bestOf = (levels, which) => (which === 2 ? levels[2] : levels.length > 2 ? undefined : levels[which][0]);
    for (const [which, color] of [[0, hue.bid], [1, hue.ask], [2, hue.accent]]) {
      draw.strokeStyle = color;
      draw.lineWidth = 1.2;
      draw.beginPath();
      let begun = false;
      for (const { time, levels } of this.columns) {
        const price = bestOf(levels, which);
        if (price === undefined) { begun = false; continue; }
        const top = y(price);
        if (begun) draw.lineTo(x(time - this.step), top);
        else draw.moveTo(x(time - this.step), top);
        draw.lineTo(x(time), top);
        begun = true;
      }
      draw.stroke();
    }
    let large = 1;
    for (const trade of this.trades) large = Math.max(large, trade[2]);
    const smallest = this.trades.length > FEW ? threshold(this.trades) : 0; // more would blur
    for (const [sent, price, size, side, busted] of this.trades) {
      const center = x(sent);
      if (center < -10 || sent > at || size < smallest) continue;
      const radius = 1.6 + 8.5 * Math.sqrt(size / large);
      const color = side > 0 ? hue.bid : side < 0 ? hue.ask : hue.muted;
      draw.fillStyle = alpha(color, busted === null ? 0.62 : 0.15);
      if (radius < 3.2) {
        draw.fillRect(center - radius, y(price) - radius, 2 * radius, 2 * radius);
        continue;
      }
      draw.beginPath();
      draw.arc(center, y(price), radius, 0, 2 * Math.PI);
      draw.fill();
      if (radius > 3) {
        draw.strokeStyle = alpha(hue.bg, 0.85);
        draw.lineWidth = 1;
        draw.stroke();
      }
    }
    if (at < end - this.step) {
      draw.fillStyle = hue.accent;
      draw.fillRect(Math.round(x(at)), 0, 1, bottom);
    }
    draw.restore();
    draw.lineWidth = 1;
    draw.font = `10.5px ${hue.mono}`;
    draw.textBaseline = "middle";
    draw.textAlign = "left";
    const last = this.columns.at(-1).levels;
    const tags = priceTags([[bestOf(last, 0), hue.bid], [bestOf(last, 1), hue.ask], [bestOf(last, 2), hue.accent]]
      .filter(([price]) => price !== undefined).map(([price, color]) => ({ price, color, y: y(price) })), bottom);
    this.prices = [];
    draw.fillStyle = hue.text;
    const step = format.round((this.high - this.low) / Math.max(2, Math.floor(bottom / 42)), grain);
    for (const price of format.multiples(this.low, this.high, step)) {
      const top = Math.min(bottom - 6, Math.max(7, y(price)));
      // A tag hides no label: the label that is nearer than its height is left out.
      if (tags.some((tag) => Math.abs(tag.y - top) < TAG)) continue;
      this.prices.push(price);
      draw.fillText(format.price(price, digits), right + 6, top);
    }
    for (const { price, color, y: top } of tags) {
      draw.fillStyle = color;
      draw.fillRect(right + 2, top - TAG / 2, 56, TAG);
      draw.fillStyle = hue.panel;
      draw.fillText(format.price(price, digits), right + 6, top + 0.5);
    }
    this.tags = tags;
    this.times = format.timeTicks(begin, end, Math.max(2, Math.floor(right / 90)), offset);
    draw.fillStyle = hue.text;
    draw.textAlign = "center";
    for (const [time, text] of this.times) {
      const left = x(time);
      if (left < 26 || left > right - 26) continue;
      draw.fillRect(Math.round(left), bottom, 1, 3);
      draw.fillText(text, left, height - 7);
    }
  }
}

const TAG = 14;

// Move tags apart that would hide each other, and keep them on the axis.
export function priceTags(tags, bottom) {
  const sorted = [...tags].sort((a, b) => a.y - b.y);
  const top = TAG / 2;
  sorted.forEach((tag, index) => { tag.y = Math.max(tag.y, index ? sorted[index - 1].y + TAG : top); });
  for (let index = sorted.length - 1; index >= 0; index -= 1) {
    sorted[index].y = Math.min(sorted[index].y, index === sorted.length - 1 ? bottom - top : sorted[index + 1].y - TAG);
  }
  return sorted;
}
