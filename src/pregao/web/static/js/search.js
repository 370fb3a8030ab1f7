// Search for an instrument while typing; selection by keyboard or pointer.

import { ask } from "./api.js";
import { element, find } from "./dom.js";
import * as format from "./format.js";

export class Search {
  constructor({ parameters, onchoice, onproblem }) {
    this.input = find("#search");
    this.list = find("#found");
    this.handlers = { parameters, onchoice, onproblem };
    this.found = [];
    this.at = 0;
    this.input.addEventListener("input", () => this.look());
    this.input.addEventListener("focus", () => { this.input.select(); this.look(); });
    this.input.addEventListener("keydown", (event) => this.key(event));
    this.input.addEventListener("blur", () => setTimeout(() => document.activeElement !== this.input && this.close(), 150));
  }

  // Return whether the server responded before the input changed again.
  async look() {
    this.asked?.abort();
    this.asked = new AbortController();
    try {
      const data = await ask("/api/instruments", { ...this.handlers.parameters(), q: this.input.value }, this.asked.signal);
      this.found = data.instruments;
      this.at = 0;
      if (document.activeElement === this.input) this.show(data);
      return true;
    } catch (error) {
      if (error.name !== "AbortError") this.handlers.onproblem(error.message);
      return false;
    }
  }

  show(data) {
    this.list.replaceChildren();
    this.found.forEach((one, at) => {
      const row = element("li", { role: "option", "aria-selected": String(at === this.at) },
        element("b", { text: one.symbol }),
        element("span", { text: one.description ?? "" }),
        element("span", { class: "num", text: `${format.short(one.messages ?? 0)} msg` }));
      row.addEventListener("pointerdown", (event) => { event.preventDefault(); this.choose(at); });
      this.list.append(row);
    });
    if (!this.found.length) this.list.append(element("li", { class: "nothing", text: "no matching instrument" }));
    else if (data.count > this.found.length) this.list.append(element("li", { class: "nothing", text: `and ${format.count(data.count - this.found.length)} more` }));
    this.list.hidden = false;
    this.input.setAttribute("aria-expanded", "true");
  }

  close() {
    this.list.hidden = true;
    this.input.setAttribute("aria-expanded", "false");
  }

  key(event) {
    const moves = { ArrowDown: 1, ArrowUp: -1 };
    if (event.key in moves && this.found.length) {
      event.preventDefault();
      this.at = (this.at + moves[event.key] + this.found.length) % this.found.length;
      [...this.list.querySelectorAll('[role="option"]')].forEach((row, at) => {
        row.setAttribute("aria-selected", String(at === this.at));
        if (at === this.at) row.scrollIntoView({ block: "nearest" });
      });
    } else if (event.key === "Enter") {
      event.preventDefault();
      // The user may type faster than the server responds: search again, then choose the first.
      this.look().then((answered) => answered && this.found.length && this.choose(Math.min(this.at, this.found.length - 1)));
    } else if (event.key === "Escape") {
      this.input.blur();
    }
  }

  choose(at) {
    const one = this.found[at];
    this.close();
    this.input.value = "";
    this.input.blur();
    if (one) this.handlers.onchoice(one);
  }
}
