// Depth chart: cumulative quantity up to each price.

import { alpha, colours, hover, note, surface } from "./dom.js";
import * as format from "./format.js";

export function depthSteps(levels) {
  const steps = [];
  let total = 0;
  for (const [price, size] of levels) {
    total += size;
    if (price !== null) steps.push([price, total]);
  }
  return steps;
}

// Cumulative quantity at a price; null between the best prices.
export function quantityAt(sides, price) {
  const bids = sides[0].filter(([own]) => own >= price).at(-1);
  const asks = sides[1].filter(([own]) => own <= price).at(-1);
  return bids ? ["bids", bids[1]] : asks ? ["asks", asks[1]] : null;
}

const drawn = new WeakMap();

export function drawDepth(canvas, book, { digits }) {
  if (!drawn.has(canvas)) {
    hover(canvas, (x) => {
      const { priceAt, sides, decimals } = drawn.get(canvas);
      const price = priceAt && Math.round(priceAt(x) / 100) * 100;
      const found = priceAt && quantityAt(sides, price);
      return found && `${found[0]} up to ${format.price(price, decimals)}: ${format.count(found[1])}`;
    });
  }
  drawn.set(canvas, {});
  const { context: draw, width, height } = surface(canvas);
  const sides = (book?.sides ?? []).map((side) => depthSteps(side.levels));
  note(canvas.closest(".panel"), !book || sides.some((side) => side.length) ? null : "no orders in the book at this time");
  if (!sides.some((side) => side.length)) return;
  const hue = colours();
  const best = sides.map((side) => side[0]?.[0]);
  const middle = best[0] !== undefined && best[1] !== undefined ? (best[0] + best[1]) / 2 : (best[0] ?? best[1]);
  const reach = Math.max(1, ...sides.flatMap((side) => side.map(([price]) => Math.abs(price - middle)))) * 1.03;
  const maximum = Math.max(1, ...sides.flatMap((side) => side.map(([, total]) => total)));
  const bottom = height - 18;
  const x = (price) => ((price - middle) / reach / 2 + 0.5) * width;
  const y = (total) => bottom - (total / maximum) * (bottom - 14);
  draw.font = `10.5px ${hue.mono}`;
  draw.textBaseline = "middle";
  drawn.set(canvas, { sides, decimals: digits, priceAt: (at) => middle + (at / width - 0.5) * 2 * reach });
  sides.forEach((side, which) => {
    if (!side.length) return;
    const color = which ? hue.ask : hue.bid;
    const end = which ? width : 0;
    draw.beginPath();
    draw.moveTo(x(side[0][0]), bottom);
    let before = bottom;
    for (const [price, total] of side) {
      draw.lineTo(x(price), before);
      before = y(total);
      draw.lineTo(x(price), before);
    }
    draw.lineTo(end, before);
    draw.lineTo(end, bottom);
    draw.closePath();
    const fill = draw.createLinearGradient(0, 0, 0, bottom);
    fill.addColorStop(0, alpha(color, 0.42));
    fill.addColorStop(1, alpha(color, 0.1));
    draw.fillStyle = fill;
    draw.fill();
    draw.strokeStyle = color;
    draw.lineWidth = 1.4;
    draw.stroke();
    draw.lineWidth = 1;
  });
  // Axes: round quantities and prices, above the areas.
  draw.fillStyle = hue.text;
  draw.textAlign = "left";
  for (const total of format.multiples(1, maximum, format.round(maximum / 3))) {
    const top = Math.round(y(total)) + 0.5;
    draw.strokeStyle = alpha(hue.muted, 0.35);
    draw.beginPath();
    draw.moveTo(0, top);
    draw.lineTo(width, top);
    draw.stroke();
    draw.fillText(format.short(total), 5, Math.min(bottom - 7, top + 8));
  }
  draw.textAlign = "center";
  for (const price of format.multiples(middle - reach, middle + reach, format.round((2 * reach) / Math.max(1, Math.floor(width / 62)), 100))) {
    const left = x(price);
    if (left < 28 || left > width - 28) continue;
    draw.fillRect(Math.round(left), bottom, 1, 3);
    draw.fillText(format.price(price, digits), left, height - 7);
  }
}
