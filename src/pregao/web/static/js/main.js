// The page: its state, its controls, and the updates of all parts.

import { Newest, ask } from "./api.js";
import { AuctionView } from "./auction.js";
import { Bars } from "./bars.js";
import { restyle } from "./charts.js";
import { drawDepth } from "./depth.js";
import { choice, element, find, note, say, warn } from "./dom.js";
import * as format from "./format.js";
import { HealthView } from "./health.js";
import { Heatmap } from "./heatmap.js";
import { Ladder, showQueue } from "./ladder.js";
import { LatencyView } from "./latency.js";
import { Replay } from "./replay.js";
import { Search } from "./search.js";
import { Tape } from "./tape.js";
import { Timeline } from "./timeline.js";

const SPEEDS = [0.1, 0.5, 1, 2, 5, 10, 20, 50, 100, 200, 500];
const SPANS = [[60e9, "1m"], [600e9, "10m"], [3600e9, "1h"], [0, "day"]];
const COLUMNS = 240;
const TAPE = 120;
const WARNINGS = {
  stale: "Stale: messages are missing. The book shown is from before the gap.",
  unconfirmed: "Unconfirmed: packets are missing that may concern this book.",
};
const STATES = { valid: "good", empty: "good", building: "warn", unconfirmed: "warn", stale: "bad" };

const page = {
  mode: "loading", view: "market", days: [], day: null, offset: 0, about: null, at: 0, book: null,
  trades: [], chosen: null, digits: 2, span: 600e9, dirty: true, frames: 0, painted: 0, loading: 0,
  target() {
    const { day, channel, id } = this.about;
    return { day, channel, id };
  },
};

// State of the drawing, for tests and debugging.
window.__pregao = {
  page,
  get drawn() {
    return {
      at: page.at, symbol: page.about?.symbol ?? null, state: page.book?.state ?? null,
      sent: page.book?.sent ?? null, ladder: ladder.rows, tape: tape.rows,
      heatmap: heatmap.columns.length, axis: { times: heatmap.times ?? [], prices: heatmap.prices ?? [], tags: heatmap.tags ?? [], low: heatmap.low, high: heatmap.high }, auction: views.auction?.shape ?? null, playing: replay.playing, loading: page.loading,
      bars: bars.rows ?? [], spread: views.latency?.shown ?? [],
    };
  },
};

const ladder = new Ladder(find("#ladder"), {
  onlevel: ({ side, price }) => {
    const same = page.chosen?.side === side && page.chosen.price === price;
    page.chosen = same ? null : { side, price };
    showQueue(page.book, page.chosen, page);
    page.dirty = true;
  },
});
const tape = new Tape(find("#tape"));
const heatmap = new Heatmap(find("#heatmap"), { onseek: (at) => page.mode === "lake" && seek(inside(at)) });
const timeline = new Timeline(find("#timeline"), { onseek: (at) => seek(inside(at)), ondrag: (at) => scrub(at) });
const bars = new Bars({ onseek: (at) => page.mode === "lake" && seek(inside(at)) });
const views = { auction: new AuctionView(), latency: new LatencyView(), health: new HealthView() };
const replay = new Replay({
  onproblem: (words) => { problem(words); transport(); },
  onend: () => { transport(); seek(page.at); },
});

// Select a level by keyboard: up and down from the best prices; Escape clears it.
function choose(step) {
  const rows = ladder.rows.filter((row) => row.side !== "spread");
  if (!rows.length) return;
  const index = rows.findIndex((row) => page.chosen && row.side === page.chosen.side && row.price === page.chosen.price);
  const bids = rows.findIndex((row) => row.side === "bid");
  const first = bids < 0 ? rows.length - 1 : step > 0 ? bids : Math.max(0, bids - 1);
  const row = rows[index < 0 ? first : Math.min(rows.length - 1, Math.max(0, index + step))];
  page.chosen = { side: row.side, price: row.price };
  showQueue(page.book, page.chosen, page);
  page.dirty = true;
}

export function problem(words, kind = "bad") {
  const host = find("#notice");
  host.textContent = words ?? "";
  host.dataset.kind = kind;
  host.hidden = !words;
}

async function trying(work) {
  page.loading += 1;
  try {
    const result = await work();
    return result;
  } catch (error) {
    if (error.name !== "AbortError") problem(error.message);
    return null;
  } finally {
    page.loading -= 1;
  }
}

