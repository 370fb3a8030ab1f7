// Tape: the last trades, the newest first.

import { alpha, colours, hover, surface } from "./dom.js";
import * as format from "./format.js";

const ROW = 18;

export class Tape {
  constructor(canvas) {
    this.canvas = canvas;
    this.rows = [];
    hover(canvas, (_x, y) => {
      const trade = this.rows[Math.floor((y - 3) / ROW)];
      if (!trade) return null;
      const [sent, price, size, side, busted] = trade;
      const aggressor = side > 0 ? ", the buyer was the aggressor" : side < 0 ? ", the seller was the aggressor" : "";
      return `${format.clock(sent, this.offset, 9)}: ${format.count(size)} at ${format.price(price, this.digits)}${aggressor}${busted === null ? "" : `, busted ${format.clock(busted, this.offset, 3)}`}`;
    });
  }

  // Trades are the server's rows, the oldest first: sent, price, size, side, busted at, …
  draw(trades, { digits, offset, at }) {
    const { context: draw, width, height } = surface(this.canvas);
    const hue = colours();
    [this.digits, this.offset] = [digits, offset];
    const lines = Math.floor((height - 4) / ROW);
    this.rows = trades.slice(-lines).reverse();
    const largest = Math.max(1, ...this.rows.map((trade) => trade[2]));
    draw.font = `11.5px ${hue.mono}`;
    draw.textBaseline = "middle";
    this.rows.forEach(([sent, price, size, side, busted], index) => {
      const y = 3 + index * ROW;
      const center = y + ROW / 2;
      const color = side > 0 ? hue.bid : side < 0 ? hue.ask : hue.muted;
      const isBusted = busted !== null && busted <= at;
      draw.fillStyle = alpha(color, 0.2);
      const length = Math.sqrt(size / largest) * (width * 0.42);
      draw.fillRect(width - length, y + 2, length, ROW - 4);
      draw.globalAlpha = isBusted ? 0.5 : 1;
      draw.textAlign = "left";
      draw.fillStyle = hue.muted;
      draw.fillText(format.clock(sent, offset, width > 250 ? 3 : 0), 8, center);
      draw.fillStyle = color;
      draw.textAlign = "right";
      draw.fillText(format.price(price, digits), width * 0.66, center);
      draw.fillStyle = hue.text;
      draw.fillText(format.count(size), width - 8, center);
      if (isBusted) {
        draw.fillStyle = hue.bad;
        draw.fillRect(8, center, width - 16, 1);
      }
      draw.globalAlpha = 1;
    });
    if (!this.rows.length) {
      draw.fillStyle = hue.muted;
      draw.textAlign = "center";
      draw.fillText("no trades up to this time", width / 2, height / 2);
    }
  }
}
