// Checks of the page in a browser: texts of canvases, what is cut, and contrast.
// Playwright runs this before the page's own scripts.

window.__checks = (() => {
  const texts = {};

  // Record the texts that canvases draw; a drawing begins with `setTransform`.
  const { setTransform, fillText } = CanvasRenderingContext2D.prototype;
  CanvasRenderingContext2D.prototype.setTransform = function record(...given) {
    texts[this.canvas.id] = [];
    return setTransform.apply(this, given);
  };
  CanvasRenderingContext2D.prototype.fillText = function record(text, x, y, ...rest) {
    const { width } = this.measureText(text);
    const center = x + ({ left: 0.5, right: -0.5 }[this.textAlign] ?? 0) * width;
    texts[this.canvas.id]?.push({ text, x: center, y, width });
    return fillText.call(this, text, x, y, ...rest);
  };

  // Controls and texts that are cut or outside, and a page that is wider than its window.
  function cut() {
    const found = [];
    if (document.documentElement.scrollWidth > innerWidth) found.push("page");
    const whole = "#clock, #symbol, .quote > *, .panel h2, .legend, .views button";
    for (const each of document.querySelectorAll(whole)) {
      if (!each.checkVisibility()) continue;
      const box = each.getBoundingClientRect();
      const name = each.id || each.textContent.trim();
      const inline = getComputedStyle(each).display === "inline";
      if (!inline && each.scrollWidth > each.clientWidth + 1) found.push(`${name} is cut`);
      if (box.left < 0 || box.right > innerWidth + 0.5) found.push(`${name} is outside`);
    }
    if (document.querySelector("#play").getBoundingClientRect().bottom > innerHeight) found.push("play");
    return found;
  }

  // Contrast as the Web Content Accessibility Guidelines define it.
  let paper;
  function rgba(color) {
    paper ??= document.createElement("canvas").getContext("2d", { willReadFrequently: true });
    paper.clearRect(0, 0, 1, 1);
    paper.fillStyle = color;
    paper.fillRect(0, 0, 1, 1);
    const [red, green, blue, alpha] = paper.getImageData(0, 0, 1, 1).data;
    return [red, green, blue, alpha / 255];
  }
  const over = (top, below) => [...[0, 1, 2].map((at) => top[at] * top[3] + below[at] * (1 - top[3])), 1];
  const luminance = (color) => [0.2126, 0.7152, 0.0722].reduce((sum, weight, at) => {
    const part = color[at] / 255;
    return sum + weight * (part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4);
  }, 0);
  function ratio(one, other) {
    const [low, high] = [luminance(one), luminance(other)].sort((a, b) => a - b);
    return (high + 0.05) / (low + 0.05);
  }

  // Texts whose contrast is below 4.5, or below 3 if they are large.
  function unreadable() {
    const found = [];
    for (const each of document.querySelectorAll("body *")) {
      const own = [...each.childNodes].filter((node) => node.nodeType === Node.TEXT_NODE);
      const text = own.map((node) => node.textContent.trim()).join("");
      if (!text || !each.checkVisibility() || each.closest("script, [disabled], .chart")) continue;
      const style = getComputedStyle(each);
      const layers = [];
      for (let node = each; node; node = node.parentElement) layers.push(rgba(getComputedStyle(node).backgroundColor));
      const ground = layers.reduceRight((below, layer) => over(layer, below), [255, 255, 255, 1]);
      const size = parseFloat(style.fontSize);
      const large = size >= 24 || (size >= 18.66 && style.fontWeight >= 700);
      const contrast = ratio(over(rgba(style.color), ground), ground);
      if (contrast < (large ? 3 : 4.5)) found.push(`${text.slice(0, 40)}: ${contrast.toFixed(2)}`);
    }
    return found;
  }

  // Pairs of colors, text and ground, with which canvases are drawn, and whose contrast is low.
  function palette() {
    const style = getComputedStyle(document.documentElement);
    const color = (name) => rgba(style.getPropertyValue(`--${name}`));
    const pairs = ["text", "muted", "bid", "ask", "accent"].map((name) => [name, "panel"]);
    pairs.push(["muted", "raised"], ["text", "raised"]);
    pairs.push(["panel", "bid"], ["panel", "ask"], ["panel", "accent"]);
    return pairs.filter(([one, other]) => ratio(color(one), color(other)) < 4.5);
  }

  return { texts, cut, unreadable, palette };
})();