// Keep the current view in the URL, so that it can be bookmarked and shared.
function remember() {
  const words = new URLSearchParams({ day: page.day, symbol: page.about.symbol, channel: page.about.channel, id: page.about.id, at: page.at });
  if (page.view !== "market") words.set("view", page.view);
  history.replaceState(null, "", `#${words}`);
}

// Lake

async function begin() {
  theme(localStorage.getItem("pregao-theme"));
  const config = await trying(() => ask("/api/about"));
  if (!config) return;
  page.mode = config.mode;
  document.body.dataset.mode = config.mode;
  document.title = `Pregão · ${config.name}`;
  find("#zone").textContent = `times in ${config.zone}`;
  if (config.mode === "live") {
    const { beginLive } = await import("./live.js");
    beginLive(page, config, { heatmap, bars, problem, quote, showQueue, COLUMNS, views });
    requestAnimationFrame(paint);
    return;
  }
  page.days = config.days;
  if (!config.days.length) {
    problem(`${config.name} has no books yet: run \`pregao ingest\`, \`pregao books\` and \`pregao analytics\` first.`, "info");
    return;
  }
  for (const { day } of config.days) find("#day").append(element("option", { value: day, text: day }));
  window.addEventListener("hashchange", follow);
  await follow();
  requestAnimationFrame(paint);
}

// Open what the URL names, or say what of it the lake does not have.
async function follow() {
  const words = new URLSearchParams(location.hash.slice(1));
  const [day, symbol, id] = ["day", "symbol", "id"].map((name) => words.get(name));
  const known = !day || page.days.some((one) => one.day === day);
  setDay(known && day ? day : page.days[0].day);
  if (words.get("view")) show(words.get("view"));
  if (!known) return problem(`The link names ${day}, of which this lake has no books. Choose a day or an instrument.`);
  if (!symbol && !id) return first();
  const found = await trying(() => ask("/api/instruments", { day: page.day, q: symbol ?? id }));
  if (!found) return;
  const same = (one) => (!symbol || one.symbol === symbol) && (!id || one.id === id) && (!words.get("channel") || String(one.channel) === words.get("channel"));
  const named = found.instruments.find(same);
  if (named) return open(named, Number(words.get("at")) || null);
  problem(`The link names ${[symbol, id].filter(Boolean).join(", ID ")}, which has no book on ${page.day}. Choose an instrument.`);
}

function setDay(day) {
  page.day = day;
  page.offset = page.days.find((one) => one.day === day).offset;
  find("#day").value = day;
}

async function first() {
  const found = await trying(() => ask("/api/instruments", { day: page.day }));
  if (found?.instruments.length) await open(found.instruments[0]);
  else if (found) problem("No books were built for this day: run `pregao books`.", "info");
}

const choices = new Newest();

async function open({ channel, id }, at = null) {
  replay.pause();
  transport();
  note("#ladder", "loading …");
  const about = await trying(() => choices.ask("/api/instrument", { day: page.day, channel, id }));
  note("#ladder", null);
  if (!about) return;
  page.about = about;
  page.digits = format.decimals(about.tick);
  page.chosen = null;
  page.book = null;
  heatmap.clear();
  problem(null);
  const opened = about.phases.find(([from, until, status]) => status === "OPEN" && (until ?? about.end) > about.begin);
  const start = opened ? Math.max(opened[0], about.begin) : about.begin;
  const later = Math.round(start + 0.25 * ((opened?.[1] ?? about.end) - start));
  find("#symbol").textContent = about.symbol;
  find("#symbol").title = about.description ?? "";
  find("#tape-note").textContent = `${format.count(about.trades)} on this day`;
  if (page.span && page.span > about.end - about.begin) setSpan(60e9);
  const known = at === null || (at >= about.begin && at <= about.end);
  await seek(known ? (at ?? later) : inside(at));
  await trying(() => bars.load(page));
  quote();
  if (!known) await go(at); // says so
  if (page.view !== "market") await trying(() => views[page.view]?.load(page));
}

let seeking = null;

// The nearest time with data, for a pointer that is at the edge of a chart.
const inside = (at) => Math.min(Math.max(Math.round(at), page.about.begin), page.about.end);

// Seek to a time that someone entered, or report that there is no data at it.
async function go(at) {
  if (!page.about) return null;
  const { begin, end } = page.about;
  if (at >= begin && at <= end) {
    problem(null);
    return seek(at);
  }
  const text = (time) => format.clock(time, page.offset, time % format.SECOND ? 9 : 0);
  const day = at < 0 || at >= 86400e9 ? " on this day" : "";
  problem(`There is no data of ${page.about.symbol} at ${text(at)}: it has data from ${text(begin)} to ${text(end)}${day}.`, "info");
  return null;
}

