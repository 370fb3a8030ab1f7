// Bar and line charts in a common style, drawn by Lightweight Charts.

import {
  AreaSeries, CandlestickSeries, ColorType, HistogramSeries, LineSeries, PriceScaleMode, TickMarkType, createChartEx,
  defaultHorzScaleBehavior,
} from "../vendor/lightweight-charts.mjs";
import { alpha, colours, element } from "./dom.js";
import * as format from "./format.js";

const KINDS = { area: AreaSeries, candles: CandlestickSeries, columns: HistogramSeries, line: LineSeries };

const charts = new Set();

// Times that are multiples of ten seconds come before others on the time axis.
class RoundTimes extends defaultHorzScaleBehavior() {
  fillWeightsForPoints(points, start) {
    super.fillWeightsForPoints(points, start);
    for (const point of points.slice(start)) {
      if (point.timeWeight === SECONDS && point.originalTime % 10) point.timeWeight = 0;
    }
  }
}

const SECONDS = 10; // the weight of a time that begins no minute

// No text at other seconds; all other texts are those of the library.
const tickMarkFormatter = (time, type) => (type === TickMarkType.TimeWithSeconds && time % 5 ? "" : null);

// One point per step between the first and the last of some points, so that time is proportional.
export function filled(points, step, most = 40_000) {
  const first = points[0]?.time;
  const last = points.at(-1)?.time;
  if (!points.length || (last - first) / step > most) return points;
  const found = [];
  let next = first;
  for (const point of points) {
    for (; next < point.time; next += step) found.push({ time: next });
    found.push(point);
    next = point.time + step;
  }
  return found;
}

function look() {
  const hue = colours();
  return {
    layout: {
      background: { type: ColorType.Solid, color: hue.panel }, textColor: hue.text,
      fontFamily: hue.mono, fontSize: 11, attributionLogo: false,
      panes: { separatorColor: hue.line, separatorHoverColor: hue.line },
    },
    grid: { vertLines: { color: alpha(hue.line, 0.6) }, horzLines: { color: alpha(hue.line, 0.6) } },
    rightPriceScale: { borderColor: hue.line }, leftPriceScale: { borderColor: hue.line },
    timeScale: { borderColor: hue.line, tickMarkFormatter },
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
  // `unit` formats the values of the axis, such as messages per second.
  constructor(host, { prices = true, unit = null } = {}) {
    this.host = host;
    this.series = [];
    this.chart = createChartEx(host, new RoundTimes(), {
      ...look(), autoSize: true,
      timeScale: { ...look().timeScale, timeVisible: true, secondsVisible: false },
      rightPriceScale: { ...look().rightPriceScale, mode: prices ? PriceScaleMode.Normal : PriceScaleMode.Logarithmic },
      localization: unit ? { priceFormatter: unit } : prices ? {} : { priceFormatter: format.span },
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

  // Show seconds on the time axis, for data that changes within a minute.
  seconds(visible) {
    this.chart.applyOptions({ timeScale: { secondsVisible: visible } });
  }

  // Give the panes their shares of the height.
  share(parts) {
    this.chart.panes().forEach((pane, index) => pane.setStretchFactor(Math.max(0.001, parts[index] ?? 1)));
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
