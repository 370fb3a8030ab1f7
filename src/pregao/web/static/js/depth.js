// Depth chart: cumulative quantity up to each price.

import { alpha, colours, surface } from "./dom.js";
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

export function drawDepth(canvas, book, { digits }) {
  const { context: draw, width, height } = surface(canvas);
  if (!book) return;
  const hue = colours();
  const sides = book.sides.map((side) => depthSteps(side.levels));
  if (!sides[0].length && !sides[1].length) return;
  const best = sides.map((side) => side[0]?.[0]);
  const middle = best[0] !== undefined && best[1] !== undefined ? (best[0] + best[1]) / 2 : (best[0] ?? best[1]);
  const reach = Math.max(1, ...sides.flatMap((side) => side.map(([price]) => Math.abs(price - middle)))) * 1.03;
  const maximum = Math.max(1, ...sides.flatMap((side) => side.map(([, total]) => total)));
  const bottom = height - 18;
  const x = (price) => ((price - middle) / reach / 2 + 0.5) * width;
  const y = (total) => bottom - (total / maximum) * (bottom - 14);
  draw.font = `10.5px ${hue.mono}`;
  draw.textBaseline = "middle";
  draw.strokeStyle = hue.line;
  draw.fillStyle = hue.muted;
  draw.textAlign = "left";
  for (const share of [0.5, 1]) {
    draw.beginPath();
    draw.moveTo(0, Math.round(y(maximum * share)) + 0.5);
    draw.lineTo(width, Math.round(y(maximum * share)) + 0.5);
    draw.stroke();
    draw.fillText(format.short(maximum * share), 5, y(maximum * share) + 8);
  }
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
  draw.fillStyle = hue.muted;
  draw.textAlign = "left";
  draw.fillText(format.price(Math.round((middle - reach) / 100) * 100, digits), 5, height - 8);
  draw.textAlign = "center";
  draw.fillText(format.price(Math.round(middle), digits), width / 2, height - 8);
  draw.textAlign = "right";
  draw.fillText(format.price(Math.round((middle + reach) / 100) * 100, digits), width - 5, height - 8);
}