// Seek to a time with data: load the book, the tape, the bars and the heatmap.
async function seek(at) {
  if (!page.about) return;
  const playing = replay.playing;
  replay.pause();
  seeking?.abort();
  seeking = new AbortController();
  const { signal } = seeking;
  page.at = Math.round(at);
  page.dirty = true;
  const target = page.target();
  const request = { ...target, at: page.at };
  page.waiting = true;
  const books = trying(async () => {
    const started = performance.now();
    const [book, trades] = await Promise.all([ask("/api/book", request, signal), ask("/api/trades", { ...request, limit: TAPE }, signal)]);
    page.seekMs = performance.now() - started;
    page.book = book;
    page.trades = trades;
    page.waiting = false;
    page.dirty = true;
    quote();
    showQueue(page.book, page.chosen, page);
  });
  // The book comes first: it must not wait for the heatmap.
  await books;
  if (signal.aborted) return;
  remember();
  await Promise.all([trying(() => (bars.of === page.about ? bars.fetch() : null)), trying(() => loadHeat(signal))]);
  if (playing && !signal.aborted) start();
}

async function loadHeat(signal) {
  const from = page.span ? page.at - page.span : page.about.begin;
  const to = page.span ? page.at : page.about.end;
  if (to <= from) return;
  const slow = setTimeout(() => note("#heatmap", "loading …"), 400);
  let data;
  try {
    data = await ask("/api/heatmap", { ...page.target(), from, to, columns: COLUMNS }, signal);
  } finally {
    clearTimeout(slow);
    note("#heatmap", null);
  }
  if (signal?.aborted || replay.playing) return;
  heatmap.reason = "no book in this time range";
  heatmap.load(data);
  page.dirty = true;
}

// While the timeline is dragged: one request at a time, for the newest position.
let pending = null;
let scrubbing = false;
async function scrub(at) {
  if (replay.playing) { replay.pause(); transport(); }
  page.at = at;
  page.dirty = true;
  pending = at;
  if (scrubbing) return;
  scrubbing = true;
  while (pending !== null) {
    const wanted = pending;
    pending = null;
    const request = { ...page.target(), at: wanted };
    const data = await trying(() => Promise.all([ask("/api/book", request), ask("/api/trades", { ...request, limit: TAPE })]));
    if (!data) break;
    if (timeline.dragging) {
      [page.book, page.trades] = data;
      page.dirty = true;
      quote();
    }
  }
  scrubbing = false;
}

function start() {
  if (!page.about) return;
  if (page.at >= page.about.end) page.at = page.about.begin;
  replay.play(page.target(), page.at, page.about.end);
  if (!page.span) setSpan(600e9);
  transport();
}

function toggle() {
  if (replay.playing) {
    replay.pause();
    transport();
    seek(page.at); // load the exact state at this nanosecond
  } else start();
}

function transport() {
  const button = find("#play");
  button.textContent = replay.playing ? "❚❚" : "▶";
  button.setAttribute("aria-label", replay.playing ? "Pause" : "Play");
}

async function jump(kind, direction) {
  if (!page.about) return;
  const found = await trying(() => ask("/api/jump", { ...page.target(), at: page.at, kind, direction }));
  if (!found) return;
  if (found.at === null) problem(`No ${direction === "next" ? "later" : "earlier"} ${kind} on this day.`, "info");
  else {
    problem(null);
    await seek(found.at);
  }
}

function setSpan(span) {
  page.span = span;
  for (const each of find("#heat-span").children) each.setAttribute("aria-pressed", String(Number(each.dataset.value) === span));
}

// The best price of a side, as the header shows it.
function best(book, side) {
  const [level] = book.sides[side].levels;
  return level ? format.price(level[0], page.digits) : "–";
}

