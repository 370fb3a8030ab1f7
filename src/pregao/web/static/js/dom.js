// Elements and canvases. Text is always set as text content, never as markup.

export const find = (selector) => document.querySelector(selector);

export function element(name, attributes = {}, ...children) {
  const node = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (key === "text") node.textContent = value;
    else if (key.startsWith("on")) node.addEventListener(key.slice(2), value);
    else node.setAttribute(key, value === true ? "" : String(value));
  }
  for (const child of children) if (child) node.append(child);
  return node;
}

// A table of strings; columns are [title, whether it is numeric].
export function table(columns, rows, empty = "nothing") {
  if (!rows.length) return element("p", { class: "note", text: empty });
  const head = element("tr");
  for (const [title, numeric] of columns) head.append(element("th", { class: numeric ? "n" : null, text: title }));
  const body = element("tbody");
  for (const row of rows) {
    const line = element("tr");
    row.forEach((value, index) => line.append(element("td", { class: columns[index][1] ? "n" : null, text: value ?? "" })));
    body.append(line);
  }
  return element("table", {}, element("thead", {}, head), body);
}

// A group of buttons, one of which is pressed.
export function choice(host, names, chosen, onchoice) {
  host.replaceChildren();
  for (const [value, title] of names) {
    host.append(
      element("button", {
        type: "button", text: title, "aria-pressed": String(value === chosen), "data-value": value,
        onclick: () => {
          for (const each of host.children) each.setAttribute("aria-pressed", String(each.dataset.value === String(value)));
          onchoice(value);
        },
      }),
    );
  }
}

export const note = (panel, text) => {
  const host = typeof panel === "string" ? find(panel).closest(".panel") : panel;
  if (text) host.dataset.note = text;
  else delete host.dataset.note;
};

// Show a warning that covers nothing.
export const warn = (panel, text) => {
  const host = find(panel).closest(".panel");
  if (text) host.dataset.warning = text;
  else delete host.dataset.warning;
};

const palette = {};
export function colours() {
  const theme = document.documentElement.dataset.theme;
  if (palette.theme !== theme) {
    const style = getComputedStyle(document.documentElement);
    for (const name of ["bg", "panel", "raised", "line", "text", "muted", "bid", "ask", "accent", "bad", "mono", "sans"]) {
      palette[name] = style.getPropertyValue(`--${name}`).trim();
    }
    palette.theme = theme;
  }
  return palette;
}

// Scale a canvas to the device pixel ratio and clear it; return its context and size.
export function surface(canvas) {
  const hue = colours();
  const ratio = window.devicePixelRatio || 1;
  const { clientWidth: width, clientHeight: height } = canvas;
  if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) {
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(height * ratio);
  }
  const context = canvas.getContext("2d", { alpha: false });
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.fillStyle = hue.panel;
  context.fillRect(0, 0, width, height);
  return { context, width, height };
}

const mixed = new Map();
export function alpha(color, share) {
  const key = color + share;
  let known = mixed.get(key);
  if (known === undefined) {
    if (mixed.size > 2000) mixed.clear();
    known = withAlpha(color, share);
    mixed.set(key, known);
  }
  return known;
}

// Show a text while the pointer is over something that `textAt` describes, by its offset.
export function hover(host, textAt) {
  const tip = find("#tip");
  const hide = () => { tip.hidden = true; };
  host.addEventListener("pointerleave", hide);
  host.addEventListener("pointerdown", hide);
  host.addEventListener("pointermove", (event) => {
    const text = event.buttons ? null : textAt(event.offsetX, event.offsetY);
    tip.hidden = !text;
    if (!text) return;
    say(tip, text);
    const { clientWidth: width, clientHeight: height } = tip;
    tip.style.left = `${Math.max(4, Math.min(innerWidth - width - 6, event.clientX + 14))}px`;
    tip.style.top = `${event.clientY + 18 + height > innerHeight ? event.clientY - height - 10 : event.clientY + 18}px`;
  });
}

// Names of the lines of a chart, in their colors.
export function legend(panel, entries) {
  const head = (typeof panel === "string" ? find(panel).closest(".panel") : panel).querySelector("h2");
  let host = head.querySelector(".legend");
  if (!host) head.append(host = element("span", { class: "legend" }));
  host.replaceChildren(...entries.map(([name, color]) => {
    const swatch = element("i");
    swatch.style.background = color;
    const entry = element("span", {}, swatch);
    entry.append(name);
    return entry;
  }));
}

// Set text only if it changed.
export function say(host, text) {
  if (host.textContent !== text) host.textContent = text;
}

function withAlpha(color, share) {
  const found = /^#([0-9a-f]{2})([0-9a-f]{2})([0-9a-f]{2})$/i.exec(color);
  if (!found) return color;
  return `rgb(${parseInt(found[1], 16)} ${parseInt(found[2], 16)} ${parseInt(found[3], 16)} / ${share})`;
}
