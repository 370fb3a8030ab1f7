// Format numbers and times for people. Times are nanoseconds since midnight UTC of the day, prices
// are in ten-thousandths: integers that JavaScript represents exactly.

export const SECOND = 1e9;
export const MINUTE = 60 * SECOND;
const DAY = 86400 * SECOND;

const integers = new Intl.NumberFormat("en-US");

export function count(value) {
  return value === null || value === undefined ? "–" : integers.format(value);
}

export function short(value) {
  const size = Math.abs(value);
  if (size >= 1e9) return `${(value / 1e9).toFixed(1)}G`;
  if (size >= 1e6) return `${(value / 1e6).toFixed(size >= 1e8 ? 0 : 1)}M`;
  if (size >= 1e4) return `${(value / 1e3).toFixed(size >= 1e5 ? 0 : 1)}k`;
  return integers.format(value);
}

// Number of decimals that the tick size of the instrument needs, at least two.
export function decimals(tick) {
  if (!tick) return 2;
  for (let digits = 2; digits < 4; digits += 1) if (tick % 10 ** (4 - digits) === 0) return digits;
  return 4;
}

export function price(mantissa, digits = 2) {
  if (mantissa === null || mantissa === undefined) return "MKT";
  const fraction = mantissa % 10 ** (4 - digits) === 0 ? digits : 4;
  const text = (mantissa / 10000).toFixed(fraction);
  // Intl.NumberFormat would take a tenth of every frame.
  return Math.abs(mantissa) < 1e7 ? text : text.replace(/\B(?=(\d{3})+\.)/, ",").replace(/\B(?=(\d{3})+[.,])/g, ",");
}

const two = (value) => String(value).padStart(2, "0");

// A time of day in the zone of the page, with `digits` digits of fractional seconds.
export function clock(at, offset = 0, digits = 3) {
  if (at === null || at === undefined) return "–";
  const shifted = at + offset * SECOND;
  const days = Math.floor(shifted / DAY);
  let left = shifted - days * DAY;
  const part = left % SECOND;
  left = (left - part) / SECOND;
  const text = `${two(Math.floor(left / 3600))}:${two(Math.floor(left / 60) % 60)}:${two(left % 60)}`;
  return digits ? `${text}.${String(part).padStart(9, "0").slice(0, digits)}` : text;
}

// Parse the output of `clock` and shorter forms ("10:30", "10:30:00.5"); null if invalid.
export function parseClock(text, offset = 0) {
  const found = /^\s*(\d{1,2}):(\d{2})(?::(\d{2})(?:[.,](\d{1,9}))?)?\s*$/.exec(text);
  if (!found) return null;
  const [, hours, minutes, seconds = "0", part = ""] = found;
  if (+hours > 23 || +minutes > 59 || +seconds > 59) return null;
  const whole_s = +hours * 3600 + +minutes * 60 + +seconds - offset;
  return whole_s * SECOND + Number(part.padEnd(9, "0"));
}

export function span(ns) {
  if (ns === null || ns === undefined) return "–";
  const size = Math.abs(ns);
  if (size < 1e3) return `${Math.round(ns)} ns`;
  if (size < 1e6) return `${(ns / 1e3).toFixed(1)} µs`;
  if (size < 1e9) return `${(ns / 1e6).toFixed(1)} ms`;
  return `${(ns / 1e9).toFixed(2)} s`;
}

export const words = (name) => String(name ?? "").toLowerCase().replaceAll("_", " ");