// Update the header: bid, ask, volume, last price, change, phase and state of the book.
function quote() {
  const { book, about, at } = page;
  if (!book || !about) return;
  say(find("#bid"), best(book, 0));
  say(find("#ask"), best(book, 1));
  say(find("#volume"), book.volume === null || book.volume === undefined ? "–" : format.short(book.volume));
  find("#volume").title = `volume ${format.count(book.volume)}`;
  say(find("#last"), book.last === null ? "–" : format.price(book.last, page.digits));
  const from = bars.rows?.find((row) => row[1] !== null)?.[1];
  const change = from && book.last !== null ? (book.last / from - 1) * 100 : null;
  const host = find("#change");
  say(host, change === null ? "" : `${change >= 0 ? "+" : "−"}${Math.abs(change).toFixed(2)} %`);
  host.className = `num ${change >= 0 ? "up" : "down"}`;
  const phase = page.mode === "lake" ? about.phases.findLast(([begun]) => begun <= at)?.[2] : about.status;
  const badge = find("#phase");
  say(badge, format.words(phase));
  badge.dataset.kind = phase === "OPEN" || phase === "open" ? "good" : "warn";
  const state = find("#state");
  say(state, `book ${book.state}`);
  state.dataset.kind = STATES[book.state] ?? "";
  const [bids, asks] = book.sides;
  say(find("#book-note"), `${format.count(bids.orders)} bids · ${format.count(asks.orders)} asks`);
  say(find("#depth-note"), `${format.short(bids.size)} / ${format.short(asks.size)}`);
  say(find("#place"), [
    book.number === null || book.number === undefined ? "" : `packet ${book.number}`,
    book.ends !== null && book.ends !== undefined ? `data ends ${format.clock(book.ends, page.offset, 0)}` : "",
    book.current === false ? "books are outdated: more data was ingested" : "",
  ].filter(Boolean).join(" · "));
  warn("#ladder", book.reason ? `Unconfirmed: ${book.reason}.` : WARNINGS[book.state]);
  if (!replay.playing && page.mode === "lake") {
    const best = [bids, asks].map((side) => (side.levels.length ? `${format.count(side.levels[0][1])} at ${format.price(side.levels[0][0], page.digits)}` : "nothing"));
    find("#ladder").setAttribute("aria-label", `Price ladder: best bid ${best[0]}, best ask ${best[1]}`);
  }
}

// Draw a frame, up to 60 times per second.
let shownAt = null;
let advanced = 0;
function paint(now) {
  requestAnimationFrame(paint); // first, so that an error in one frame does not stop the animation
  page.frames += 1;
  if (replay.playing) {
    const { book, trades } = replay.tick(now);
    page.at = replay.at;
    find("#play").toggleAttribute("aria-busy", replay.stalled);
    if (book) page.book = book;
    if (trades.length) page.trades = [...page.trades, ...trades].slice(-TAPE);
    if (book || trades.length) page.dirty = true;
    if (page.book && page.view === "market") heatmap.follow(page.at, page.book, trades, page.span, COLUMNS);
    if (book && page.frames % 3 === 0) quote();
    if (trades.length) page.traded = true;
    if (book && page.chosen && page.frames % 6 === 0) showQueue(page.book, page.chosen, page);
  }
  const still = !page.dirty && page.at === shownAt && !ladder.moving;
  if (!still && page.view === "market") {
    page.painted += 1;
    ladder.draw(page.book, { digits: page.digits, last: page.book?.last ?? null, chosen: page.chosen, calm: replay.playing && replay.speed > 5 });
    // The ladder is drawn in every frame, the other panels in turns.
    if (page.dirty && (!replay.playing || (page.traded && page.frames % 2 === 0))) {
      tape.draw(page.trades, page);
      page.traded = false;
    }
    if (page.dirty && (!replay.playing || page.frames % 4 === 1)) drawDepth(find("#depth"), page.book, page);
    // The heatmap spans minutes: 20 frames per second suffice.
    if (!replay.playing || page.frames % 3 === 0) heatmap.draw({ tick: page.about?.tick, digits: page.digits, offset: page.offset, at: page.at, span: page.span || (page.about ? page.about.end - page.about.begin : 1) });
    bars.mark(page.at);
    // Bars have the trades up to the time shown, and no later ones.
    if (replay.playing && now - advanced > 500) {
      advanced = now;
      bars.advance().catch((error) => problem(error.message));
    }
  }
  if (page.mode === "lake" && (page.at !== shownAt || page.dirty)) {
    timeline.draw(page.about, page.at, page.offset);
    const clock = find("#clock");
    if ((!replay.playing || page.frames % 3 === 2) && document.activeElement !== clock) clock.value = format.clock(page.at, page.offset, replay.playing ? 3 : 9);
    shownAt = page.at;
  }
  page.dirty = false;
}

// Controls

