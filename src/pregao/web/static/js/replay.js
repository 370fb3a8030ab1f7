// Replay: books and trades are requested in advance and shown when their time comes.

import { Line } from "./api.js";
import { SECOND } from "./format.js";

const FRAMES_A_SECOND = 60;
const AHEAD_S = 2;
const OUTSTANDING = 2;

export class Replay {
  constructor({ onproblem, onend }) {
    this.handlers = { onproblem, onend };
    this.playing = false;
    this.speed = 1;
    this.at = 0;
    this.line = null;
    this.session = 0;
    this.reset();
  }

  reset() {
    this.session += 1;
    this.frames = [];
    this.trades = [];
    this.outstanding = 0;
    this.stalled = false;
  }

  play(target, at, end) {
    this.reset();
    this.target = target;
    this.at = at;
    this.end = end;
    this.buffered = at;
    this.requested = at;
    this.playing = true;
    this.last = null;
    this.line ??= new Line("/ws/replay", {
      onmessage: (message) => this.take(message),
      onlost: () => {
        this.outstanding = 0;
        this.requested = this.buffered;
      },
    });
    this.more();
  }

  pause() {
    this.playing = false;
    this.reset();
  }

  faster(speed) {
    this.speed = speed;
    if (this.playing) this.play(this.target, this.at, this.end);
  }

  more() {
    const ahead = AHEAD_S * this.speed * SECOND;
    while (this.outstanding < OUTSTANDING && this.requested < this.end && this.requested - this.at < ahead) {
      // The first range is short, so that the replay starts immediately.
      const length = this.requested === this.buffered && !this.frames.length ? 0.4 : 1;
      const to = Math.min(this.end, Math.round(this.requested + length * this.speed * SECOND));
      const step = Math.max(100000, Math.round((this.speed * SECOND) / FRAMES_A_SECOND));
      this.line.send({ request: this.session, ...this.target, from: this.requested, to: Math.max(to, this.requested + 1), step });
      this.requested = to;
      this.outstanding += 1;
    }
  }

  take(message) {
    if (message.request !== this.session) return;
    this.outstanding -= 1;
    if (message.error) {
      this.pause();
      this.handlers.onproblem(message.error);
      return;
    }
    this.frames.push(...message.frames);
    this.trades.push(...message.trades);
    this.buffered = message.to;
    this.more();
  }

  // Advance the clock; return the current book (null if unchanged) and new trades.
  tick(now) {
    const elapsed = this.last === null ? 0 : Math.min(100, now - this.last);
    this.last = now;
    const target = this.at + elapsed * 1e6 * this.speed;
    this.stalled = target > this.buffered && this.buffered < this.end;
    this.at = Math.round(Math.min(target, this.buffered));
    let book = null;
    while (this.frames.length && this.frames[0].at <= this.at) book = this.frames.shift();
    const trades = [];
    while (this.trades.length && this.trades[0][0] <= this.at) trades.push(this.trades.shift());
    this.more();
    if (this.at >= this.end) {
      this.pause();
      this.handlers.onend();
    }
    return { book, trades };
  }
}
