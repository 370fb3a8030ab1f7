// Bar and line charts in a common style, drawn by Lightweight Charts.

import {
  AreaSeries, CandlestickSeries, ColorType, HistogramSeries, LineSeries, PriceScaleMode, createChart,
} from "../vendor/lightweight-charts.mjs";
import { alpha, colours, element } from "./dom.js";
import * as format from "./format.js";

const KINDS = { area: AreaSeries, candles: CandlestickSeries, columns: HistogramSeries, line: LineSeries };

const charts = new Set();

function look() {
  const hue = colours();
  return {
    layout: {
      background: { type: ColorType.Solid, color: hue.panel }, textColor: hue.muted,
      fontFamily: hue.mono, fontSize: 11, attributionLogo: false,
    },
    grid: { vertLines: { color: alpha(hue.line, 0.6) }, horzLines: { color: alpha(hue.line, 0.6) } },
    rightPriceScale: { borderColor: hue.line },
    timeScale: { borderColor: hue.line },
    crosshair: {
      vertLine: { color: hue.muted, labelBackgroundColor: hue.raised },
      horzLine: { color: hue.muted, labelBackgroundColor: hue.raised },
    },
  };
}

export function restyle() {
  for (const chart of charts) chart.restyle();
}

export class Chart {
  constructor(host, { prices = true } = {}) {
    this.host = host;
    this.series = [];
    this.chart = createChart(host, {
      ...look(), autoSize: true,
      timeScale: { ...look().timeScale, timeVisible: true, secondsVisible: false },
      rightPriceScale: { ...look().rightPriceScale, mode: prices ? PriceScaleMode.Normal : PriceScaleMode.Logarithmic },
      localization: prices ? {} : { priceFormatter: format.span },
    });
    this.line = element("div", { class: "cursor", hidden: true });
    host.append(this.line);
    this.chart.timeScale().subscribeVisibleLogicalRangeChange(() => this.place());
    charts.add(this);
  }

  add(kind, options, pane = 0) {
    const series = this.chart.addSeries(KINDS[kind], options, pane);
    this.series.push(series);
    return series;
  }

  clear() {
    for (const series of this.series.splice(0)) this.chart.removeSeries(series);
  }

  fit() {
    this.chart.timeScale().fitContent();
  }

  // Mark the current time: a line on the bar that contains it.
  mark(time, times) {
    let found;
    if (times?.length) {
      let low = 0;
      let high = times.length;
      while (low < high) {
        const middle = (low + high) >> 1;
        if (times[middle] <= time) low = middle + 1;
        else high = middle;
      }
      found = times[Math.max(0, low - 1)];
    }
    if (found === this.marked) return;
    this.marked = found;
    this.place();
  }

  place() {
    const x = this.marked === undefined ? null : this.chart.timeScale().timeToCoordinate(this.marked);
    this.line.hidden = x === null || x < 0;
    if (x !== null) this.line.style.left = `${x}px`;
  }

  restyle() {
    this.chart.applyOptions(look());
  }
}
