// Timeline of a day: traded quantity, phases, gaps, and the current time.

import { alpha, colours, surface } from "./dom.js";
import * as format from "./format.js";

const SHADES = { OPEN: "bid", RESERVED: "accent", FINAL_CLOSING_CALL: "accent", PAUSE: "ask", FORBIDDEN: "ask", PRE_CLOSE: "muted", CLOSE: "muted" };

export class Timeline {
  constructor(canvas, { onseek, ondrag }) {
    this.canvas = canvas;
    this.dragging = false;
    const seek = (event, done) => {
      if (!this.about) return;
      const { begin, end } = this.about;
      const share = Math.min(1, Math.max(0, event.offsetX / canvas.clientWidth));
      (done ? onseek : ondrag)(Math.round(begin + share * (end - begin)));
    };
    canvas.addEventListener("pointerdown", (event) => {
      this.dragging = true;
      canvas.setPointerCapture(event.pointerId);
      seek(event, false);
    });
    canvas.addEventListener("pointermove", (event) => this.dragging && seek(event, false));
    canvas.addEventListener("pointerup", (event) => {
      if (!this.dragging) return;
      this.dragging = false;
      seek(event, true);
    });
    canvas.addEventListener("pointercancel", () => { this.dragging = false; });
  }

  draw(about, at, offset) {
    const spot = about ? Math.round(((at - about.begin) / Math.max(1, about.end - about.begin)) * this.canvas.clientWidth) : 0;
    const shown = `${about?.id} ${about?.day} ${spot} ${this.canvas.clientWidth} ${document.documentElement.dataset.theme}`;
    if (shown === this.shown && this.about === about) return;
    this.shown = shown;
    this.about = about;
    const { context: draw, width, height } = surface(this.canvas);
    if (!about) return;
    const hue = colours();
    const { begin, end } = about;
    const x = (time) => ((time - begin) / Math.max(1, end - begin)) * width;
    const band = 13;
    const largest = Math.max(1, ...about.activity);
    const bar = width / about.activity.length;
    about.activity.forEach((volume, index) => {
      if (!volume) return;
      const tall = Math.max(1, Math.sqrt(volume / largest) * (height - band - 6));
      const passed = begin + ((index + 1) / about.activity.length) * (end - begin) <= at;
      draw.fillStyle = alpha(hue.muted, passed ? 0.75 : 0.32);
      draw.fillRect(index * bar, height - band - tall, Math.max(1, bar - 1), tall);
    });
    draw.font = `10px ${hue.sans}`;
    draw.textBaseline = "middle";
    for (const [from, until, status] of about.phases) {
      const left = Math.max(0, x(from));
      const right = Math.min(width, until === null ? width : x(until));
      if (right <= left) continue;
      draw.fillStyle = alpha(hue[SHADES[status] ?? "muted"], 0.32);
      draw.fillRect(left, height - band + 1, Math.max(1, right - left - 1), band - 1);
      const text = format.words(status);
      if (right - left > draw.measureText(text).width + 10) {
        draw.fillStyle = hue.text;
        draw.textAlign = "left";
        draw.fillText(text, left + 5, height - band / 2 + 0.5);
      }
    }
    draw.fillStyle = hue.bad;
    for (const [time] of about.gaps) draw.fillRect(x(time) - 1, 0, 2, 7);
    const cursor = Math.round(x(at));
    draw.fillStyle = hue.accent;
    draw.fillRect(cursor - 1, 0, 2, height);
    draw.beginPath();
    draw.moveTo(cursor - 5, 0);
    draw.lineTo(cursor + 5, 0);
    draw.lineTo(cursor, 6);
    draw.fill();
    this.canvas.setAttribute("aria-valuetext", format.clock(at, offset, 3));
    this.canvas.setAttribute("aria-valuemin", begin);
    this.canvas.setAttribute("aria-valuemax", end);
    this.canvas.setAttribute("aria-valuenow", at);
  }
}
