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

// A round latency: 200 µs, 5 ms.
export function roundSpan(ns) {
  const [unit, name] = ns < 1e3 ? [1, "ns"] : ns < 1e6 ? [1e3, "µs"] : ns < 1e9 ? [1e6, "ms"] : [1e9, "s"];
  return `${Math.round(ns / unit)} ${name}`;
}

// A rate of messages.
export const rate = (value) => `${short(value >= 10 ? Math.round(value) : Math.round(value * 10) / 10)}/s`;

export const words = (name) => String(name ?? "").toLowerCase().replaceAll("_", " ");

// The smallest of 1, 2, 5, 10, 20, … times `unit` that is not below `least`.
export function round(least, unit = 1) {
  const wanted = Math.max(1, least / unit);
  const power = 10 ** Math.floor(Math.log10(wanted));
  const factor = [1, 2, 5, 10].find((each) => each * power >= wanted * (1 - 1e-9));
  return factor * power * unit;
}

// Multiples of a step within a range.
export function multiples(low, high, step) {
  const found = [];
  for (let index = Math.ceil(low / step); index * step <= high; index += 1) found.push(index * step);
  return found;
}

const STEPS = [
  ...[1, 2, 5, 10, 20, 50, 100, 200, 500].map((each) => each * 1e6),
  ...[1, 2, 5, 10, 15, 30].map((each) => each * SECOND),
  ...[1, 2, 5, 10, 15, 30, 60, 120, 180, 240, 360].map((each) => each * MINUTE),
];

// Round times of a range in the zone of the page, at most `count`, with their texts.
export function timeTicks(begin, end, count, offset = 0) {
  const step = STEPS.find((each) => (end - begin) / each <= count) ?? STEPS.at(-1);
  const digits = step < SECOND ? 3 : 0;
  const shift = offset * SECOND;
  return multiples(begin + shift, end + shift, step).map((each) => {
    const text = clock(each - shift, offset, digits);
    return [each - shift, step % MINUTE === 0 ? text.slice(0, 5) : text];
  });
}