function show(view) {
  const tab = find(`.views [data-view="${CSS.escape(view)}"]`);
  if (!tab || tab.hidden) return;
  page.view = view;
  document.body.dataset.view = view;
  for (const each of document.querySelectorAll(".views button")) each.setAttribute("aria-selected", String(each === tab));
  for (const each of document.querySelectorAll(".view")) each.hidden = each.dataset.of !== view;
  page.dirty = true;
  heatmap.dirty = true;
  if (page.about && views[view]) trying(() => views[view].load(page));
  if (page.about && page.mode === "lake") remember();
}

function theme(name) {
  const wanted = name ?? (matchMedia("(prefers-color-scheme: light)").matches ? "light" : "dark");
  document.documentElement.dataset.theme = wanted;
  page.dirty = true;
  heatmap.dirty = true;
  restyle();
  if (bars.rows) bars.draw();
  views[page.view]?.draw?.();
}

matchMedia("(prefers-color-scheme: light)").addEventListener("change", () => theme(localStorage.getItem("pregao-theme")));
find("#theme").addEventListener("click", () => {
  const next = document.documentElement.dataset.theme === "dark" ? "light" : "dark";
  localStorage.setItem("pregao-theme", next);
  theme(next);
});
find("#help").addEventListener("click", () => find("#keys").showModal());
find("#play").addEventListener("click", toggle);
find("#back").addEventListener("click", () => jump("trade", "previous"));
find("#next").addEventListener("click", () => jump("trade", "next"));
for (const each of document.querySelectorAll("[data-jump]")) each.addEventListener("click", () => jump(each.dataset.jump, each.dataset.direction));
for (const each of document.querySelectorAll(".views button")) each.addEventListener("click", () => show(each.dataset.view));
find("#day").addEventListener("change", async (event) => { setDay(event.target.value); await first(); });
for (const speed of SPEEDS) find("#speed").append(element("option", { value: speed, text: `${speed}×` }));
find("#speed").value = "1";
find("#speed").addEventListener("change", (event) => replay.faster(Number(event.target.value)));
find("#clock").addEventListener("keydown", (event) => {
  if (event.key === "Escape") event.target.blur();
  if (event.key !== "Enter") return;
  const at = format.parseClock(event.target.value, page.offset);
  if (at === null) problem("Enter a time such as 10:30, 10:30:15 or 10:30:15.000000001.", "info");
  else {
    event.target.blur();
    go(at);
  }
});
choice(find("#heat-span"), SPANS, page.span, (span) => {
  page.span = span;
  if (page.mode === "lake" && !replay.playing) trying(() => loadHeat());
  else heatmap.clear();
  heatmap.reason = "the book is drawn as time passes";
});
const search = new Search({
  parameters: () => ({ day: page.day }),
  onchoice: (one) => (page.choose ? page.choose(one) : open(one)),
  onproblem: problem,
});
new ResizeObserver(() => { page.dirty = true; heatmap.dirty = true; views[page.view]?.draw?.(); }).observe(find("main"));

addEventListener("keydown", (event) => {
  if (event.target.matches("input, select, textarea") || event.ctrlKey || event.metaKey || find("#keys").open) return;
  const step = event.altKey ? 1e6 : event.shiftKey ? 60e9 : 1e9;
  const faster = (by) => {
    const index = Math.min(SPEEDS.length - 1, Math.max(0, SPEEDS.indexOf(replay.speed) + by));
    find("#speed").value = String(SPEEDS[index]);
    replay.faster(SPEEDS[index]);
  };
  const lake = {
    " ": toggle, ArrowLeft: () => go(page.at - step), ArrowRight: () => go(page.at + step),
    ",": () => jump("trade", "previous"), ".": () => jump("trade", "next"), "[": () => jump("phase", "previous"),
    "]": () => jump("phase", "next"), g: () => jump("gap", "previous"), G: () => jump("gap", "next"),
    "+": () => faster(1), "=": () => faster(1), "-": () => faster(-1),
  };
  const any = {
    ArrowUp: () => choose(-1), ArrowDown: () => choose(1),
    Escape: () => { page.chosen = null; showQueue(page.book, null, page); page.dirty = true; },
    "/": () => search.input.focus(), t: () => find("#theme").click(), "?": () => find("#keys").showModal(),
    1: () => show("market"), 2: () => show("auction"), 3: () => show("latency"), 4: () => show("health"), 5: () => show("exchange"),
  };
  const act = any[event.key] ?? (page.mode === "lake" ? lake[event.key] : null);
  if (act && !(event.key === " " && event.target.matches("button"))) {
    event.preventDefault();
    act();
  }
});

begin();
